"""What `import vaswani_hf` gives, what it leaves alone, and which files lie beside it."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vaswani_hf.hub.folder import REMOTE_CODE


REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Paths that users may have written: those of the changelog, the pages and earlier layouts.
PUBLIC = {
    "vaswani_hf": "CTranslate2Translator Translator VaswaniConfig VaswaniForConditionalGeneration "
    "VaswaniModel train_tokenizer __version__",
    "vaswani_hf.cli": "main",
    "vaswani_hf.conversion": "OnnxModel from_fairseq from_marian from_torch to_ctranslate2 "
    "to_marian to_onnx",
    "vaswani_hf.conversion.ctranslate2": "to_ctranslate2",
    "vaswani_hf.conversion.fairseq": "from_fairseq vaswani_from_fairseq",
    "vaswani_hf.conversion.marian": "from_marian marian_from_vaswani to_marian vaswani_from_marian",
    "vaswani_hf.conversion.onnx": "OnnxModel to_onnx",
    "vaswani_hf.conversion.pytorch": "from_torch read_state_dict vaswani_from_torch",
    "vaswani_hf.hub": "HubError Pushed export fetch push write_model_card",
    "vaswani_hf.plotting": "plot_learning_rate plot_positions plot_training read_log save_picture",
    "vaswani_hf.tokenization_vaswani": "join_pieces normalize tokenizer_of_segmented_text "
    "train_tokenizer",
    "vaswani_hf.translation": "CTranslate2Translator TextTranslator Translator",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_stay_where_they_are(module):
    for name in PUBLIC[module].split():
        assert hasattr(importlib.import_module(module), name)


def test_the_script_is_the_command_line():
    module, _, function = PROJECT["scripts"]["vaswani-hf"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_versions_agree():
    import vaswani_hf

    assert vaswani_hf.__version__ == PROJECT["version"]


FRESH = """
import sys
import vaswani_hf.plotting
assert vaswani_hf.plotting.plot_training is vaswani_hf.pictures.plot_training
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_importing_the_package_imports_nothing_that_is_not_pythons_own():
    done = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    needed = packages_of(PROJECT["dependencies"])
    optional = set().union(*map(packages_of, PROJECT["optional-dependencies"].values()))
    assert set(done.stdout.split()) & (needed | optional) == set()


def test_public_names_are_listed_and_others_are_none():
    import vaswani_hf

    assert set(vaswani_hf.__all__) <= set(dir(vaswani_hf))
    assert not hasattr(vaswani_hf, "VaswaniTokenizer")


def test_beside_init_and_tokenization_lie_the_files_that_travel_and_no_others():
    at_the_top = {path.name for path in (REPOSITORY / "vaswani_hf").glob("*.py")}
    assert at_the_top == {"__init__.py", "tokenization_vaswani.py", *REMOTE_CODE}


# What is imported is declared


MODULES = {"PyYAML": "yaml", "Babel": "babel", "onnx-ir": "onnx_ir"}  # of packages named otherwise


def packages_of(requirements):
    """The modules of a list of requirements, such as `["PyYAML>=6.0.2"]`."""
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in requirements]
    return {MODULES.get(name, name) for name in names}


def imported_by(folder):
    """The packages that files import, wherever the line stands."""
    found = set()
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


@pytest.mark.parametrize("folder", ["vaswani_hf", "training"])
def test_what_is_imported_is_declared(folder):
    declared = packages_of(PROJECT["dependencies"]) | {"vaswani_hf", "training"}
    for extra in PROJECT["optional-dependencies"].keys() - {"dev"}:
        declared |= packages_of(PROJECT["optional-dependencies"][extra])
    assert imported_by(folder) - declared == set()
