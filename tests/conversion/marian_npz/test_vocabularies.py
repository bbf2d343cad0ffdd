import pytest
import yaml

from vaswani_hf.conversion.marian_npz.vocabularies import read_vocabulary, write_yaml


PIECES = ["</s>", "<unk>", "no", "~", "1", ":", "a: b", '"', "'", "\\", "#", "- x", "\u2581ü", "😀"]
# Line ends for some reader: U+0085 and U+2028 for YAML, \r for Python.
ODD = ["\t", "\r", "\x85", "\u2028", "\ufeff", "\x01"]


def test_what_is_written_is_read_here_and_by_yaml(tmp_path):
    path = tmp_path / "vocab.yml"
    write_yaml(PIECES + ODD, path)
    assert read_vocabulary(path).pieces == PIECES + ODD
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert entries == {piece: token for token, piece in enumerate(PIECES + ODD)}


def test_ctranslate2_reads_what_is_written(tmp_path):
    converters = pytest.importorskip("ctranslate2.converters.marian")
    write_yaml(PIECES, tmp_path / "vocab.yml")
    assert converters.load_vocab(tmp_path / "vocab.yml") == PIECES


def test_vocabularies_of_marian_and_nematus_are_read(tmp_path):
    # As yaml-cpp writes them: quotes where it must, a long or odd key in two lines.
    text = '</s>: 0\n<unk>: 1\n\'\': 2\n"\\x85": 3\n? a\n: 4\nno: 5\n":": 6\nit\'s: 7\n'
    (tmp_path / "vocab.yml").write_text(text)
    found = read_vocabulary(tmp_path / "vocab.yml")
    assert found.pieces == ["</s>", "<unk>", "", "\x85", "a", "no", ":", "it's"]
    (tmp_path / "vocab.json").write_text('{"eos": 0, "UNK": 1, "a": 2}')
    found = read_vocabulary(tmp_path / "vocab.json")
    assert (found.pieces, found.eos_id, found.unk_id) == (["</s>", "<unk>", "a"], 0, 1)
    (tmp_path / "vocab.txt").write_text("b\n<unk>\n</s>\n")
    found = read_vocabulary(tmp_path / "vocab.txt")
    assert (found.pieces, found.eos_id, found.unk_id) == (["b", "<unk>", "</s>"], 2, 1)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("vocab.yml", "</s>: 0\n<unk>: 1\na b\n", "line 3 must be \"piece: id\", got 'a b'"),
        ("vocab.yml", "</s>: 0\n<unk>: 1\na: 3\n", "must have the ids 0 to 2, each once"),
        ("vocab.yml", "</s>: 0\na: 1\n", "lacks the piece <unk>"),
        ("vocab.json", '{"</s>": 0', "is not valid JSON"),
        ("vocab.json", '["</s>"]', "must map pieces to ids"),
        ("vocab.fsv", "", "is a factored vocabulary"),
        ("vocab.spm", "no model", "is no model of SentencePiece"),
    ],
)
def test_a_damaged_vocabulary_is_told_by_its_name(name, text, told, tmp_path):
    if name.endswith(".spm"):
        pytest.importorskip("sentencepiece")
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name) as error:
        read_vocabulary(tmp_path / name)
    assert told in str(error.value)


def test_a_missing_vocabulary_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="source_vocabulary and target_vocabulary"):
        read_vocabulary(tmp_path / "vocab.yml")
