import json

import pytest

from training.data.corpus import load_corpus
from training.settings.fields import DataArguments


def write(path, text):
    path.write_text(text)
    return path


def test_a_dataset_that_cannot_be_is_refused_without_asking_the_hub():
    with pytest.raises(ValueError, match="dataset=/no/where is neither a folder nor an id"):
        load_corpus(DataArguments(dataset="/no/where"))


def test_a_dataset_folder_is_read_by_its_language_columns(tmp_path):
    rows = [{"translation": {"en": "one", "de": "eins"}}, {"translation": {"en": "a", "de": "b"}}]
    write(tmp_path / "train.jsonl", "\n".join(map(json.dumps, rows)))
    arguments = DataArguments(dataset=str(tmp_path), source_column="en", target_column="de")
    corpus = load_corpus(arguments)
    assert set(corpus.splits) == {"train"}
    assert corpus.splits["train"][:] == {"source": ["one", "a"], "target": ["eins", "b"]}
