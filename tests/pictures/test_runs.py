import json
import sys

import pytest

from vaswani_hf.pictures.runs import plot_training, read_log


pytest.importorskip("matplotlib")

# (update, nats per token, learning rate), (update, perplexity per token, BLEU)
TRAINING = [(10, 6.5, 1e-4), (20, 5.25, 2e-4), (30, 4.0, 1.5e-4)]
VALIDATION = [(15, 80.0, 1.5), (30, 30.0, 12.25)]


def log(training=TRAINING, validation=VALIDATION):
    entries = [
        {"step": step, "loss_nats_per_token": loss, "learning_rate": rate}
        for step, loss, rate in training
    ]
    entries += [
        {"step": step, "eval_perplexity_per_token": perplexity, "eval_bleu": bleu}
        for step, perplexity, bleu in validation
    ]
    return sorted(entries, key=lambda entry: entry["step"])


def finished(folder, entries):
    folder.mkdir(parents=True)
    (folder / "log_history.json").write_text(json.dumps(entries))
    return folder


def checkpoint(folder, step, entries):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(json.dumps({"log_history": entries}))
    return path


def drawn(figure):
    """What each curve's axes holds: its label, and the points of its lines."""
    return {
        axes.get_ylabel(): [
            list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in axes.lines
        ]
        for axes in figure.axes
        if axes.axison
    }


def test_every_curve_has_the_points_of_the_log(tmp_path):
    assert drawn(plot_training(finished(tmp_path / "a", log()))) == {
        "training loss (nats per token)": [[(10, 6.5), (20, 5.25), (30, 4.0)]],
        "validation perplexity (per token)": [[(15, 80.0), (30, 30.0)]],
        "validation BLEU": [[(15, 1.5), (30, 12.25)]],
        "learning rate": [[(10, 1e-4), (20, 2e-4), (30, 1.5e-4)]],
    }


def test_every_curve_is_over_the_same_updates(tmp_path):
    figure = plot_training(finished(tmp_path / "a", log()))
    assert {axes.get_xlabel() for axes in figure.axes} == {"updates"}
    assert len({axes.get_xlim() for axes in figure.axes}) == 1


def test_a_run_without_evaluations_has_its_two_curves(tmp_path):
    curves = drawn(plot_training(finished(tmp_path / "a", log(validation=[]))))
    assert curves.keys() == {"training loss (nats per token)", "learning rate"}


def test_several_runs_share_the_axes_and_are_told_apart(tmp_path):
    runs = [
        finished(tmp_path / "first", log()),
        finished(tmp_path / "second", log(TRAINING[:2], VALIDATION[:1])),
        finished(tmp_path / "third", log(TRAINING, [])),
    ]
    figure = plot_training(*runs)
    assert drawn(figure)["validation BLEU"] == [[(15, 1.5), (30, 12.25)], [(15, 1.5)]]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second", "third"]
    # A run has one colour, also where one before it has no curve.
    by_run = {}
    for axes in figure.axes:
        for line in axes.lines:
            by_run.setdefault(line.get_label(), set()).add(line.get_color())
    assert [len(colours) for colours in by_run.values()] == [1, 1, 1]
    assert len(set.union(*by_run.values())) == 3


def test_runs_with_the_same_name_are_named_with_what_is_before_it(tmp_path):
    runs = [finished(tmp_path / name / "base", log()) for name in ("x", "y")]
    (legend,) = plot_training(*runs).legends
    assert [text.get_text() for text in legend.get_texts()] == ["x/base", "y/base"]


def test_one_run_needs_no_legend_but_its_name(tmp_path):
    figure = plot_training(finished(tmp_path / "multi30k", log()))
    assert figure.legends == []
    assert figure.get_suptitle() == "multi30k"


def test_a_run_that_goes_on_is_read_from_its_newest_checkpoint(tmp_path):
    checkpoint(tmp_path, 20, log()[:2])
    checkpoint(tmp_path, 100, log())
    assert read_log(tmp_path) == log()


def test_a_run_that_went_on_after_its_end_is_read_to_its_new_end(tmp_path):
    folder = finished(tmp_path / "a", log()[:2])
    checkpoint(folder, 30, log())
    assert read_log(folder) == log()


def test_a_torn_checkpoint_is_passed_over(tmp_path):
    checkpoint(tmp_path, 20, log()[:2])
    (checkpoint(tmp_path, 30, log()) / "trainer_state.json").write_text('{"log_hist')
    assert read_log(tmp_path) == log()[:2]


def test_a_checkpoint_can_be_read_by_itself(tmp_path):
    assert read_log(checkpoint(tmp_path, 30, log())) == log()


@pytest.mark.parametrize("content", ["", '[{"step": 1', "null", "[1, 2]", '{"log_history": 3}'])
def test_a_damaged_log_is_told_by_its_name(tmp_path, content):
    path = tmp_path / "log_history.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"{path} is damaged"):
        plot_training(tmp_path)
    (checkpoint(tmp_path, 30, log()) / "trainer_state.json").write_text(content)
    with pytest.raises(ValueError, match=r"log_history\.json, .*trainer_state\.json are damaged"):
        plot_training(tmp_path)


def test_a_folder_without_a_run_is_refused_by_name(tmp_path):
    message = f"{tmp_path} holds no run: there is neither log_history.json nor a checkpoint"
    with pytest.raises(ValueError, match=message):
        plot_training(tmp_path)
    with pytest.raises(ValueError, match="nowhere is not a folder"):
        plot_training(tmp_path / "nowhere")


def test_a_log_without_figures_is_refused(tmp_path):
    folder = finished(tmp_path / "a", [{"step": 3, "epoch": 0.1}])
    with pytest.raises(ValueError, match="nothing to plot, since the log has none of loss_nats_p"):
        plot_training(folder)


def test_a_missing_matplotlib_is_named_with_its_extra(tmp_path, monkeypatch):
    folder = finished(tmp_path / "a", log())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "vaswani-hf\[plot\]"'):
        plot_training(folder)
