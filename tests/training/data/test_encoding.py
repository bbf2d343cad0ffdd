import json
import os
from pathlib import Path

from tests.training.runs import warm_start
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs, encode_splits, encode_texts
from training.settings.fields import DataArguments
from vaswani_hf import train_tokenizer
from vaswani_hf.tokenization_vaswani import add_source_tags, tokenizer_of_segmented_text


def write(path, text):
    path.write_text(text)
    return path


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


def test_a_tag_stands_before_the_sources_of_its_corpora_alone(tmp_path):
    corpora = []
    for name, tag in [("p", {}), ("q", {"source_tag": "<bt>"}), ("r", {"source_tag": "<ft>"})]:
        path = write(tmp_path / f"{name}.tsv", f"<bt> {name}\t<bt> {name}\n{name}\t{name}\n")
        corpora.append(json.dumps({"name": name, "train_file": str(path), **tag}))
    files = {"test_file": [str(tmp_path / "p.tsv")]}
    corpus = load_corpus(DataArguments(corpora=corpora, **files))
    assert corpus.source_tags == ["<bt>", "<ft>"]
    tokenizer = train_tokenizer(["<bt> p q r"], 280, are_files=False, show_progress=False)
    add_source_tags(tokenizer, corpus.source_tags)
    encoded = encode_splits(corpus, tokenizer)
    ids = {text: tokenizer(text)["input_ids"] for text in encoded["train"]["source"]}
    expected = [
        first + ids[text]
        for name, first in [("p", []), ("q", [len(tokenizer) - 2]), ("r", [len(tokenizer) - 1])]
        for text in (f"<bt> {name}", name)
    ]
    assert encoded["train"]["input_ids"][:] == expected
    assert encoded["train"]["labels"][:] == list(ids.values())
    assert encoded["test"]["input_ids"][:] == [ids["<bt> p"], ids["p"]]


SCRIPT = """
import sys
from transformers import AutoTokenizer
from training.settings.fields import DataArguments
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
pairs = load_corpus(DataArguments(train_file=[sys.argv[2]])).splits["train"]
print(encode_pairs(pairs, tokenizer).cache_files[0]["filename"])
"""


def test_another_process_finds_the_encoded_text_and_encodes_nothing(tmp_path):
    path = write(tmp_path / "a.tsv", "one\teins\ntwo\tzwei\n")
    tokenizer = train_tokenizer([path], 300, show_progress=False)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    tokenizer(["a call that leaves its mark"], padding=True, truncation=True, max_length=3)
    pairs = load_corpus(DataArguments(train_file=[str(path)])).splits["train"]
    made = Path(encode_pairs(pairs, tokenizer).cache_files[0]["filename"])
    state = made.stat()
    (tmp_path / "encode.py").write_text(SCRIPT)
    done = warm_start().run(
        *(str(tmp_path / "encode.py"), str(tmp_path / "tokenizer"), str(path)),
        environments=[os.environ],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(made)
    assert "Encoding" not in done.stderr  # the progress bar of `map`
    assert made.stat().st_mtime_ns == state.st_mtime_ns


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
