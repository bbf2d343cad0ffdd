import pytest

from vaswani_hf.pictures.drawing import Curve, draw_curve, new_figure, save_picture


pytest.importorskip("matplotlib")


def scale_of(values, *, is_ratio):
    axes = new_figure().subplots()
    curve = Curve("perplexity", "perplexity", is_ratio)
    draw_curve(axes, curve, [([1, 2], values)], ["run"])
    return axes.get_yscale()


def test_a_ratio_that_falls_far_is_drawn_by_its_logarithm():
    assert scale_of([900.0, 9.0], is_ratio=True) == "log"
    assert scale_of([12.0, 9.0], is_ratio=True) == "linear"
    assert scale_of([900.0, 9.0], is_ratio=False) == "linear"


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")]
)
def test_a_picture_has_the_format_of_its_suffix(tmp_path, suffix, start):
    save_picture(new_figure(), tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").read_bytes().startswith(start)


def test_an_unknown_suffix_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"picture\.gif: .*\.png, \.svg, \.pdf"):
        save_picture(new_figure(), tmp_path / "picture.gif")
    assert list(tmp_path.iterdir()) == []
