"""Folders in a process that cannot import the package, and in one that has."""

import os
import subprocess
import sys

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tests.hub.client import WITHOUT_PACKAGE
from vaswani_hf.hub.folder import REMOTE_CODE


def translate_without_package(name, cwd, environment=os.environ):
    """The lines that a process without the package writes: translations, classes."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, str(name)],
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
