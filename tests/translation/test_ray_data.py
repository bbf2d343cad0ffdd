"""A corpus by Ray Data: its batches without Ray, and a worker that is killed."""

import os
import signal
import time

import numpy as np
import pytest

from tests.translation.ctranslate2_models import random_sentences
from vaswani_hf.translation import RayTranslator, Translator, lines_of_shard


def test_a_batch_gets_a_column_of_translations(talkative):
    sentences = ["", *random_sentences(9, longest=5), "  "]
    batch = {"text": np.array(sentences, dtype=object), "line": np.arange(11)}
    translator = RayTranslator(str(talkative[0]), device="cpu", num_beams=2)
    found = translator(batch)
    assert list(found) == ["text", "line", "translation"]
    assert found["text"] is batch["text"] and found["line"] is batch["line"]
    expected = Translator.from_pretrained(talkative[0], device="cpu", num_beams=2)(sentences)
    assert found["translation"] == expected
    assert found["translation"][0] == found["translation"][-1] == ""


def test_the_engine_and_the_columns_are_arguments(talkative):
    pytest.importorskip("ctranslate2")
    options = {"source_column": "en", "target_column": "de", "threads": 1}
    translator = RayTranslator(talkative[1], engine="ctranslate2", **options)
    expected = Translator.from_pretrained(talkative[0], device="cpu")(["s1 s2"])
    assert translator({"en": ["s1 s2"]}) == {"en": ["s1 s2"], "de": expected}
    with pytest.raises(ValueError, match="engine='marian'"):
        RayTranslator(talkative[0], engine="marian")


def test_a_translation_is_one_line(copier_folder, monkeypatch):
    translator = RayTranslator(copier_folder, device="cpu")
    monkeypatch.setattr(translator, "translator", lambda sentences: ["a\u2028b\rc"])
    assert translator({"text": ["a"]})["translation"] == ["a b c"]


def test_what_cannot_be_translated_is_told(copier_folder):
    translator = RayTranslator(copier_folder, device="cpu")
    with pytest.raises(ValueError, match="no column 'text' but 'en', 'de'; name one by source_col"):
        translator({"en": ["a"], "de": ["b"]})
    with pytest.raises(ValueError, match="Column 'text' must hold texts, got NoneType: None"):
        translator({"text": ["a", None]})


def test_the_lines_of_all_shards_are_those_of_the_file(tmp_path):
    path = tmp_path / "text"
    lines = ["a", "", "b\u2028c", "d\x0be", "f\rg", "\x85", "h" * 50, ""]
    path.write_bytes("\n".join(lines).encode())  # the last one has no end
    found = []
    for number in (1, 2, 3):
        row = {"path": str(path), "shard": f"{number}/3"}
        rows = list(lines_of_shard(row))
        assert [one["line"] for one in rows] == list(range(1, len(rows) + 1))
        assert all(row.items() <= one.items() for one in rows)
        found += [one["text"] for one in rows]
    assert found == lines[:-1]
    path.write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match="text, shard 1/1, line 2 is not UTF-8"):
        list(lines_of_shard({"path": str(path), "shard": "1/1"}))


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_and_repeats_no_line(talkative, tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        path = tmp_path / "text"
        sentences = random_sentences(3000, longest=6)
        path.write_text("".join(f"{sentence}\n" for sentence in sentences))

        class Slow(RayTranslator):
            """Tells its process, and takes time enough to be killed in the middle."""

            def __call__(self, batch):
                time.sleep(0.1)
                return {**super().__call__(batch), "process": [os.getpid()] * len(batch["text"])}

        ray.data.DataContext.get_current().execution_options.preserve_order = True
        shards = [{"path": str(path), "shard": f"{number}/40"} for number in range(1, 41)]
        translated = (
            ray.data.from_items(shards)
            .flat_map(lines_of_shard, num_cpus=0)
            .map_batches(
                Slow,
                fn_constructor_kwargs={"model": str(talkative[0]), "device": "cpu"},
                compute=ray.data.ActorPoolStrategy(size=2),
                batch_size=50,
            )
        )
        rows, killed = [], None
        for row in translated.iter_rows():
            rows.append(row)
            if killed is None:
                killed = row["process"]
                os.kill(killed, signal.SIGKILL)
        processes = {row["process"] for row in rows}
        assert killed in processes and len(processes) == 3  # two, and the killed one's successor
        assert [row["text"] for row in rows] == sentences
        expected = Translator.from_pretrained(talkative[0], device="cpu")(sentences)
        assert [row["translation"] for row in rows] == expected
    finally:
        ray.shutdown()
