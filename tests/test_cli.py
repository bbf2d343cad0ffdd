import os
import subprocess
import sys

import pytest

from vaswani_hf.cli import main


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    from vaswani_hf.hub import export

    path = tmp_path_factory.mktemp("copier")
    export(*copier, path)
    return path


def translate(folder, text, *options, check=True):
    command = [sys.executable, "-m", "vaswani_hf.cli", "translate", "--model", str(folder)]
    data = text if isinstance(text, bytes) else text.encode()
    return subprocess.run([*command, *options], input=data, capture_output=True, check=check)


def test_standard_input_goes_to_standard_output_line_by_line(folder):
    done = translate(folder, "a b c\n\nh g\n", "--chunk_sentences", "2")
    assert done.stdout.decode() == "a b c\n\nh g\n"


def test_a_file_is_translated(folder, tmp_path, capfd):
    path = tmp_path / "text"
    path.write_text("d e\na\n")
    assert main(["translate", "--model", str(folder), str(path), "--device", "cpu"]) == 0
    assert capfd.readouterr().out == "d e\na\n"


def test_a_line_that_is_not_utf8_is_an_error_that_names_it(folder):
    done = translate(folder, b"a b\n\xff\n", check=False)
    assert done.returncode == 1
    assert b"standard input, line 2 is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_what_came_before_a_bad_line_is_not_lost(folder):
    done = translate(folder, b"a b\n\xff\n", "--chunk_sentences", "1", check=False)
    assert done.stdout == b"a b\n"


def test_a_missing_file_is_an_error_that_names_it(folder, capsys):
    assert main(["translate", "--model", str(folder), "nowhere.txt"]) == 1
    assert "nowhere.txt" in capsys.readouterr().err


def test_a_missing_model_is_an_error_that_names_it(tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a\n")
    assert main(["translate", "--model", str(tmp_path / "nowhere"), str(text)]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_a_beam_of_nothing_is_refused(folder, tmp_path, capsys):
    text = tmp_path / "text"
    text.write_text("a\n")
    command = ["translate", "--model", str(folder), str(text), "--num_beams", "0"]
    assert main(command) == 1
    assert "num_beams=0" in capsys.readouterr().err


@pytest.fixture(scope="module")
def ctranslate2_folder(folder, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    from vaswani_hf.conversion.ctranslate2 import to_ctranslate2

    path = tmp_path_factory.mktemp("engine") / "ctranslate2"
    to_ctranslate2(folder, path)
    return path


def test_both_engines_translate(folder, ctranslate2_folder):
    text, options = "a b c\n\nh g\n", ["--length_penalty_type", "power", "--num_beams", "3"]
    ours = translate(folder, text, *options)
    options += ["--engine", "ctranslate2", "--compute_type", "float32", "--threads", "1"]
    theirs = translate(ctranslate2_folder, text, *options)
    assert ours.stdout.decode() == theirs.stdout.decode() == text


def test_the_engine_must_be_that_of_the_folder(folder, ctranslate2_folder, capsys):
    command = ["translate", os.devnull, "--model"]
    assert main([*command, str(ctranslate2_folder)]) == 1
    assert "--engine ctranslate2" in capsys.readouterr().err
    assert main([*command, str(folder), "--engine", "ctranslate2"]) == 1
    assert "--engine transformers" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--compute_type=int8", "--threads=1"])
def test_options_of_ctranslate2_are_refused_without_it(folder, capsys, option):
    assert main(["translate", "--model", str(folder), os.devnull, option]) == 1
    assert f"{option.split('=')[0]} is for --engine ctranslate2" in capsys.readouterr().err


def test_an_unknown_compute_type_is_refused_by_name(ctranslate2_folder, capsys):
    command = ["translate", "--model", str(ctranslate2_folder), "--engine", "ctranslate2"]
    assert main([*command, os.devnull, "--compute_type", "int4"]) == 1
    assert "int4" in capsys.readouterr().err


def test_the_command_is_installed(folder):
    script = os.path.join(os.path.dirname(sys.executable), "vaswani-hf")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=True)
    assert "translate" in done.stdout
