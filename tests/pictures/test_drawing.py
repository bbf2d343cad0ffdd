import pytest

from vaswani_hf.pictures.drawing import (
    Curve,
    columns_on_slide,
    draw_curve,
    finish,
    fonts_for,
    new_figure,
    save_picture,
    shades_of,
    theme_of,
)


to_hex = pytest.importorskip("matplotlib.colors").to_hex


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
    ("count", "size", "margins", "columns"),
    [
        # By hand: of 13.33 x 7.5 inches a slide, 2 x 2 squares fill 3.75 each, 1 x 4 fill 3.33.
        (4, (1.0, 1.0), (0.0, 0.0), 2),
        (4, (2.0, 1.0), (0.0, 0.0), 2),
        (4, (1.0, 3.0), (0.0, 0.0), 4),
        (4, (1.0, 1.0), (0.0, 9.0), 4),  # what stands below leaves room for one row
        (1, (1.0, 9.0), (0.0, 0.0), 1),
    ],
)
def test_pictures_stand_so_that_they_are_largest_on_a_slide(count, size, margins, columns):
    assert columns_on_slide(count, size, margins) == columns


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")]
)
def test_a_picture_has_the_format_of_its_suffix(tmp_path, suffix, start):
    save_picture(new_figure(), tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").read_bytes().startswith(start)


def test_a_notebook_shows_a_figure():
    # IPython shows what an object's _repr_png_ gives.
    assert new_figure()._repr_png_().startswith(b"\x89PNG")


def test_an_unknown_suffix_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"picture\.gif: .*\.png, \.svg, \.pdf"):
        save_picture(new_figure(), tmp_path / "picture.gif")
    assert list(tmp_path.iterdir()) == []


def test_characters_that_no_font_has_are_named_below():
    figure = new_figure("dark")
    figure.subplots().set_title("a \U0001fffd b")  # a code that stands for nothing
    note = [text.get_text() for text in finish(figure, "dark").texts]
    assert figure.axes[0].get_title() == "a □ b"
    assert note == ["□: no installed font has U+1FFFD; install one, such as Noto."]


def test_matplotlibs_own_font_is_enough_for_what_it_has():
    assert fonts_for("Größe ▁weiß </s> …") == (["DejaVu Sans"], "")


def test_axes_have_the_colours_of_the_theme():
    figure = new_figure("dark")
    axes = figure.subplots()
    axes.set_xlabel("x")
    axes.text(0, 0, "chosen", color="#ff0000")
    inside = axes.inset_axes((1, 0, 0.1, 1))
    finish(figure, "dark")
    dark = theme_of("dark")
    assert to_hex(figure.get_facecolor()) == to_hex(axes.get_facecolor()) == dark.paper.lower()
    assert axes.xaxis.label.get_color() == dark.ink
    assert axes.texts[0].get_color() == "#ff0000"
    assert inside.yaxis.get_ticklabels()[0].get_color() == dark.ink


def test_shades_differ_in_lightness_from_one_to_the_next():
    for name in ("light", "dark"):
        rows = [shades_of(name)(place / 20)[:3] for place in range(21)]
        light = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in rows]
        assert light in (sorted(light), sorted(light, reverse=True))
