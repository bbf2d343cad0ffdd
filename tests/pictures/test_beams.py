import copy
import itertools
import math

import pytest
import torch

from vaswani_hf import Translator
from vaswani_hf.pictures import beams_of, plot_beams, save_picture


pytest.importorskip("matplotlib")

SOURCE = "a bead fed cab"


@pytest.fixture(scope="module", params=["cut off", "ended"])
def searching(translator, request):
    """A search that the limit ends, and one where several hypotheses end, the longer ones too."""
    model = copy.deepcopy(translator.model)
    if request.param == "ended":
        model.lm_head.bias.data[model.config.eos_token_id] = 3.0
    return Translator(model, translator.tokenizer, num_beams=3, max_extra_tokens=4)


@pytest.fixture(scope="module")
def tree(searching):
    return beams_of(searching, SOURCE)


def test_the_steps_are_those_of_the_search(searching, tree):
    steps = []
    searching.model.generate(
        torch.tensor(searching.encode([SOURCE])),
        num_beams=3,
        max_extra_tokens=4,
        on_step=steps.append,
    )
    assert list(tree.steps) == steps
    assert len(steps) > 2 and all(len(step.candidates) == 6 for step in steps[1:])
    assert len(tree.endings) > 2


def test_what_won_is_what_the_translator_says_and_is_reached_by_its_path(searching, tree):
    best, text = tree.endings[0]
    assert searching.target_ids(searching.encode([SOURCE])) == [list(best.ids)]
    assert [text] == searching(SOURCE)
    path = tree.path()
    taken = [tree.steps[step].candidates[place] for step, place in enumerate(path)]
    assert [one.token for one in taken] == list(best.ids)
    for step in range(1, len(path)):
        assert tree.parent(step, taken[step]) == path[step - 1]


def test_every_candidate_continues_its_parent(tree):
    for number, step in enumerate(tree.steps[1:], start=1):
        for one in step.candidates:
            before = tree.steps[number - 1].candidates[tree.parent(number, one)]
            assert one.ids[:-1] == before.ids and before.outcome == "goes_on"
            assert one.log_prob <= before.log_prob


def test_endings_come_in_the_order_of_their_scores(searching, tree):
    scores = [one.score for one, _ in tree.endings if one.outcome == "ended"]
    assert scores == sorted(scores, reverse=True)
    for one, _ in tree.endings:  # by hand: Wu et al. (2016), equation 14
        penalty = ((5 + len(one.ids)) / 6) ** 0.6
        assert one.score == pytest.approx(one.log_prob / penalty, rel=1e-5)


def texts_of(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_picture_has_every_candidate_with_its_figures(tree):
    texts = texts_of(plot_beams(tree))
    for number, step in enumerate(tree.steps):
        for place, one in enumerate(step.candidates):
            assert tree.pieces[number][place] in texts
            assert any(text.startswith(f"{one.log_prob:.2f}".replace("-", "−")) for text in texts)
    assert f"{tree.endings[0][0].score:.3f}".replace("-", "−") in texts[-1]


def test_the_line_of_what_won_is_thick_and_that_of_what_was_dropped_is_dotted(tree):
    lines = [line for axes in plot_beams(tree).axes for line in axes.lines]
    later = [one for step in tree.steps[1:] for one in step.candidates]
    assert len(lines) == len(later)
    assert sum(line.get_linewidth() > 2 for line in lines) == len(tree.path()) - 1
    dotted = sum(line.get_linestyle() == ":" for line in lines)
    assert dotted == sum(one.outcome == "dropped" for one in later) > 0


def steps_of(axes):
    """The numbers of the steps that stand there."""
    texts = [text.get_text() for text in axes.texts]
    return [int(text.removeprefix("step ")) for text in texts if text.startswith("step ")]


def test_long_searches_go_on_below(tree, tmp_path):
    figure = plot_beams(tree, theme="dark", num_endings=0)
    rows = [steps for axes in figure.axes if (steps := steps_of(axes))]
    assert len(rows) == math.ceil(len(tree.steps) / len(rows[0]))
    assert list(itertools.chain(*rows)) == list(range(1, len(tree.steps) + 1))
    save_picture(figure, tmp_path / "beams.svg")
    assert "<!-- → " in (tmp_path / "beams.svg").read_text(encoding="utf-8")


def test_the_first_steps_can_be_drawn_alone(tree):
    figure = plot_beams(tree, num_steps=2, num_endings=0)
    (first, _) = figure.axes
    assert len(first.lines) == len(tree.steps[1].candidates)
    assert f"the first 2 of {len(tree.steps)} steps" in figure.get_suptitle()
    with pytest.raises(ValueError, match="num_steps=0"):
        plot_beams(tree, num_steps=0)


def test_what_does_not_search_is_refused(translator):
    single = Translator(translator.model, translator.tokenizer, num_beams=1)
    with pytest.raises(ValueError, match="two beams or more, got num_beams=1"):
        beams_of(single, SOURCE)
    with pytest.raises(ValueError, match="the sentence has no words"):
        beams_of(translator, " ")
