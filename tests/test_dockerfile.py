"""What can be seen of the image without building it."""

import json
import re
import shlex
import tomllib

import pytest

from tests.conftest import REPOSITORY
from vaswani_hf.cli import main


TEXT = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if re.match("[A-Z]", line)]


def of(instruction):
    return [words for name, words in LINES if name == instruction]


def test_what_is_copied_is_there_and_is_what_a_build_needs():
    copied = [source for words in of("COPY") for source in shlex.split(words)[:-1]]
    assert all((REPOSITORY / source).exists() for source in copied)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    build = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert {*needed, *build["packages"], *build["force-include"], "constraints.txt"} <= set(copied)
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', TEXT)
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()


def test_the_server_runs_without_rights():
    names = [name for name, _ in LINES]
    assert of("USER") == ["10001"] and "--uid 10001" in of("RUN")[-1]
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")


def test_the_command_and_its_port_are_those_of_the_server(capsys):
    program, *arguments = json.loads(of("ENTRYPOINT")[0])
    assert program == "vaswani-hf" and arguments[:1] == ["serve"]
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--model", "en-de=/model", "--help"])
    assert caught.value.code == 0
    assert of("EXPOSE") == re.findall(r"\(default: (5000)\)", capsys.readouterr().out)
