import io
import json
import math
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vaswani_hf import Translator, VaswaniConfig, VaswaniForConditionalGeneration
from vaswani_hf.cli import main
from vaswani_hf.hub.folder import export


@pytest.fixture
def files(tmp_path):
    """Sources, their copies and wrong ones, of which the last is a copy too."""
    contents = {
        "source": "a b\n\nc d e\nf\n",
        "target": "a b\n\nc d e\nf\n",
        "wrong": "a c\na\nh\nf\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in contents}


@pytest.fixture
def run(capfd):
    """A function of a command: status, lines of standard output, standard error."""

    def call(*command):
        capfd.readouterr()
        status = main([str(argument) for argument in command])
        out, error = capfd.readouterr()
        assert out == "" or out.endswith("\n")
        return status, out.splitlines(), error

    return call


def pair_options(folder, files, **options):
    options = {"model": folder, "source": files["source"], "target": files["target"]} | options
    return [part for name, value in options.items() for part in (f"--{name}", value)]


@pytest.fixture(scope="module")
def expected(copier):
    return Translator(*copier).score(["a b", "", "c d e", "f"], ["a b", "", "c d e", "f"])


def test_lines_have_log_probability_score_and_tokens(copier_folder, files, run, expected):
    status, lines, error = run("score", *pair_options(copier_folder, files))
    rows = [line.split("\t") for line in lines]
    assert status == 0
    for row, score in zip(rows, expected, strict=True):
        assert float(row[0]) == pytest.approx(score.log_prob, abs=1e-5)
        # Wu et al. with alpha 0.6, the model's own.
        penalty = ((5 + len(score.ids)) / 6) ** 0.6
        assert float(row[1]) == pytest.approx(score.log_prob / penalty, abs=1e-5)
        assert int(row[2]) == len(score.tokens)
    total, count = sum(float(row[0]) for row in rows), sum(int(row[2]) for row in rows)
    assert f"4 pairs, {count} target tokens, perplexity {math.exp(-total / count):.4f}" in error


def test_the_length_penalty_is_as_it_is_asked_for(copier_folder, files, run, expected):
    options = {"length_penalty": 0.5, "length_penalty_type": "power"}
    _, lines, _ = run("score", *pair_options(copier_folder, files, **options))
    for line, score in zip(lines, expected, strict=True):
        assert float(line.split("\t")[1]) == pytest.approx(
            score.log_prob / len(score.ids) ** 0.5, abs=1e-5
        )


def test_json_has_the_tokens_and_an_output_file_the_lines(copier_folder, files, run, tmp_path):
    output = tmp_path / "scores.jsonl"
    options = pair_options(copier_folder, files, format="jsonl", output=output)
    status, lines, _ = run("score", *options)
    assert (status, lines) == (0, [])
    records = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [record["tokens"] for record in records] == [
        ["▁a", "▁b", "</s>"],
        ["</s>"],
        ["▁c", "▁d", "▁e", "</s>"],
        ["▁f", "</s>"],
    ]
    for record in records:
        assert sum(record["log_probs"]) == pytest.approx(record["log_prob"], abs=1e-5)
        assert len(record["log_probs"]) == len(record["tokens"])


def test_contrastive_pairs_are_counted(copier_folder, files, run):
    options = pair_options(copier_folder, files, contrastive=files["wrong"])
    status, lines, error = run("score", *options)
    rows = [[float(score) for score in line.split("\t")] for line in lines]
    right = [a > b for a, b in rows]
    assert status == 0
    assert right[0] and right[2] and not right[3]  # the last are equal
    assert f"score(right) > score(wrong): {sum(right)} pairs, {25 * sum(right)}.00 %" in error
    _, lines, _ = run("score", *options, "--format", "jsonl")
    record = json.loads(lines[0])
    assert record["wrong"]["tokens"] == ["▁a", "▁c", "</s>"]
    assert record["right"]["score"] == pytest.approx(rows[0][0], abs=1e-5)


def test_both_engines_score(copier_folder, files, run, tmp_path):
    pytest.importorskip("ctranslate2")
    assert main(["convert", str(copier_folder), str(tmp_path / "c"), "--to", "ctranslate2"]) == 0
    _, expected, _ = run("score", *pair_options(copier_folder, files))
    options = pair_options(tmp_path / "c", files, engine="ctranslate2", device="cpu")
    status, lines, error = run("score", *options)
    assert status == 0 and "Wu et al." not in error
    for line, other in zip(lines, expected, strict=True):
        assert [float(part) for part in line.split("\t")] == pytest.approx(
            [float(part) for part in other.split("\t")], abs=1e-5
        )


def test_standard_input_is_one_of_the_sides(copier_folder, files, run, monkeypatch):
    _, expected, _ = run("score", *pair_options(copier_folder, files))
    for side in ("source", "target"):
        with open(files[side], "rb") as file:
            text = io.BytesIO(file.read())
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=text))
        _, lines, _ = run("score", *pair_options(copier_folder, files, **{side: "-"}))
        assert lines == expected


def test_a_pipe_is_one_of_the_files(copier_folder, files, run, tmp_path):
    expected = run("score", *pair_options(copier_folder, files))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = Path(files["source"]).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    assert run("score", *pair_options(copier_folder, files, source=pipe)) == expected
    writer.join()


def test_files_without_lines_have_no_perplexity(copier_folder, files, run, tmp_path):
    (tmp_path / "empty").touch()
    empty = {"source": tmp_path / "empty", "target": tmp_path / "empty"}
    assert run("score", *pair_options(copier_folder, empty)) == (0, [], "0 pairs\n")


@pytest.mark.parametrize("command", ["score", "align"])
@pytest.mark.parametrize("chunk", [2, 3, 10])
def test_files_of_unequal_length_are_named(copier_folder, files, run, command, chunk, tmp_path):
    short = tmp_path / "short"
    short.write_text("a b\n\nc d e\n")
    for side, other in (("source", "target"), ("target", "source")):
        options = pair_options(copier_folder, files, **{side: short, "chunk_sentences": chunk})
        status, lines, error = run(command, *options)
        assert status == 1
        assert f"{short} has 3 lines, and {files[other]} has more" in error
        assert len(lines) == 3  # the pairs before that are answered


def test_wrong_targets_of_another_number_are_named(copier_folder, files, run, tmp_path):
    short = tmp_path / "short"
    short.write_text("a\nb\n")
    options = pair_options(copier_folder, files, contrastive=short)
    assert f"{short} has 2 lines, and {files['target']} has more" in run("score", *options)[2]
    options = pair_options(copier_folder, files, source=short, contrastive=files["wrong"])
    assert f"{short} has 2 lines, and {files['target']} has more" in run("score", *options)[2]


def test_a_line_that_is_too_long_is_named(copier, files, run, tmp_path):
    config = VaswaniConfig(
        vocab_size=len(copier[1]),
        d_model=16,
        d_ff=16,
        num_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        position_encoding="learned",
        max_position_embeddings=3,
    )
    export(VaswaniForConditionalGeneration(config), copier[1], tmp_path / "learned")
    options = pair_options(tmp_path / "learned", files)
    message = f"{files['source']}, line 3: its 4 tokens need 4 positions, but the model has 3"
    assert message in run("score", *options)[2]
    for name, text in {"source": "a\nb\n", "target": "a\nb\n", "wrong": "a\na b c\n"}.items():
        (tmp_path / name).write_text(text)
    assert run("score", *options)[0] == 0
    message = f"{files['wrong']}, line 2: its 4 tokens need 4 positions"
    assert message in run("score", *options, "--contrastive", files["wrong"])[2]


class Interrupted:
    """Standard input in which Ctrl-C comes after two lines."""

    def __iter__(self):
        yield from (b"a b\n", b"c\n")
        raise KeyboardInterrupt


@pytest.mark.parametrize("command", ["score", "align"])
def test_an_interrupt_leaves_whole_lines(copier_folder, files, run, command, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Interrupted()))
    options = pair_options(copier_folder, files, source="-", chunk_sentences=1)
    status, lines, error = run(command, *options)
    assert (status, len(lines), error) == (130, 2, "")


@pytest.mark.parametrize("command", ["score", "align"])
def test_a_reader_that_goes_away_ends_the_command(
    copier_folder, files, command, monkeypatch, capfd
):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main([command, *map(str, pair_options(copier_folder, files))]) == 1
        monkeypatch.undo()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("command", ["score", "align"])
def test_files_that_cannot_be_are_refused(copier_folder, files, run, command, tmp_path):
    def refusal(**options):
        status, lines, error = run(command, *pair_options(copier_folder, files, **options))
        assert (status, lines) == (1, [])
        assert error.startswith("vaswani-hf: ") and error.count("\n") == 1
        return error

    assert "There is no file nowhere" in refusal(target="nowhere")
    assert "Standard input, -, can be only one" in refusal(source="-", target="-")
    assert "would overwrite what is read" in refusal(output=files["source"])
    assert "chunk_sentences must be at least 1" in refusal(chunk_sentences=0)
    assert "batch_tokens must be at least 1" in refusal(batch_tokens=0)
    assert "device='nonsense'" in refusal(device="nonsense")
    (tmp_path / "bad").write_bytes(b"a\n\xff\nb\nc\n")
    assert "bad, line 2 is not UTF-8" in refusal(target=tmp_path / "bad")


def test_threads_are_those_that_are_asked_for(copier_folder, files, run):
    status, lines, _ = run("score", *pair_options(copier_folder, files), "--threads", "2")
    found = torch.get_num_threads()
    torch.set_num_threads(1)
    assert (status, len(lines), found) == (0, 4, 2)
