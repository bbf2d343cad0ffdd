import json

import pytest

from training.data.cleaning import REASONS, describe
from training.data.corpus import load_corpus
from training.data.encoding import encode_pairs
from training.data.mixing import clean_and_mix
from training.settings.fields import DataArguments
from vaswani_hf import train_tokenizer


def corpus_of(**arguments):
    data = DataArguments(**arguments)
    corpus = load_corpus(data)
    tokenizer = train_tokenizer(
        corpus.sentences(), 300, are_files=False, show_progress=False, split_digits=True
    )
    return corpus, encode_pairs(corpus.splits["train"], tokenizer)


def two_corpora(tmp_path, first=40, second=10, weights=(1, 1)):
    corpora = []
    for name, count, weight in zip("pq", (first, second), weights, strict=True):
        lines = [f"{name}{number}\t{name}{number} x\n" for number in range(count)]
        (tmp_path / f"{name}.tsv").write_text("".join([*lines, "\tempty\n"]))
        of_one = {"name": name, "train_file": str(tmp_path / f"{name}.tsv")}
        corpora.append(json.dumps(of_one | ({} if weight is None else {"weight": weight})))
    return corpora


def test_unusable_pairs_are_dropped_and_counted(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("one\teins\n \tzwei\nthree\t\n" + "a " * 30 + "\tb\nc\td\n")
    corpus, pairs = corpus_of(train_file=[str(path)], max_length=20)
    kept = clean_and_mix(corpus, pairs, seed=0)
    assert list(kept["source"]) == ["one", "c"]
    counts = {name: count for name, count in corpus.counts.items() if count}
    assert counts.pop("percent_of_read") == {
        **dict.fromkeys(REASONS, 0.0),
        **{"pairs_kept": 40.0, "dropped_empty": 40.0, "dropped_too_long": 20.0},
    }
    assert counts == {
        **{"pairs_read": 5, "pairs_kept": 2, "dropped_empty": 2, "dropped_too_long": 1}
    }
    assert describe(corpus.counts) == (
        "5 pairs read, 2 (40.00 %) kept, dropped 2 (40.00 %) with an empty side, "
        "1 (20.00 %) too long"
    )


def test_lines_that_are_not_utf8_are_dropped_and_counted_where_that_is_asked(tmp_path):
    (tmp_path / "a.en").write_bytes(b"one\nt\xffo\nthree\nfour\n")
    (tmp_path / "a.de").write_bytes(b"eins\nzwei\n\xfe\nvier\n")
    corpus, pairs = corpus_of(
        train_source=[str(tmp_path / "a.en")],
        train_target=[str(tmp_path / "a.de")],
        drop_undecodable=True,
    )
    assert list(clean_and_mix(corpus, pairs, seed=0)["source"]) == ["one", "four"]
    assert corpus.counts["dropped_undecodable"] == 2


def test_text_without_a_usable_pair_is_an_error_that_says_why(tmp_path):
    (tmp_path / "a.tsv").write_text("one\t\ntwo two\tzwei\n")
    corpus, pairs = corpus_of(train_file=[str(tmp_path / "a.tsv")], max_length=2)
    message = "No training pair is usable: 2 pairs read, .*empty side, .*too long.*max_length=2 "
    with pytest.raises(ValueError, match=message):
        clean_and_mix(corpus, pairs, seed=0)


def test_corpora_without_weights_give_every_pair_once(tmp_path):
    corpus, pairs = corpus_of(corpora=two_corpora(tmp_path, weights=(None, None)))
    mixed = clean_and_mix(corpus, pairs, seed=0)
    assert sorted(mixed["source"]) == sorted(
        [*(f"p{number}" for number in range(40)), *(f"q{number}" for number in range(10))]
    )


def test_weights_are_shares_of_the_pairs_and_every_pair_occurs(tmp_path):
    corpora = two_corpora(tmp_path, 4000, 100, weights=(3, 1))
    corpus, pairs = corpus_of(corpora=corpora)
    mixed = clean_and_mix(corpus, pairs, seed=0)
    sources = list(mixed["source"])
    assert set(sources) == {source for source in pairs["source"] if source}
    # All of p are in, and three pairs in four are of p: 5,333, give or take 4 deviations.
    assert abs(len(sources) - 4000 * 4 / 3) < 4 * (4000 * 4 / 3 * 3 / 16) ** 0.5 * 4 / 3
    share = sum(source.startswith("p") for source in sources) / len(sources)
    assert share == pytest.approx(0.75, abs=0.025)  # 4 deviations of 5,333 tosses
    assert corpus.counts["pairs_per_epoch"] == len(sources)


def test_each_corpus_is_counted_on_its_own(tmp_path):
    corpus, pairs = corpus_of(corpora=two_corpora(tmp_path, weights=(1, 2)))
    clean_and_mix(corpus, pairs, seed=0)
    by_name = corpus.counts["corpora"]
    assert [by_name[name]["weight"] for name in "pq"] == [1, 2]
    assert [by_name[name]["pairs_read"] for name in "pq"] == [41, 11]
    assert [by_name[name]["pairs_kept"] for name in "pq"] == [40, 10]
    assert corpus.counts["dropped_empty"] == 2


def test_a_duplicate_is_found_across_corpora(tmp_path):
    corpora = two_corpora(tmp_path, weights=(None, None))
    (tmp_path / "q.tsv").write_text("p3\tp3 x\nnew\tneu\n")
    corpus, pairs = corpus_of(corpora=corpora, drop_duplicates=True)
    clean_and_mix(corpus, pairs, seed=0)
    assert corpus.counts["corpora"]["q"]["dropped_duplicate"] == 1
    assert corpus.counts["corpora"]["p"]["dropped_duplicate"] == 0
