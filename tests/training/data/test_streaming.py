"""Batches made while training goes on: once each, on one process, and the same after a stop."""

import json
import os
import random
from collections import Counter
from copy import deepcopy
from itertools import islice
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from packaging.version import Version
from safetensors.torch import load_file

from tests.training.runs import warm_start
from tests.training.warm import together
from training.data.corpus import load_corpus
from training.data.streaming import TokenBatchStream, state_file
from training.run import main
from training.settings.fields import DataArguments
from training.settings.rules import check_streaming
from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import add_source_tags


NUM_PAIRS = 101  # a prime: no number of processes divides it


def pairs_of(prefix, count=NUM_PAIRS, seed=0):
    """Different pairs of 1 to 8 words; the target is the source backwards."""
    chooser = random.Random(seed)
    sources = [
        " ".join([f"{prefix}{number}", *chooser.choices(["ab", "cde"], k=chooser.randint(0, 7))])
        for number in range(count)
    ]
    return [(source, source[::-1]) for source in sources]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The same pairs in every form that can be streamed, and a tokenizer."""
    folder = tmp_path_factory.mktemp("text")
    pairs = pairs_of("x")
    for side, name in enumerate(("en", "de")):
        (folder / f"a.{name}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    (folder / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    rows = [{"source": source, "target": target} for source, target in pairs]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "parquet").mkdir()
    (folder / "hub_jsonl").mkdir()
    for shard in range(3):
        some = rows[shard::3]
        pq.write_table(
            pa.Table.from_pylist([{"translation": row} for row in some]),
            folder / "parquet" / f"train-{shard}.parquet",
            row_group_size=7,
        )
        (folder / "hub_jsonl" / f"train-{shard}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in some)
        )
    tokenizer = train_tokenizer([folder / "a.tsv"], 320, show_progress=False)
    return SimpleNamespace(folder=folder, pairs=pairs, tokenizer=tokenizer)


FORMS = ("files", "tsv", "jsonl", "parquet", "hub_jsonl")


def place(text, form):
    folder = text.folder
    if form == "files":
        return {"train_source": [str(folder / "a.en")], "train_target": [str(folder / "a.de")]}
    if form in ("tsv", "jsonl"):
        return {"train_file": [str(folder / f"a.{form}")]}
    return {"dataset": str(folder / form)}


def run_of(**changes):
    fields = {
        **{"max_steps": 10, "num_train_epochs": 3.0, "world_size": 1, "process_index": 0},
        **{"gradient_accumulation_steps": 1, "seed": 3, "data_seed": None},
        **{"source_tokens": 200, "target_tokens": 160, "dataloader_num_workers": 0},
        **{"save_strategy": "steps", "eval_strategy": "no", "ignore_data_skip": False},
        **{"dry_run": False, "pad_to_multiple_of": None, "device_tokens": None},
        **{"max_padding": 1.0, "model_name_or_path": None},
    }
    return SimpleNamespace(**{**fields, **changes})


def stream_of(text, form="files", checkpoint=None, data=None, **changes):
    arguments = DataArguments(
        streaming=True,
        **{"max_length": 60, "shuffle_buffer_pairs": 40, **place(text, form), **(data or {})},
    )
    return TokenBatchStream(
        load_corpus(arguments), text.tokenizer, arguments, run_of(**changes), checkpoint
    )


def texts_of(batches, tokenizer):
    return [
        tuple(tokenizer.decode(row[side], skip_special_tokens=True) for side in row)
        for batch in batches
        for row in batch
    ]


def one_pass(stream, tokenizer, count=NUM_PAIRS):
    """The first `count` pairs."""
    seen = []
    batches = iter(stream)
    while len(seen) < count:
        seen += texts_of([next(batches)], tokenizer)
    return seen


@pytest.mark.parametrize("form", FORMS)
def test_every_pair_occurs_once_in_a_pass_whatever_the_form(text, form):
    seen = one_pass(stream_of(text, form), text.tokenizer)
    assert sorted(seen) == sorted(text.pairs)
    assert seen != text.pairs  # shuffled


def test_the_second_pass_has_the_same_pairs_in_another_order(text):
    seen = one_pass(stream_of(text), text.tokenizer, 2 * NUM_PAIRS)
    first, second = seen[:NUM_PAIRS], seen[NUM_PAIRS:]
    assert sorted(first) == sorted(second) == sorted(text.pairs)
    assert first != second


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("processes", [2, 3])
def test_no_pair_is_on_two_processes_and_none_is_left_out(text, form, processes):
    parts = []
    for rank in range(processes):
        stream = stream_of(
            text,
            form,
            world_size=processes,
            process_index=rank,
            source_tokens=600,
            target_tokens=600,
        )
        batches, seen = iter(stream), []
        # The counts are those of the buffers begun: a pass is over when they reach a second one.
        while len(set(seen)) == len(seen):
            seen += texts_of([next(batches)], text.tokenizer)
        parts.append(set(seen))
    assert sum(map(len, parts)) == NUM_PAIRS
    assert set.union(*parts) == set(text.pairs)


def test_a_checkpoint_that_knows_no_max_padding_is_of_full_batches(text, tmp_path):
    stream = stream_of(text)
    next(iter(stream))
    stream.save_state(tmp_path, 1)
    content = json.loads(state_file(tmp_path, 0).read_text())
    del content["settings"]["max_padding"]
    state_file(tmp_path, 0).write_text(json.dumps(content))
    stream_of(text, checkpoint=str(tmp_path))
    with pytest.raises(ValueError, match=r"max_padding=1\.0 then and 0\.03 now"):
        stream_of(text, checkpoint=str(tmp_path), max_padding=0.03)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_stream_goes_on_from_any_batch_as_if_it_had_not_stopped(text, form, processes, tmp_path):
    settings = {"world_size": processes, "process_index": processes - 1, "target_tokens": 400}
    unbroken = list(islice(stream_of(text, form, **settings), 26))
    for stop in (1, 2, 5, 9, 13, 18) if form == "files" else (7, 16):
        first = stream_of(text, form, **settings)
        # As the loader: a batch is read ahead of the updates.
        seen = list(islice(first, stop + 1))
        assert seen == unbroken[: stop + 1]
        first.save_state(tmp_path, stop)
        resumed = list(islice(stream_of(text, form, str(tmp_path), **settings), 26))
        assert resumed[:stop] == [[]] * stop
        assert resumed[stop:] == unbroken[stop:]


def test_a_resumed_stream_reads_no_more_than_its_buffer_again(text, tmp_path, monkeypatch):
    stream = stream_of(text)
    used = len(list(islice(stream, 20)))
    stream.save_state(tmp_path, used)
    began = json.loads(state_file(tmp_path, 0).read_text())["buffer"]
    resumed = stream_of(text, checkpoint=str(tmp_path))
    next(batch for batch in resumed if batch)
    read = sum(of_one["pairs_read"] for of_one in resumed.counts.values())
    assert 0 < read - sum(of_one["pairs_read"] for of_one in began["counts"].values()) <= 40


def test_the_counts_go_on_too(text, tmp_path):
    unbroken, first = stream_of(text), stream_of(text)
    list(islice(unbroken, 25)), list(islice(first, 11))
    first.save_state(tmp_path, 10)
    resumed = stream_of(text, checkpoint=str(tmp_path))
    list(islice(resumed, 25))
    assert resumed.counts == unbroken.counts


def tagged_stream_of(text, folder, tag="<bt>", checkpoint=None):
    """A stream of two corpora, the sources of the second one tagged."""
    tokenizer = deepcopy(text.tokenizer)
    add_source_tags(tokenizer, [tag])
    (folder / "b.tsv").write_text("y y\tz z\n" * 50)
    first = {"name": "a", "weight": 1, **place(text, "files")}
    second = {"name": "b", "weight": 1, "source_tag": tag, "train_file": str(folder / "b.tsv")}
    tagged = SimpleNamespace(folder=folder, tokenizer=tokenizer)
    data = {"train_source": [], "train_target": [], "corpora": [*map(json.dumps, (first, second))]}
    return stream_of(SimpleNamespace(**vars(text) | vars(tagged)), "files", checkpoint, data)


def test_streamed_sources_have_the_tag_of_their_corpus(text, tmp_path):
    unbroken = list(islice(tagged_stream_of(text, tmp_path), 20))
    rows = [row for batch in unbroken for row in batch]
    tag = len(text.tokenizer)  # the first id that it lacks
    own = [tag, *text.tokenizer("y y")["input_ids"]]
    assert 0 < sum(row["input_ids"] == own for row in rows) < len(rows)
    assert all(tag not in row["input_ids"] for row in rows if row["input_ids"] != own)
    assert all(tag not in row["labels"] for row in rows)
    first = tagged_stream_of(text, tmp_path)
    list(islice(first, 8))
    first.save_state(tmp_path, 7)
    resumed = tagged_stream_of(text, tmp_path, checkpoint=str(tmp_path))
    assert list(islice(resumed, 20))[7:] == unbroken[7:]
    with pytest.raises(ValueError, match=r"saved with other batches: corpora=.*<bt>.*<ft>"):
        tagged_stream_of(text, tmp_path, "<ft>", checkpoint=str(tmp_path))


def test_what_is_dropped_is_counted_while_streaming(text, tmp_path):
    lines = ["one\teins", " \tzwei", "x y " * 30 + "\tz", "same\tsame", "a\t" + "b " * 9, "t\tu"]
    path = tmp_path / "a.tsv"
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\tbad\n")
    options = {"train_source": [], "train_target": [], "train_file": [str(path)]}
    rules = {"drop_copies": True, "max_length_ratio": 4.0, "drop_undecodable": True}
    stream = stream_of(text, data={**options, **rules, "max_length": 40})
    assert sorted(texts_of([next(iter(stream))], text.tokenizer)) == [("one", "eins"), ("t", "u")]
    counts = stream.report()
    assert counts.pop("percent_of_read")["pairs_kept"] == pytest.approx(200 / 7, abs=1e-3)
    assert counts == {
        **{"pairs_read": 7, "pairs_kept": 2, "dropped_undecodable": 1, "dropped_empty": 1},
        **{"dropped_copy": 1, "dropped_too_long": 1, "dropped_length_ratio": 1},
        "dropped_duplicate": 0,
    }


def test_weights_are_shares_of_the_pairs(text, tmp_path):
    for name, count in (("much", 90), ("little", 30)):
        lines = [f"{source}\t{target}\n" for source, target in pairs_of(name, count)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    corpora = [
        json.dumps({"name": name, "weight": weight, "train_file": str(tmp_path / f"{name}.tsv")})
        for name, weight in (("much", 1), ("little", 3))
    ]
    data = {"train_source": [], "train_target": [], "corpora": corpora}
    seen = one_pass(stream_of(text, data=data), text.tokenizer, 2000)
    little = sum(source.startswith("little") for source, _ in seen)
    # A binomial of 2000 tosses has a deviation of 19; this is four of them.
    assert abs(little - 1500) < 80
    # Each corpus comes round as a whole, before any of its pairs comes again.
    often = Counter(pair for pair in seen if pair[0].startswith("little"))
    assert max(often.values()) - min(often.values()) <= 3  # buffers of 40 pairs are shuffled


def test_unequal_files_are_an_error_when_their_end_is_reached(text, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    files = {"train_source": [str(tmp_path / "a.en")], "train_target": [str(tmp_path / "a.de")]}
    with pytest.raises(ValueError, match=r"a\.en has 2 lines and .*a\.de has 1"):
        next(iter(stream_of(text, data=files)))


@pytest.mark.parametrize("accumulated", [1, 3])
def test_a_stream_knows_before_it_is_asked_how_far_it_goes(text, tmp_path, accumulated):
    # A line that is no pair behind the 101 good ones; buffers of 40 pairs.
    lines = (text.folder / "a.tsv").read_text()
    (tmp_path / "a.tsv").write_text(lines + "no pair\n" + lines)
    data = {"train_source": [], "train_target": [], "train_file": [str(tmp_path / "a.tsv")]}
    tokens = {"source_tokens": 200 * accumulated, "target_tokens": 160 * accumulated}
    stream = stream_of(text, data=data, gradient_accumulation_steps=accumulated, **tokens)
    batches, used = iter(stream), 0
    next(batches)
    while stream.problem_before(used + 1 + accumulated) is None:
        used += accumulated
        list(islice(batches, accumulated))
    assert "a.tsv, line 102 has 1 columns" in stream.problem_before(used + 1 + accumulated)
    assert used
    with pytest.raises(ValueError, match="line 102"):
        list(batches)


def test_a_checkpoint_of_other_batches_is_refused_naming_all_that_differs(text, tmp_path):
    stream = stream_of(text)
    next(iter(stream))
    stream.save_state(tmp_path, 1)
    message = "source_tokens=200 then and 300 now; shuffle_buffer_pairs=40 then and 50 now"
    with pytest.raises(ValueError, match=message):
        stream_of(
            text, checkpoint=str(tmp_path), source_tokens=300, data={"shuffle_buffer_pairs": 50}
        )


def test_a_checkpoint_without_the_place_of_a_process_is_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"stream_0\.json is missing"):
        stream_of(text, checkpoint=str(tmp_path))


@pytest.mark.parametrize(
    ("data", "training", "message"),
    [
        ({}, {"max_steps": -1}, "set max_steps, got max_steps=-1"),
        ({"drop_duplicates": True}, {}, "drop_duplicates needs to see the whole corpus"),
        ({"segmented": True}, {}, "name a tokenizer"),
        ({}, {"dataloader_num_workers": 2}, "dataloader_num_workers=2"),
        ({}, {"save_strategy": "epoch"}, "save_strategy must be steps or no"),
        ({}, {"ignore_data_skip": True}, "leave out ignore_data_skip"),
        ({}, {"dry_run": True}, "dry_run counts the pairs and batches of an epoch"),
        ({}, {"pad_to_multiple_of": 8}, "leave out pad_to_multiple_of"),
        ({"max_length": 101}, {"world_size": 2}, "max_length=101 but a batch holds 100 tokens"),
        (
            {"max_length": 101},
            {"device_tokens": 100, "gradient_accumulation_steps": 2},
            "raise device_tokens or lower max_length",
        ),
    ],
)
def test_what_streaming_cannot_do_is_refused(data, training, message):
    with pytest.raises(ValueError, match=message):
        check_streaming(
            DataArguments(streaming=True, **{"max_length": 60, **data}), run_of(**training)
        )


# The whole of training/run.py

TINY = """\
extends: base
vocab_size: 320
d_model: 32
d_ff: 64
num_heads: 2
encoder_layers: 1
decoder_layers: 1
max_length: 50
source_tokens: 200
target_tokens: 200
warmup_steps: 10
learning_rate: 1.0e-3
save_strategy: steps
save_steps: 5
save_minutes: null
average_last: 1
eval_strategy: "no"
logging_steps: 5
streaming: true
shuffle_buffer_pairs: 30
disable_tqdm: true
use_cpu: true
"""


def problem_of_training(text, output, *more, processes=1):
    """Train by the recipe; the line of error if the run ends with one, else `None`."""
    recipe = text.folder / "tiny.yaml"
    recipe.write_text(TINY)
    command = [
        *(str(recipe), "--output_dir", str(output)),
        *("--train_source", str(text.folder / "a.en")),
        *("--train_target", str(text.folder / "a.de"), *more),
    ]
    if processes == 1:
        try:
            return main(command)
        except SystemExit as ended:
            return ended.code
    done = warm_start().run(
        "training/run.py", *command, environments=together(os.environ, processes)
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("training/run.py: ")]
    assert (done.returncode, len(told)) in [(0, 0), (1, 1)], done.stdout[-3000:] + done.stderr
    return told[0] if told else None


def train(text, output, *more, processes=1):
    assert problem_of_training(text, output, *more, processes=processes) is None
    return json.loads((output / "results.json").read_text())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_resumed_run_on_streamed_text_ends_with_the_same_weights(text, tmp_path, processes):
    if processes > 1 and Version(transformers.__version__) < Version("5.23"):
        pytest.skip("transformers before 5.23 cannot resume several processes on a CPU")
    accumulated = ("--gradient_accumulation_steps", str(3 - processes))
    results = train(
        text, tmp_path / "whole", "--max_steps", "12", *accumulated, processes=processes
    )
    assert results["hardware"]["processes"] == processes
    assert results["training"]["updates"] == 12
    train(text, tmp_path / "parts", "--max_steps", "7", *accumulated, processes=processes)
    more = ("--max_steps", "12", "--resume_from_checkpoint", "auto")
    resumed = train(text, tmp_path / "parts", *more, *accumulated, processes=processes)
    assert resumed["training"]["resumed_from"].endswith("checkpoint-7")
    whole, parts = (
        load_file(tmp_path / name / "checkpoint-12" / "model.safetensors")
        for name in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert resumed["data"] == results["data"]
    assert "kept" in (tmp_path / "whole" / "README.md").read_text()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_bad_line_ends_the_run_with_a_checkpoint_to_go_on_from(text, tmp_path, processes):
    if processes > 1 and Version(transformers.__version__) < Version("5.23"):
        pytest.skip("transformers before 5.23 cannot resume several processes on a CPU")
    mine = SimpleNamespace(folder=tmp_path / "text")
    mine.folder.mkdir()
    whole = [(text.folder / f"a.{side}").read_bytes() for side in ("en", "de")]
    (mine.folder / "a.de").write_bytes(whole[1])
    lines = whole[0].split(b"\n")
    lines[95] = b"\xff"
    (mine.folder / "a.en").write_bytes(b"\n".join(lines))
    lines[95] = b"mended"
    options = ("--max_steps", "12", "--tokenizer_sample_pairs", "50", "--save_steps", "50")
    options += ("--gradient_accumulation_steps", str(3 - processes))

    told = problem_of_training(mine, tmp_path / "out", *options, processes=processes)
    assert "a.en, line 96 is not UTF-8" in told and "--resume_from_checkpoint auto" in told
    (kept,) = (tmp_path / "out").glob("checkpoint-*")
    assert 1 < int(kept.name.rpartition("-")[2]) < 12
    assert kept.name in told

    (mine.folder / "a.en").write_bytes(b"\n".join(lines))
    more = ("--resume_from_checkpoint", "auto")
    resumed = train(mine, tmp_path / "out", *options, *more, processes=processes)
    undisturbed = train(mine, tmp_path / "again", *options, processes=processes)
    assert resumed["data"] == undisturbed["data"]
    weights = [
        load_file(tmp_path / name / "checkpoint-12" / "model.safetensors")
        for name in ("out", "again")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
