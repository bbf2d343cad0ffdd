import json

import pytest

from vaswani_hf.cli import main


pytest.importorskip("matplotlib")


def test_the_command_writes_a_picture_and_its_name(tmp_path, capsys):
    log = [{"step": 1, "loss_nats_per_token": 2.0}, {"step": 2, "loss_nats_per_token": 1.0}]
    (tmp_path / "log_history.json").write_text(json.dumps(log))
    picture = tmp_path / "picture.svg"
    assert main(["plot", str(tmp_path), "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"<?xml")
    assert capsys.readouterr().out == f"{picture}\n"


def test_the_command_refuses_an_unknown_suffix_before_it_reads(tmp_path, capsys):
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "picture.gif")]) == 1
    error = capsys.readouterr().err
    assert "picture.gif: the name of a picture must end in .png, .svg, .pdf." in error
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_in_a_line_what_is_wrong_with_a_folder(tmp_path, capsys):
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "picture.png")]) == 1
    assert "holds no run" in capsys.readouterr().err
