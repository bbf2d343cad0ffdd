"""Pairs that are drawn anew in each epoch, from their text to the batches of a run."""

import json
from copy import deepcopy
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tests.training.data.test_streaming import run_of, texts_of
from tests.training.runs import RECIPE, run_here, write_pairs
from training.data.corpus import load_corpus
from training.data.encoding import encode_splits, encode_texts
from training.data.mixing import clean
from training.data.noise import Noise
from training.data.redrawing import Redrawing, Text
from training.data.streaming import TokenBatchStream
from training.settings.fields import DataArguments
from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import add_source_tags


NUM_PAIRS = 101  # a prime: no number of processes divides it


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pairs of two corpora; those of the second end in `x`."""
    folder = tmp_path_factory.mktemp("text")
    write_pairs(folder / "a.tsv", NUM_PAIRS)
    write_pairs(folder / "b.tsv", 40, seed=1)
    marked = (folder / "b.tsv").read_text().replace("\t", " x\t").replace("\n", " x\n")
    (folder / "b.tsv").write_text(marked)
    return folder


@pytest.fixture(scope="module")
def tokenizer(files):
    return train_tokenizer([files / "a.tsv", files / "b.tsv"], 320, show_progress=False)


def stream_of(files, tokenizer, data=None, checkpoint=None, **changes):
    """A stream over loaded text, as training/run.py makes it."""
    fields = {"train_file": [str(files / "a.tsv")], "max_length": 60, "shuffle_buffer_pairs": 40}
    arguments = DataArguments(**{**fields, **(data or {})})
    corpus = load_corpus(arguments)
    if not arguments.streaming:
        clean(corpus, encode_splits(corpus, tokenizer)["train"])
    return TokenBatchStream(corpus, tokenizer, arguments, run_of(**changes), checkpoint)


def pairs_of(stream, count):
    batches, rows = iter(stream), []
    while len(rows) < count:
        rows += next(batches)
    assert len(rows) == count
    return rows


def corpora(files, **of_b):
    places = [{"name": name, "train_file": str(files / f"{name}.tsv")} for name in "ab"]
    return [json.dumps(places[0]), json.dumps({**places[1], **of_b})]


def test_each_epoch_has_every_pair_once_cut_in_another_way(files, tokenizer):
    rows = pairs_of(stream_of(files, tokenizer, {"bpe_dropout": 0.3}), 2 * NUM_PAIRS)
    read = [tuple(line.split("\t")) for line in (files / "a.tsv").read_text().splitlines()]
    epochs = [rows[:NUM_PAIRS], rows[NUM_PAIRS:]]
    for epoch in epochs:
        assert sorted(texts_of([epoch], tokenizer)) == sorted(read)
    plain = sum(
        len(ids)
        for side in encode_texts(*zip(*read, strict=True), tokenizer).values()
        for ids in side
    )
    tokens = [sum(len(row["input_ids"] + row["labels"]) for row in epoch) for epoch in epochs]
    assert min(tokens) > 1.1 * plain and tokens[0] != tokens[1]


def test_streamed_text_is_cut_anew_too(files, tokenizer):
    data = {"streaming": True, "bpe_dropout": 0.3}
    rows = pairs_of(stream_of(files, tokenizer, data), 2 * NUM_PAIRS)
    first, second = (
        sorted(zip(texts_of([epoch], tokenizer), ([*row.values()] for row in epoch), strict=True))
        for epoch in (rows[:NUM_PAIRS], rows[NUM_PAIRS:])
    )
    assert [text for text, _ in first] == [text for text, _ in second]
    assert first != second


def test_a_pair_is_cut_by_seed_epoch_and_number_alone(files, tokenizer):
    def of(count=NUM_PAIRS, **changes):
        stream = stream_of(files, tokenizer, {"bpe_dropout": 0.3}, **changes)
        return sorted((row["input_ids"], row["labels"]) for row in pairs_of(stream, count))

    whole = of()
    assert whole == of(source_tokens=150, target_tokens=150)
    both = [of(count, world_size=2, process_index=rank) for rank, count in ((0, 51), (1, 50))]
    assert whole == sorted(both[0] + both[1])
    assert whole != of(seed=4)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("used", [3, 40])
def test_a_stream_goes_on_where_its_checkpoint_was_saved(
    files, tokenizer, tmp_path, used, streaming
):
    stages = [
        json.dumps({"updates": 20, "weights": {"a": 1, "b": 2}}),
        json.dumps({"updates": 60, "weights": {"b": 1}}),
    ]
    noisy = corpora(files, typo_noise=0.5)
    data = {"train_file": [], "corpora": noisy, "stages": stages, "bpe_dropout": 0.2}
    data["streaming"] = streaming
    stream = stream_of(files, tokenizer, data)
    batches = iter(stream)
    list(islice(batches, used + 1))  # the loader is one ahead
    stream.save_state(tmp_path, used)
    resumed = iter(stream_of(files, tokenizer, data, str(tmp_path)))
    assert list(islice(resumed, used)) == [[]] * used
    next(resumed)
    assert list(islice(batches, 30)) == list(islice(resumed, 30))


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_stage_takes_pairs_of_its_corpora_for_its_updates(files, tokenizer, accumulated):
    stages = [
        json.dumps({"updates": 13, "weights": {"b": 1}}),
        json.dumps({"updates": 20, "weights": {"a": 3, "b": 1}}),
        json.dumps({"updates": 7, "weights": {"a": 1}}),
    ]
    data = {"train_file": [], "corpora": corpora(files), "stages": stages}
    tokens = {"source_tokens": 60 * accumulated, "target_tokens": 60 * accumulated}
    stream = stream_of(files, tokenizer, data, gradient_accumulation_steps=accumulated, **tokens)
    batches = list(islice(iter(stream), 40 * accumulated))
    parts = [batches[: 13 * accumulated], batches[13 * accumulated : 33 * accumulated]]
    parts.append(batches[33 * accumulated :])
    share_of_a = []
    for part in parts:
        texts = texts_of(part, tokenizer)
        share_of_a.append(sum(not source.endswith("x") for source, _ in texts) / len(texts))
    assert share_of_a[0] == 0 and share_of_a[2] == 1
    # A binomial of 100 pairs or more has a deviation of 0.043; this is four of them.
    assert abs(share_of_a[1] - 0.75) < 0.18


def test_corpora_without_weights_come_by_their_sizes(files, tokenizer):
    data = {"train_file": [], "corpora": corpora(files, typo_noise=0.1)}
    batches = islice(iter(stream_of(files, tokenizer, data)), 100)
    targets = [target for _, target in texts_of(batches, tokenizer)]
    share = sum(not target.endswith("x") for target in targets) / len(targets)
    # Of about 500 pairs a binomial has a deviation of 0.02; this is four of them.
    assert abs(share - NUM_PAIRS / (NUM_PAIRS + 40)) < 0.08


def test_noise_is_that_of_the_corpus(files, tokenizer):
    data = {"train_file": [], "corpora": corpora(files, upper_case_noise=1.0)}
    batches = islice(iter(stream_of(files, tokenizer, data)), 60)
    texts = texts_of(batches, tokenizer)
    loud = [pair for pair in texts if pair[0].isupper()]
    assert 0 < len(loud) < len(texts)
    assert all(source.isupper() == target.isupper() for source, target in texts)


@pytest.mark.parametrize("streaming", [False, True])
def test_tags_stay_before_the_sources_of_their_corpus(files, tokenizer, streaming):
    tagged = deepcopy(tokenizer)
    add_source_tags(tagged, ["<bt>"])
    of_b = {"source_tag": "<bt>", "weight": 1, "typo_noise": 0.3}
    texts = corpora(files, **of_b)
    texts[0] = texts[0].replace("{", '{"weight": 1, ', 1)
    data = {"train_file": [], "corpora": texts, "bpe_dropout": 0.3, "streaming": streaming}
    rows = [row for batch in islice(iter(stream_of(files, tagged, data)), 30) for row in batch]
    tag = tagged.convert_tokens_to_ids("<bt>")
    for row, (_, target) in zip(rows, texts_of([rows], tagged), strict=True):
        places = [place for place, piece in enumerate(row["input_ids"]) if piece == tag]
        assert places == ([0] if target.endswith("x") else []) and tag not in row["labels"]


def drawn(tokenizer, text, noise=None, max_length=60, **options):
    encoded = encode_texts([text], [text], tokenizer)
    plain = (encoded["input_ids"][0], encoded["labels"][0])
    settings = {"seed": 0, "bpe_dropout": 0.0, "max_length": max_length, **options}
    draw = Redrawing(tokenizer, None, **settings)
    return plain, [
        draw([Text(f"{key}", text, text, noise or Noise(), [], plain)])[0] for key in range(20)
    ]


def test_a_pair_that_comes_out_too_long_stays_as_it_is(tokenizer):
    text = "abcd dcba abc"
    plain, free = drawn(tokenizer, text, bpe_dropout=0.5)
    longest = max(map(len, plain))
    assert any(max(map(len, pair)) > longest for pair in free)
    _, bounded = drawn(tokenizer, text, bpe_dropout=0.5, max_length=longest)
    for one, other in zip(free, bounded, strict=True):
        assert other == (one if max(map(len, one)) <= longest else plain)


def test_noise_without_dropout_leaves_the_pieces_of_the_target(tokenizer):
    plain, pairs = drawn(tokenizer, "abcd dcba abc", Noise(typo_noise=0.5))
    assert all(target == plain[1] for _, target in pairs)
    texts = {tokenizer.decode(source, skip_special_tokens=True) for source, _ in pairs}
    assert len(texts) > 5


def test_the_tokenizer_of_a_text_is_not_changed(tokenizer):
    before = tokenizer.backend_tokenizer.to_str()
    drawn(tokenizer, "abcd", bpe_dropout=0.5)
    assert tokenizer.backend_tokenizer.to_str() == before


# The whole of training/run.py


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """A run with dropout and noise in two stages, and its options."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.yaml").write_text(
        RECIPE
        + f"""\
max_length: 100
max_steps: 11
save_steps: 2
bpe_dropout: 0.2
corpora:
  - {{name: a, train_file: {files}/a.tsv, lower_case_noise: 0.5}}
  - {{name: b, train_file: {files}/b.tsv, typo_noise: 0.5}}
stages:
  - {{updates: 4, weights: {{a: 1, b: 2}}}}
  - {{updates: 7, weights: {{b: 1}}}}
"""
    )
    done = run_here(str(folder / "tiny.yaml"), "--output_dir", str(folder / "whole"))
    return folder, done


@pytest.mark.parametrize("update", [2, 4, 8], ids=["first stage", "boundary", "second stage"])
def test_a_resumed_run_ends_with_the_same_weights(whole, update, caplog):
    folder, _ = whole
    output = folder / str(update)
    checkpoint = folder / "whole" / f"checkpoint-{update}"
    run_here(
        *(str(folder / "tiny.yaml"), "--output_dir", str(output)),
        *("--resume_from_checkpoint", str(checkpoint)),
    )
    one, other = (
        load_file(path / "checkpoint-11" / "model.safetensors")
        for path in (folder / "whole", output)
    )
    assert all(torch.equal(one[name], other[name]) for name in one)
    stage = "1 of 2, updates 1 to 4: a 1, b 2" if update < 4 else "2 of 2, updates 5 to 11: b 1"
    told = [record.message for record in caplog.records if record.message.startswith("Stage")]
    assert told[0] == f"Stage {stage}."


def test_a_run_tells_of_its_stages_and_exports_a_tokenizer_without_dropout(whole):
    folder, done = whole
    assert "Stage 1 of 2" in done.stderr and "Stage 2 of 2" in done.stderr
    results = json.loads((folder / "whole" / "results.json").read_text())
    assert results["training"]["stages"] == [
        {"updates": 4, "weights": {"a": 1, "b": 2}},
        {"updates": 7, "weights": {"b": 1}},
    ]
    assert results["training"]["epochs"] is None and results["data"]["pairs_kept"] == 141
    card = (folder / "whole" / "README.md").read_text()
    assert "Stage 1, 4 updates: pairs of a (weight 1), b (weight 2)." in card
    for path in (folder / "whole").rglob("tokenizer.json"):
        assert Tokenizer.from_file(str(path)).model.dropout is None
