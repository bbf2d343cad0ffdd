import ast
import json
import re
import shutil

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from vaswani_hf.hub.folder import REMOTE_CODE, check_folder, export


def test_a_configuration_names_no_code_that_is_not_beside_it(exported, copier, tmp_path):
    AutoConfig.from_pretrained(exported).save_pretrained(tmp_path / "named")
    assert {path.name for path in (tmp_path / "named").glob("*.py")} == set(REMOTE_CODE)
    copier[0].save_pretrained(tmp_path / "unnamed")
    assert not list((tmp_path / "unnamed").glob("*.py"))
    assert "auto_map" not in json.loads((tmp_path / "unnamed" / "config.json").read_text())
    elsewhere = AutoConfig.from_pretrained(exported)
    elsewhere.auto_map = {"AutoConfig": "lab/model--configuration_vaswani.VaswaniConfig"}
    elsewhere.custom_pipelines = {}
    elsewhere.save_pretrained(tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").glob("*.py"))


def test_the_tied_matrix_is_on_disk_once(exported):
    with safe_open(exported / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if "embed_tokens" in name or "lm_head" in name]  # noqa: SIM118
        assert names == []
        assert "model.shared.weight" in file.keys()  # noqa: SIM118


def test_an_exported_config_keeps_the_cache_on_after_training(copier, tmp_path):
    model, tokenizer = copier
    model.config.use_cache = False  # what the library's trainer leaves behind
    export(model, tokenizer, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["use_cache"] is True


def test_exported_weights_are_the_models(copier, exported):
    loaded = AutoModelForSeq2SeqLM.from_pretrained(exported)
    for name, parameter in copier[0].named_parameters():
        assert torch.equal(parameter, loaded.get_parameter(name))


def test_no_line_of_the_travelling_files_looks_like_an_import_of_ours(exported):
    # The library finds what to copy by regular expression, in docstrings too.
    for name in REMOTE_CODE:
        text = (exported / name).read_text()
        imports = {
            node.lineno: node.module
            for node in ast.parse(text).body
            if isinstance(node, ast.ImportFrom) and node.level == 1
        }
        assert {f"{module}.py" for module in imports.values()} <= set(REMOTE_CODE)
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip().startswith(("from .", "import .")):
                assert line == line.strip()
                assert number in imports
            assert "vaswani_hf import" not in line


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("d_ff", 96, "feed_forward.inner.weight has shape (128, 64) instead of (96, 64)"),
        ("encoder_layers", 3, "encoder.layers.2."),
        ("decoder_layers", 1, "has no place in the model"),
        ("num_heads", "four", "num_heads"),
        ("dropout", 7, "dropout=7"),
    ],
)
def test_an_edited_config_is_told(exported, tmp_path, field, value, said):
    folder = shutil.copytree(exported, tmp_path / "edited")
    config = json.loads((folder / "config.json").read_text()) | {field: value}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=re.escape(said)):
        check_folder(folder)
