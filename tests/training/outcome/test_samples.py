"""What TensorBoard is told of an evaluation's translations; loop/test_callbacks.py has a run."""

import html
import re
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import TrainerState
from transformers.integrations import TensorBoardCallback

from training.outcome.evaluation import Evaluation, Translation
from training.outcome.samples import markdown_table, report_translations


def test_a_table_shows_every_character_as_it_is():
    plugin = pytest.importorskip("tensorboard.plugins.text.text_plugin")
    sample = ("a|b *c* _d_ `e`", r"<b>f</b> & \* [g](h)", "&lt; ~~i~~ # j")
    shown = plugin.text_array_to_html(np.array(markdown_table([sample])), True)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", shown, flags=re.DOTALL)
    assert tuple(html.unescape(cell) for cell in cells) == sample
    assert "<b>" not in shown


class Writer:
    """Keeps what a TensorBoard writer is given."""

    def __init__(self):
        self.texts = []

    def add_text(self, *text):
        self.texts.append(text)

    def flush(self):
        self.texts.append("flushed")


def trainer_with(writer, is_first=True):
    return SimpleNamespace(
        is_world_process_zero=lambda: is_first,
        state=TrainerState(global_step=7),
        callback_handler=SimpleNamespace(callbacks=[object(), TensorBoardCallback(writer)]),
    )


SEVEN = tuple(Translation(f"s{n}", f"t{n}", f"r{n}") for n in range(7))


def test_the_first_five_translations_are_sent_under_the_splits_name():
    writer = Writer()
    report_translations(trainer_with(writer), Evaluation("test", 7, {"loss": 1.0}, SEVEN))
    (name, table, step), flushed = writer.texts
    assert (name, step, flushed) == ("test/translations", 7, "flushed")
    rows = [f"| s{n} | t{n} | r{n} |" for n in range(5)]
    assert table.splitlines()[2:] == rows


@pytest.mark.parametrize(("translations", "is_first"), [((), True), (SEVEN, False)])
def test_nothing_is_sent_without_translations_or_by_other_processes(translations, is_first):
    writer = Writer()
    evaluation = Evaluation("eval", 7, {"loss": 1.0}, translations)
    report_translations(trainer_with(writer, is_first), evaluation)
    assert writer.texts == []
