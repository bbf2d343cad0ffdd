"""`vaswani-hf translate`: n-best lists, samples and prefixes, and how they are written."""

import gzip
import json
import re

import pytest

from tests.cli.test_translate import killed_at, refusal
from tests.translation.ctranslate2_models import random_sentences
from vaswani_hf import Translator
from vaswani_hf.cli import main


SENTENCES = [*random_sentences(4, longest=6), "", *random_sentences(4, longest=7, seed=1)]
PREFIXES = ["t3", "", "t4 t1", "t0", "t5 t3", "", "", "t0 t1 t2", "t7"]


@pytest.fixture(scope="module")
def translator(talkative):
    return Translator.from_pretrained(talkative[0], device="cpu")


@pytest.fixture(scope="module")
def expected(translator):
    return translator.n_best(SENTENCES, num_return_sequences=3, prefixes=PREFIXES)


@pytest.fixture
def files(tmp_path):
    for name, lines in (("text", SENTENCES), ("prefixes", PREFIXES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "text", tmp_path / "prefixes"


@pytest.fixture
def translate(talkative, files, capfd):
    """A function of options: what is written for the file."""

    def run(*options):
        command = ["translate", "--model", talkative[0], files[0], "--device", "cpu", *options]
        assert main(list(map(str, command))) == 0
        return capfd.readouterr().out

    return run


def test_text_has_as_many_lines_for_each_sentence(translate, files, expected):
    options = ("--n_best", 3, "--prefix", files[1])
    written = translate(*options).splitlines()
    assert written == [one.text for several in expected for one in several]
    assert len(written) == 3 * len(SENTENCES)
    assert translate("--prefix", files[1]).splitlines() == [each[0].text for each in expected]


def test_tsv_has_the_number_the_rank_and_the_score(translate, files, expected):
    rows = translate("--n_best", 3, "--format", "tsv", "--prefix", files[1]).splitlines()
    assert [row.split("\t") for row in rows] == [
        [str(number), str(rank), f"{one.score:.4f}", one.text]
        for number, several in enumerate(expected, start=1)
        for rank, one in enumerate(several, start=1)
    ]


def test_jsonl_has_an_object_for_each_sentence(translate, files, expected, translator):
    packed = files[1].with_suffix(".gz")
    packed.write_bytes(gzip.compress(files[1].read_bytes()))
    lines = translate("--n_best", 3, "--format", "jsonl", "--prefix", packed).splitlines()
    pieces = translator.target_tokenizer.convert_ids_to_tokens
    for line, source, several in zip(lines, SENTENCES, expected, strict=True):
        record = json.loads(line)
        assert record["source"] == source
        assert record["translations"] == [
            {
                "text": one.text,
                "score": pytest.approx(one.score, abs=1e-4),
                "log_prob": pytest.approx(one.log_prob, abs=1e-4),
                "pieces": pieces(one.ids),
            }
            for one in several
        ]


def test_alignments_are_those_of_the_translator(translate, translator):
    options = ("--format", "jsonl", "--alignments", "--n_best", 2, "--chunk_sentences", 4)
    records = [json.loads(line) for line in translate(*options).splitlines()]
    found = translator.n_best(SENTENCES, num_return_sequences=2)
    for record, source, several in zip(records, SENTENCES, found, strict=True):
        for translation, one in zip(record["translations"], several, strict=True):
            alignment = translation["alignment"]
            if source:
                assert alignment == translator.align([source], [one.ids])[0].pharaoh
            else:
                assert alignment == ""


def test_samples_of_a_seed_are_drawn_again(translate, translator):
    options = ("--sampling_topk", 4, "--temperature", 1.5, "--seed", 7)
    python = {"sampling_topk": 4, "temperature": 1.5, "seed": 7}
    assert translate(*options).splitlines() == translator(SENTENCES, **python)
    several = translate(*options, "--n_best", 3, "--chunk_sentences", 2)
    found = translator.n_best(SENTENCES, num_return_sequences=3, **python)
    assert several.splitlines() == [one.text for each in found for one in each]


def without_digits(text):
    """A text in which scores have two decimals: the last ones differ by the batch."""
    return re.sub(r"([.]\d\d)\d+", r"\1", text)


@pytest.mark.parametrize("format", ["text", "tsv", "jsonl"])
def test_the_outputs_of_all_shards_are_that_of_the_file(translate, files, format):
    options = ("--format", format, "--n_best", 2, "--prefix", files[1])
    shards = [translate(*options, "--shard", f"{number}/4") for number in range(1, 5)]
    assert sum(map(bool, shards)) > 2
    assert without_digits("".join(shards)) == without_digits(translate(*options))


@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_a_killed_run_goes_on_at_the_next_whole_sentence(
    translate, talkative, files, tmp_path, format
):
    options = ["--format", format, "--n_best", "2", "--prefix", str(files[1])]
    options += ["--sampling_topk", "0", "--seed", "5", "--chunk_sentences", "2"]
    whole = translate(*options)
    path = tmp_path / "out"
    command = ["translate", "--model", str(talkative[0]), str(files[0]), "--device", "cpu"]
    command += [*options, "--output", str(path), "--resume"]
    # Behind an odd number of lines, and in the middle of one.
    places = [place + 1 for place, letter in enumerate(whole) if letter == "\n"]
    assert killed_at(places[2] if format == "text" else places[2] + 5, command)
    assert main(command) == 0
    assert without_digits(path.read_text()) == without_digits(whole)


def test_a_run_with_other_prefixes_is_not_gone_on_with(talkative, files, tmp_path, capsys):
    command = ["translate", "--model", str(talkative[0]), str(files[0]), "--device", "cpu"]
    command += ["--prefix", str(files[1]), "--output", str(tmp_path / "out"), "--resume"]
    assert killed_at(9, command)
    files[1].write_text(files[1].read_text().replace("t3", "t13"))
    assert "prefix_bytes=" in refusal(capsys, *command)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n_best", "0"], "--n_best must be at least 1, got 0"),
        (
            ["--n_best", "5", "--num_beams", "4"],
            "--n_best must be at most --num_beams, got --n_best=5 and --num_beams=4",
        ),
        (["--temperature", "1"], "temperature is for sampling"),
        (["--seed", "1"], "seed is for sampling"),
        (["--sampling_topk", "-1"], "sampling_topk must be at least 0"),
        (["--sampling_topk", "0", "--num_beams", "2"], "--sampling_topk has no beams"),
        (["--sampling_topk", "0", "--resume", "--output", "out"], "--resume needs --seed"),
        (["--n_best", "2", "--split", "sentences"], "--n_best is for a sentence a line"),
        (["--prefix", "p", "--split", "sentences"], "--prefix is for a sentence a line"),
        (["--format", "tsv", "--split", "sentences"], "--format is for a sentence a line"),
        (["--format", "html", "--resume", "--output", "out"], "leave out --resume"),
        (["--format", "xliff", "--n_best", "2"], "leave out --n_best"),
        (["--format", "placeholders", "--shard", "1/2"], "leave out --shard"),
        (["--format", "placeholders", "--language", "en"], "--language is for --split sentences"),
        (["--alignments"], "--alignments is for --format jsonl only"),
        (
            ["--alignments", "--format", "jsonl", "--shard", "1/2"],
            "--alignments chooses a head by the first sentences",
        ),
        (
            ["--alignments", "--format", "jsonl", "--engine", "ctranslate2"],
            "--alignments is for --engine transformers only",
        ),
        (
            ["--sampling_topk", "0", "--seed", "1", "--engine", "ctranslate2"],
            "--seed is for --engine transformers only",
        ),
        (
            ["--dtype", "float16", "--engine", "ctranslate2"],
            "--dtype is for --engine transformers only; ctranslate2 has --compute_type",
        ),
        (["--prefix", "nowhere"], "There is no file nowhere"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    files, tmp_path, monkeypatch, capsys, options, message
):
    monkeypatch.chdir(tmp_path)
    # There is no such model: what is refused is refused before.
    assert message in refusal(capsys, "translate", "--model", "m", files[0], *options)
    assert {file.name for file in tmp_path.iterdir()} == {"text", "prefixes"}


def test_each_line_needs_its_prefix(files, capsys):
    files[1].write_text("t1\n" * 10)
    command = ("translate", "--model", "m", files[0], "--prefix", files[1])
    assert f"{files[0]} has 9 lines, and {files[1]} has more" in refusal(capsys, *command)
    files[1].write_text("t1\n" * 8)
    assert f"{files[1]} has 8 lines, and {files[0]} has more" in refusal(capsys, *command)
