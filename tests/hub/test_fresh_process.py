"""Folders in a process that cannot import the package, and in one that has."""

import ast
import os
import subprocess
import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.hub.client import PIPELINE_WITHOUT_PACKAGE, WITHOUT_PACKAGE
from vaswani_hf.hub.folder import REMOTE_CODE


def translate_without_package(name, cwd, environment=os.environ, code=WITHOUT_PACKAGE, more=()):
    """The lines that a process without the package writes: translations, classes."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(name), *map(str, more)],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        env={**environment, "HF_MODULES_CACHE": str(cwd / "modules")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_exported_folder_loads_in_a_process_without_the_package(exported, tmp_path):
    lines = translate_without_package(exported, tmp_path)
    assert lines[:2] == ["['a b c', 'h']", "VaswaniModel"]
    assert lines[2].startswith("transformers_modules.")


def test_the_pipeline_of_a_folder_runs_without_the_package(exported, tmp_path):
    saved = tmp_path / "saved"
    named, found, refused, whole = translate_without_package(
        exported, tmp_path, code=PIPELINE_WITHOUT_PACKAGE, more=[saved]
    )
    assert [one["translation_text"] for one in ast.literal_eval(named)] == ["a b c", "", "h"]
    assert found == "[{'translation_text': 'd e'}] transformers_modules"
    assert refused == "True"
    assert whole == "True"  # what is saved there names no code that is not beside it


def test_an_exported_folder_loads_as_the_packages_class_with_it(exported):
    model = AutoModelForSeq2SeqLM.from_pretrained(exported)
    assert type(model).__module__ == "vaswani_hf.modeling_vaswani"


def test_a_model_that_came_with_code_is_saved_with_code(exported, tmp_path):
    saved = tmp_path / "saved"
    AutoModelForSeq2SeqLM.from_pretrained(exported).save_pretrained(saved)
    AutoTokenizer.from_pretrained(exported).save_pretrained(saved)
    lines = translate_without_package(saved, tmp_path)
    assert lines[:2] == ["['a b c', 'h']", "VaswaniModel"]
    model = AutoModelForSeq2SeqLM.from_pretrained(saved)
    assert type(model).__module__ == "vaswani_hf.modeling_vaswani"
    assert {path.name for path in saved.glob("*.py")} == set(REMOTE_CODE)


def test_what_was_pushed_loads_without_the_package(hub, client, trained, tmp_path):
    assert client("push", trained, "--to", "lab/strange", "--no-verify")[0] == 0
    lines = translate_without_package("lab/strange", tmp_path, hub.environment(tmp_path / "home"))
    assert lines[:2] == ["['a b c', 'h']", "VaswaniModel"]
