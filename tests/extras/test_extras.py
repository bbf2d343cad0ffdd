import ast
import sys
import tomllib
from pathlib import Path

import pytest

from vaswani_hf.extras import EXTRAS, require


REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_package_is_in_the_extra_that_the_error_names():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for package, extra in EXTRAS.items():
        requirements = project["optional-dependencies"][extra]
        assert [line for line in requirements if line.replace("-", "_").startswith(f"{package}>")]


def test_every_package_that_is_required_has_its_extra():
    required = set()
    for path in (REPOSITORY / "vaswani_hf").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                (name,) = node.args
                if isinstance(name, ast.Constant):
                    required.add(name.value.partition(".")[0])
    assert required <= EXTRAS.keys()
    assert {"ctranslate2", "matplotlib", "onnxruntime"} <= required


@pytest.mark.parametrize(
    ("name", "extra"), [("matplotlib.figure", "plot"), ("onnxruntime.quantization", "export")]
)
def test_a_missing_package_is_an_error_that_names_its_extra(monkeypatch, name, extra):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'{name} is needed.*pip install "vaswani-hf\[{extra}\]'):
        require(name)
