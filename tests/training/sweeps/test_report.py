"""Which of several settings is best, and by how much."""

import pytest

from training.sweeps.picture import draw
from training.sweeps.report import Finished, Report, Row, report_of, text_of
from vaswani_hf.evaluation import Metric, compare


REFERENCES = [f"word_{n} and word_{n + 1} or word_{n + 2}" for n in range(60)]
METRIC = Metric("bleu")


def with_errors(count):
    """Translations, so many of them wrong."""
    return ["no"] * count + REFERENCES[count:]


def finished(count, seconds=60):
    scores = {"bleu": 0.0, "chrf++": 40.0, "loss_nats_per_token": 1.0}
    results = {
        "scores": {"validation": scores},
        "training": {"elapsed_seconds": seconds, "updates": 5},
        "parameters": 10,
    }
    return Finished(results, with_errors(count), REFERENCES)


def report(errors):
    """Of settings by their name, with the errors of each seed."""
    runs = {
        name: dict(enumerate(map(finished, counts), start=1)) for name, counts in errors.items()
    }
    return report_of("tiny", {name: {"dropout": name} for name in errors}, runs, METRIC)


def test_with_one_seed_settings_are_told_apart_by_the_paired_tests():
    found = report({"bad": [30], "best": [2], "near": [3]})
    assert [row.name for row in found.rows] == ["best", "near", "bad"]
    assert [row.is_apart for row in found.rows] == [False, False, True]
    texts = {"best": with_errors(2), "near": with_errors(3), "bad": with_errors(30)}
    (expected,) = compare(texts, [REFERENCES], [METRIC])
    for row, system in zip(found.rows, expected.systems, strict=True):
        assert row.score == pytest.approx(system.score)
        assert (row.p_bootstrap, row.p_randomization) == (
            system.p_bootstrap,
            system.p_randomization,
        )
        assert row.behind == pytest.approx(expected.systems[0].score - system.score)
    assert "with one seed each, another seed may turn the order" in text_of(found)
    assert text_of(found).endswith("Not told apart from it: dropout=near.\n")


def test_equal_translations_are_never_told_apart():
    found = report({"one": [2], "other": [2]})
    assert [row.p_bootstrap for row in found.rows] == [None, None]
    assert [row.name for row in found.level] == ["other"]


def test_with_several_seeds_the_means_are_compared_and_the_seeds_count():
    # The seeds of a setting are as far apart as the settings, or much nearer.
    apart = report({"one": [0, 20], "other": [10, 30]})
    near = report({"one": [1, 2], "other": [20, 21]})
    assert [row.name for row in apart.rows] == [row.name for row in near.rows] == ["one", "other"]
    assert apart.best.score == pytest.approx(
        sum(figures["score"] for figures in apart.best.seeds.values()) / 2
    )
    assert not apart.rows[1].is_apart and near.rows[1].is_apart
    assert apart.seed_degrees_of_freedom == 2  # one of each setting
    assert apart.rows[1].ci > near.rows[1].ci
    assert apart.rows[1].p_bootstrap is None
    assert "degrees of freedom" in text_of(near)
    assert text_of(near).endswith("It is better than every other beyond chance.\n")


def test_a_setting_with_fewer_seeds_is_compared_too():
    found = report({"one": [1, 2], "other": [20]})
    assert found.rows[1].is_apart and found.seed_degrees_of_freedom == 1


def test_runs_of_different_validation_sets_are_refused():
    one, other = finished(0), finished(0)
    runs = {"one": {1: one}, "other": {1: Finished(other.results, ["a"], ["a"])}}
    with pytest.raises(ValueError, match="the same validation set"):
        report_of("tiny", {"one": {}, "other": {}}, runs, METRIC)
    with pytest.raises(ValueError, match="No run has finished"):
        report_of("tiny", {}, {}, METRIC)


def test_a_run_without_translations_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no translations of a validation set"):
        Finished.of(tmp_path, {"scores": {}})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_has_every_setting_in_the_order_of_the_grid(theme):
    order = ["bad", "best", "near"]
    figure = draw(report({"bad": [30, 31], "best": [2, 4], "near": [3, 3]}), order, theme)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["dropout=bad", "dropout=best", "dropout=near"]
    (legend,) = figure.legends
    named = {text.get_text() for text in legend.get_texts()}
    assert {"the best", "a seed", "the best mean"} <= named
    assert any(name.startswith("worse beyond chance") for name in named)


def test_of_many_settings_the_best_are_drawn():
    rows = tuple(Row(f"s{n}", {"seed": n}, {1: {}}, 50.0 - n, 0.0, 0.0) for n in range(45))
    figure = draw(Report("tiny", "bleu", "", 60, None, 0, rows), [row.name for row in rows])
    assert len(figure.axes[0].get_yticklabels()) == 40
