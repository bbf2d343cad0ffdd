import json

import pytest
from datasets import Dataset

from training.data.corpus import Corpus, load_corpus, read_row, stream_pairs
from training.settings.fields import DataArguments


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


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


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Two pairs as a corpus in each form, by its name."""
    folder = tmp_path_factory.mktemp("forms")
    pairs = [("one", "eins"), ("two", "zwei")]
    write(folder / "a.en", "one\ntwo\n")
    write(folder / "a.de", "eins\nzwei\n")
    write(folder / "a.tsv", "".join(f"{en}\t{de}\n" for en, de in pairs))
    rows = "".join(json.dumps({"en": en, "de": de}) + "\n" for en, de in pairs)
    write(folder / "a.jsonl", rows)
    (folder / "set").mkdir()
    write(folder / "set" / "train.jsonl", rows)
    forms = {
        "files": {"train_source": [folder / "a.en"], "train_target": [folder / "a.de"]},
        "tsv": {"train_file": [folder / "a.tsv"]},
        "jsonl": {"train_file": [folder / "a.jsonl"]},
        "set": {"dataset": folder / "set"},
    }
    return json.loads(json.dumps(forms, default=str))


KEYS = {"source_column": "en", "target_column": "de"}


@pytest.mark.parametrize("form", ["files", "tsv", "jsonl", "set"])
def test_both_sides_of_every_text_are_swapped(forms, form):
    files = forms["files"]
    others = {
        f"{split}_{side}": files[f"train_{side}"]
        for split in ("validation", "test", "general")
        for side in ("source", "target")
    }
    corpora = [json.dumps({"name": "x", **forms[form]})]
    for place in (forms[form], {"corpora": corpora}):
        arguments = DataArguments(**place, **others, **KEYS, swap_sides=True)
        corpus = load_corpus(arguments)
        assert set(corpus.splits) == {"train", "validation", "test", "general"}
        for split in corpus.splits.values():
            assert list(split["source"]) == ["eins", "zwei"]
            assert list(split["target"]) == ["one", "two"]
        (plan,) = corpus.plans
        streamed = [read_row(row, plan.arguments) for row in stream_pairs(plan.arguments)]
        assert streamed == [("eins", "one"), ("zwei", "two")]


def test_languages_change_places_with_the_sides():
    languages = {"source_language": "en", "target_language": "de"}
    assert DataArguments(**languages).languages == ("en", "de")
    assert DataArguments(**languages, swap_sides=True).languages == ("de", "en")


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


def test_a_test_set_loses_no_line_to_drop_undecodable(tmp_path):
    (tmp_path / "a.tsv").write_text("one\teins\n")
    (tmp_path / "b.tsv").write_bytes(b"t\xffo\tzwei\n")
    data = {"train_file": [str(tmp_path / "a.tsv")], "test_file": [str(tmp_path / "b.tsv")]}
    with pytest.raises(ValueError, match=r"b\.tsv, line 1 is not UTF-8"):
        load_corpus(DataArguments(**data, drop_undecodable=True))


def test_a_vocabulary_can_be_learned_from_a_sample_spread_over_the_text():
    texts = [str(number) for number in range(100)]
    pairs = Dataset.from_dict({"source": texts, "target": texts})
    sample = list(Corpus({"train": pairs}, sample_pairs=10).sentences())
    assert sample == [str(number) for number in range(0, 100, 10)] * 2


DIRTY = b"one\teins\nlost\t \nsame\tsame\ntwo\tzwei\none\teins\nthr\xffee\tdrei\nfour\tvier\n"
RULES = {"drop_undecodable": True, "drop_copies": True}


@pytest.mark.parametrize(("sample", "learned"), [(None, 3), (2, 2)])
def test_a_vocabulary_is_learned_from_pairs_that_are_kept(tmp_path, sample, learned):
    path = write(tmp_path / "a.tsv", DIRTY)
    arguments = DataArguments(
        train_file=[str(path)], drop_duplicates=True, tokenizer_sample_pairs=sample, **RULES
    )
    kept = [("one", "eins"), ("two", "zwei"), ("four", "vier")][:learned]
    sources, targets = zip(*kept, strict=True)
    assert [*load_corpus(arguments).sentences()] == [*sources, *targets]


@pytest.mark.parametrize(("sample", "learned"), [(None, 4), (3, 3)])
def test_a_streamed_vocabulary_is_learned_from_the_first_pairs_that_are_kept(
    tmp_path, sample, learned
):
    path = write(tmp_path / "a.tsv", DIRTY)
    arguments = DataArguments(
        train_file=[str(path)], streaming=True, tokenizer_sample_pairs=sample, **RULES
    )
    kept = [("one", "eins"), ("two", "zwei"), ("one", "eins"), ("four", "vier")][:learned]
    assert [*load_corpus(arguments).sentences()] == [text for pair in kept for text in pair]


def test_text_without_a_usable_pair_is_refused_before_a_vocabulary_is_learned(tmp_path):
    path = write(tmp_path / "a.tsv", "one\t\n\tzwei\n")
    message = r"No training pair is usable: 2 pairs read, .*2 \(100.00 %\) with an empty side"
    with pytest.raises(ValueError, match=message):
        load_corpus(DataArguments(train_file=[str(path)]))
