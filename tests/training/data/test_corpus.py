import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq

from training.data.collating import ArrowPairs, PairCollator
from training.data.corpus import load_corpus, stream_pairs
from training.data.encoding import encode_pairs, encode_texts
from training.data.files import read_pairs
from training.settings.fields import DataArguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.tokenization_vaswani import tokenizer_of_segmented_text


def write(path, text):
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_two_files_are_read_side_by_side_plain_or_gzipped(tmp_path):
    source = write(tmp_path / "a.en", "one\r\ntwo\n\nfour")
    target = write(tmp_path / "a.de.gz", "eins\nzwei\n\nvier\n")
    pairs = [("one", "eins"), ("two", "zwei"), ("", ""), ("four", "vier")]
    assert list(read_pairs([source], [target])) == pairs


@pytest.mark.parametrize("separator", ["\r", "\u2028", "\x85", "\x0c"])
def test_only_a_newline_ends_a_line(tmp_path, separator):
    source = write(tmp_path / "a.en", f"one{separator}more\ntwo\n")
    target = write(tmp_path / "a.de", "eins\nzwei\n")
    pairs = [(f"one{separator}more", "eins"), ("two", "zwei")]
    assert list(read_pairs([source], [target])) == pairs


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_tab_separated_file_holds_both_sides(tmp_path, suffix):
    path = write(tmp_path / f"a.tsv{suffix}", "one\teins\ntwo\tzwei\n")
    assert list(read_pairs([], [], [path])) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_json_lines_file_holds_both_sides_flat_or_as_a_translation(tmp_path, suffix):
    rows = [{"en": "one", "de": "eins"}, {"translation": {"de": "zwei", "en": "two"}}]
    path = write(tmp_path / f"a.jsonl{suffix}", "\n".join(map(json.dumps, rows)))
    assert list(read_pairs([], [], [path], ("en", "de"))) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(("left", "right"), [("1\n2\n3\n", "1\n2\n"), ("1\n", "1\n2\n3\n4\n")])
def test_files_of_unequal_length_are_an_error_naming_both_counts(tmp_path, left, right):
    source, target = write(tmp_path / "a.en", left), write(tmp_path / "a.de", right)
    counts = f"a.en has {left.count(chr(10))} lines and {target} has {right.count(chr(10))}"
    with pytest.raises(ValueError, match=re.escape(counts)):
        list(read_pairs([source], [target]))


def test_a_line_that_is_not_utf8_is_an_error_naming_file_and_line(tmp_path):
    source = write(tmp_path / "a.en", b"one\nt\xffo\n")
    target = write(tmp_path / "a.de", "eins\nzwei\n")
    with pytest.raises(ValueError, match=r"a\.en, line 2 is not UTF-8"):
        list(read_pairs([source], [target]))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "one\teins\ntwo\n", "line 2 has 1 columns"),
        ("a.jsonl", '{"source": "one", "target": "eins"}\n{"source"', "line 2 is not JSON"),
        ("a.jsonl", '{"en": "one", "de": "eins"}', "no text under 'source' and 'target', but 'en'"),
        ("a.csv", "one,eins", r"must end in .tsv or .jsonl"),
    ],
)
def test_a_malformed_line_is_an_error_that_names_it(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        list(read_pairs([], [], [write(tmp_path / name, text)]))


HALF = '{"source": "one", "target": "ei\\ud800ns"}'  # JSON's spelling of half a surrogate pair


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "null", r"a\.jsonl, line 1 must be a JSON object"),
        ("a.jsonl", '"one"', r"a\.jsonl, line 1 must be a JSON object"),
        ("a.jsonl", '{"source": "one", "target": null}', r"a\.jsonl, line 1 has no text under"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl, line 1 is not JSON"),
        ("a.jsonl", '{"source": ' + "9" * 5000 + "}", r"a\.jsonl, line 1 is not JSON"),
        ("a.jsonl", HALF, r"a\.jsonl, line 1 has half of a surrogate pair, \\ud800"),
        ("a.tsv", "one\teins\tuno\n", r"a\.tsv, line 1 has 3 columns"),
        ("a.tsv", "", r"a\.tsv: no line is there; split train needs pairs"),
        ("a.tsv.gz", b"", r"a\.tsv\.gz"),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_a_damaged_file_is_named(tmp_path, name, text, message, streaming):
    path = write(tmp_path / name, text)
    if name.endswith(".gz"):
        path.write_bytes(b"one\teins\n")  # not gzipped
    arguments = DataArguments(train_file=[str(path)], streaming=streaming)
    with pytest.raises(ValueError, match=message):
        corpus = load_corpus(arguments)
        rows = stream_pairs(corpus.plans[0].arguments)
        assert [*rows] and streaming


def test_half_a_surrogate_pair_counts_as_undecodable(tmp_path):
    path = write(tmp_path / "a.jsonl", HALF + '\n{"source": "two", "target": "zwei"}\n')
    pairs = [*read_pairs([], [], [path], drop_undecodable=True)]
    assert pairs == [(None, None), ("two", "zwei")]


def test_a_byte_order_mark_and_windows_line_ends_are_no_text(tmp_path):
    path = write(tmp_path / "a.tsv", "\ufeffone\teins\r\ntwo\tzwei\r\n")
    corpus = load_corpus(DataArguments(train_file=[str(path)]))
    assert corpus.splits["train"][:] == {"source": ["one", "two"], "target": ["eins", "zwei"]}


def test_a_nul_is_text(tmp_path):
    path = write(tmp_path / "a.tsv", "o\0ne\teins\n")
    corpus = load_corpus(DataArguments(train_file=[str(path)]))
    assert corpus.splits["train"][0]["source"] == "o\0ne"


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} is a folder; name a file"):
        load_corpus(DataArguments(train_file=[str(tmp_path)]))


def test_a_dataset_that_cannot_be_is_refused_without_asking_the_hub():
    with pytest.raises(ValueError, match="dataset=/no/where is no folder, and no id"):
        load_corpus(DataArguments(dataset="/no/where"))


SMALL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from training.settings.fields import DataArguments
from training.data.corpus import load_corpus
from training.errors import in_one_line
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with in_one_line():
    load_corpus(DataArguments(train_file=[sys.argv[1]]))
"""


def test_a_full_disk_is_told_with_the_folder_of_the_cache(tmp_path):
    # A file that may not grow stands for it; the system says so in the same place.
    path = write(tmp_path / "a.tsv", "".join(f"one {i}\teins {i}\n" for i in range(20_000)))
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", SMALL_DISK, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"training/run.py: {tmp_path}/cache/datasets: no space is left")
    assert "Traceback" not in done.stderr


def test_a_corpus_has_the_splits_that_files_are_given_for(tmp_path):
    source, target = write(tmp_path / "a.en", "one\ntwo\n"), write(tmp_path / "a.de", "1\n2\n")
    corpus = load_corpus(
        DataArguments(
            train_source=[str(source)],
            train_target=[str(target)],
            test_source=[str(source)],
            test_target=[str(target)],
        )
    )
    assert set(corpus.splits) == {"train", "test"}
    assert corpus.splits["train"][:] == {"source": ["one", "two"], "target": ["1", "2"]}


def test_a_changed_file_is_read_again(tmp_path):
    source, target = tmp_path / "a.en", write(tmp_path / "a.de", "1\n2\n")
    arguments = DataArguments(train_source=[str(source)], train_target=[str(target)])
    for text in ("one\ntwo\n", "uno\ndue\n"):
        write(source, text)
        assert list(load_corpus(arguments).splits["train"]["source"]) == text.split()


def test_a_dataset_folder_is_read_by_its_language_columns(tmp_path):
    rows = [{"translation": {"en": "one", "de": "eins"}}, {"translation": {"en": "a", "de": "b"}}]
    write(tmp_path / "train.jsonl", "\n".join(map(json.dumps, rows)))
    arguments = DataArguments(dataset=str(tmp_path), source_column="en", target_column="de")
    corpus = load_corpus(arguments)
    assert set(corpus.splits) == {"train"}
    assert corpus.splits["train"][:] == {"source": ["one", "a"], "target": ["eins", "b"]}


def test_the_demo_makes_its_own_text():
    splits = load_corpus(DataArguments(dataset="demo")).splits
    assert {name: len(split) for name, split in splits.items()} == {
        "train": 20000,
        "validation": 500,
        "test": 1000,
    }


def test_no_training_data_is_an_error():
    with pytest.raises(ValueError, match="no training data: give --dataset"):
        load_corpus(DataArguments())


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tsv"):
        load_corpus(DataArguments(train_file=[str(tmp_path / "nowhere.tsv")]))


def test_one_sided_files_are_an_error(tmp_path):
    source = write(tmp_path / "a.en", "one\n")
    with pytest.raises(ValueError, match="train_source names 1 files and train_target 0"):
        load_corpus(DataArguments(train_source=[str(source)]))


def test_segmented_text_is_joined_once_it_is_encoded(tmp_path):
    path = write(tmp_path / "a.tsv", "twen@@ ty one\tein@@ und@@ zwanzig\n")
    pairs = load_corpus(DataArguments(train_file=[str(path)])).splits["train"]
    tokenizer = tokenizer_of_segmented_text(
        pairs["source"][:] + pairs["target"][:], are_files=False
    )
    row = encode_pairs(pairs, tokenizer, segmented=True)[0]
    assert (row["source"], row["target"]) == ("twenty one", "einundzwanzig")
    pieces = tokenizer.convert_ids_to_tokens(row["labels"])
    assert pieces == ["ein@@", "und@@", "zwanzig", "</s>"]


def test_encoded_pairs_end_in_eos_on_both_sides(tmp_path):
    path = write(tmp_path / "a.tsv", "one\teins\n")
    tokenizer = train_tokenizer([path], 300, show_progress=False)
    row = encode_pairs(
        load_corpus(DataArguments(train_file=[str(path)])).splits["train"], tokenizer
    )
    eos = tokenizer.eos_token_id
    assert row[0]["input_ids"][-1] == row[0]["labels"][-1] == eos
    assert tokenizer.decode(row[0]["labels"], skip_special_tokens=True) == "eins"


SCRIPT = """
import sys
from transformers import AutoTokenizer
from training.settings.fields import DataArguments
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer(["a call that leaves its mark"], padding=True, truncation=True, max_length=3)
pairs = load_corpus(DataArguments(train_file=[sys.argv[2]])).splits["train"]
print(encode_pairs(pairs, tokenizer).cache_files[0]["filename"])
"""


def test_a_second_run_finds_the_encoded_text_and_encodes_nothing(tmp_path):
    path = write(tmp_path / "a.tsv", "one\teins\ntwo\tzwei\n")
    train_tokenizer([path], 300, show_progress=False).save_pretrained(tmp_path / "tokenizer")
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "HF_HOME": str(tmp_path / "cache")}

    def run():
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "tokenizer"), str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found = Path(done.stdout.splitlines()[-1])
        return found, found.stat().st_mtime_ns, "Encoding" in done.stderr

    first, second = run(), run()
    assert first[2] and not second[2]  # the progress bar of `map`
    assert first[:2] == second[:2]


def test_another_tokenizer_does_not_find_it(tmp_path):
    path = write(tmp_path / "a.tsv", "one one\teins\ntwo two\tzwei\n")
    pairs = load_corpus(DataArguments(train_file=[str(path)])).splits["train"]
    ids = [
        encode_pairs(pairs, train_tokenizer([path], size, show_progress=False))[0]["input_ids"]
        for size in (270, 280)
    ]
    assert ids[0] != ids[1]


def test_encoded_texts_are_what_the_tokenizer_gives(tmp_path):
    texts = ["one two", "", " \u2581 </s> <pad>", "x" * 50]
    path = write(tmp_path / "a.txt", "\n".join(texts))
    tokenizer = train_tokenizer([path], 300, show_progress=False)
    tokenizer(texts, padding=True, truncation=True, max_length=2)  # leaves its mark on the backend
    encoded = encode_texts([*texts, None], [*texts[::-1], None], tokenizer)
    expected = tokenizer([*texts, ""])["input_ids"]
    assert encoded["input_ids"] == expected
    assert encoded["labels"] == [*expected[:4][::-1], expected[4]]


@pytest.mark.parametrize("rows", ["lists", "arrays", "arrow"])
def test_a_batch_is_what_the_librarys_collator_makes(rows):
    tokenizer = train_tokenizer(["a b c d"] * 9, 300, are_files=False, show_progress=False)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    model = VaswaniForConditionalGeneration(VaswaniConfig(vocab_size=len(tokenizer), **sizes))
    rng = np.random.default_rng(0)
    pairs = [
        {
            "input_ids": rng.integers(3, 9, source).astype(np.int32),
            "labels": rng.integers(3, 9, target).astype(np.int32),
        }
        for source, target in [(7, 5), (1, 9), (4, 1)]
    ]
    lists = [{side: ids.tolist() for side, ids in pair.items()} for pair in pairs]
    expected = DataCollatorForSeq2Seq(tokenizer, model=model)(lists)
    if rows == "arrow":  # what the trainer's loader hands over, in an order of its own
        columns = {side: [pair[side] for pair in lists] for side in lists[0]}
        stored = Dataset.from_dict(columns | {"source": list("abc")}).select([2, 0, 1])
        pairs = ArrowPairs(stored).__getitems__([1, 2, 0])
    batch = PairCollator(tokenizer, model)(lists if rows == "lists" else pairs)
    assert set(batch) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor), name
        assert batch[name].dtype == tensor.dtype
