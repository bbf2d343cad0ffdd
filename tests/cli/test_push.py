import pytest

from vaswani_hf import hub
from vaswani_hf.cli import main
from vaswani_hf.hub import Pushed


def test_a_missing_folder_is_one_line_of_error(tmp_path, capsys):
    assert main(["push", str(tmp_path / "nowhere"), "--to", "lab/name"]) == 1
    assert capsys.readouterr().err == f"vaswani-hf: There is no folder {tmp_path}/nowhere.\n"


def test_a_repository_must_be_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["push", str(tmp_path)])
    assert "--to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ([], {"private": None, "revision": None, "license": None, "is_verified": True}),
        (["--private", "--no-verify"], {"private": True, "is_verified": False}),
        (["--revision", "next", "--license", "mit"], {"revision": "next", "license": "mit"}),
        (
            ["--source_language", "en", "--target_language", "de", "--max_shard_size", "1GB"],
            {"source_language": "en", "target_language": "de", "max_shard_size": "1GB"},
        ),
    ],
)
def test_options_reach_the_push(monkeypatch, tmp_path, capsys, options, given):
    calls = []

    def note(*arguments, **named):
        calls.append((arguments, named))
        return Pushed("lab/name", "abc", "https://hub/lab/name", [("a b", "A B")])

    monkeypatch.setattr(hub, "push", note)
    assert main(["push", str(tmp_path), "--to", "lab/name", *options]) == 0
    ((arguments, named),) = calls
    assert arguments == (str(tmp_path), "lab/name")
    assert given.items() <= named.items()
    shown = capsys.readouterr().out
    assert "to https://hub/lab/name (commit abc)" in shown and "a b\n    A B\n" in shown
