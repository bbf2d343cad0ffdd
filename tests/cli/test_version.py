"""`vaswani-hf --version`."""

import re
import tomllib

import pytest
import torch
import transformers

from tests.conftest import REPOSITORY
from vaswani_hf.cli import main


def test_the_version_is_shown_with_those_of_torch_and_transformers(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    ours = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    libraries = (library.__version__.partition("+")[0] for library in (torch, transformers))
    expected = r"vaswani-hf {} \(torch {}[^,]*, transformers {}\)\n".format(ours, *libraries)
    assert re.fullmatch(expected, capsys.readouterr().out)
