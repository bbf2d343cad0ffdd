import math

import pytest
import torch

from vaswani_hf.pictures import Calibration, ConfidenceBin, measure_calibration, plot_loss


pytest.importorskip("matplotlib")

SOURCES, TARGETS = ["a bead fed cab", "bad", ""], ["decade bad a", "a a bed", "fed"]


def test_confidence_and_accuracy_are_those_of_the_models_probabilities(translator):
    # By hand: one pair after the other, all of it without batches.
    found = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        ids = translator.tokenizer(target)["input_ids"]
        start = translator.model.config.decoder_start_token_id
        with torch.no_grad():
            logits = translator.model(
                input_ids=torch.tensor([translator.tokenizer(source)["input_ids"]]),
                decoder_input_ids=torch.tensor([[start, *ids[:-1]]]),
            ).logits[0]
        for row, token in zip(logits.softmax(dim=-1), ids, strict=True):
            found.append((row.max().item(), row.argmax().item() == token))
    measured = measure_calibration(translator, SOURCES, TARGETS, num_bins=4)
    assert measured.num_tokens == len(found)
    for one in measured.bins:
        inside = [(sure, right) for sure, right in found if one.low < sure <= one.high]
        assert one.num_tokens == len(inside)
        if inside:
            assert one.confidence == pytest.approx(sum(s for s, _ in inside) / len(inside))
            assert one.accuracy == pytest.approx(sum(r for _, r in inside) / len(inside))
    assert measured.accuracy == pytest.approx(sum(right for _, right in found) / len(found))


MADE = Calibration(
    "made up",
    (ConfidenceBin(0.0, 0.5, 1, 0.4, 1.0), ConfidenceBin(0.5, 1.0, 3, 0.9, 2 / 3)),
)


def test_the_error_is_the_mean_distance_of_accuracy_and_confidence():
    assert MADE.num_tokens == 4
    assert MADE.accuracy == pytest.approx(3 / 4)
    assert MADE.error == pytest.approx((0.6 + 3 * (0.9 - 2 / 3)) / 4)  # by hand


def test_smoothed_targets_are_those_of_section_5_4():
    targets, loss = plot_loss(vocab_size=50, label_smoothing=0.1).axes
    heights = [bar.get_height() for bar in targets.patches]
    assert heights == pytest.approx([1.0, 0.0, 0.9 + 0.1 / 50, 0.1 / 50])
    assert heights[2] + 49 * heights[3] == pytest.approx(1)
    plain, smoothed = (dict(zip(*line.get_data(), strict=True)) for line in loss.lines[:2])
    half = 0.5
    assert plain[half] == pytest.approx(math.log(2))
    # By hand: 49 others share the other half.
    expected = 0.902 * math.log(2) + 49 * 0.002 * math.log(98)
    assert smoothed[half] == pytest.approx(expected)
    assert min(smoothed, key=smoothed.get) == pytest.approx(0.902, abs=0.01)


def test_a_reliability_diagram_has_a_point_for_each_bin_of_each_model():
    figure = plot_loss(MADE, Calibration("other", MADE.bins[1:]), theme="dark")
    above, below = figure.axes[2:]
    assert [list(line.get_ydata()) for line in above.lines[1:]] == [[1.0, 2 / 3], [2 / 3]]
    assert [bar.get_height() for bar in below.patches] == [0.25, 0.75, 1.0]
    labels = [text.get_text() for text in above.get_legend().get_texts()]
    assert labels[1] == "made up: error 32.5 %"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"vocab_size": 1}, "vocab_size=1"), ({"label_smoothing": 1.0}, "label_smoothing=1.0")],
)
def test_a_distribution_that_is_none_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        plot_loss(**options)


def test_nothing_to_measure_is_refused(translator):
    with pytest.raises(ValueError, match="at least one pair"):
        measure_calibration(translator, [], [])
    with pytest.raises(ValueError, match="num_bins=0"):
        measure_calibration(translator, SOURCES, TARGETS, num_bins=0)
