import gzip
import json
import re
import resource
import signal

import pytest
from datasets.config import HF_DATASETS_CACHE

from training.data.corpus import load_corpus, stream_pairs
from training.data.files import read_pairs
from training.settings.fields import DataArguments


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


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tsv"):
        load_corpus(DataArguments(train_file=[str(tmp_path / "nowhere.tsv")]))


def test_one_sided_files_are_an_error(tmp_path):
    source = write(tmp_path / "a.en", "one\n")
    with pytest.raises(ValueError, match="train_source names 1 files and train_target 0"):
        load_corpus(DataArguments(train_source=[str(source)]))


def test_a_full_disk_is_told_with_the_folder_of_the_cache(tmp_path):
    # A file that may not grow stands for it; the system says so in the same place.
    path = write(tmp_path / "a.tsv", "".join(f"one {i}\teins {i}\n" for i in range(20_000)))
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match=f"^{HF_DATASETS_CACHE}: no space is left"):
            load_corpus(DataArguments(train_file=[str(path)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
