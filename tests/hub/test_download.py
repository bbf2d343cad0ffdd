import json
import os
import subprocess
import sys

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_hf.hub.card import write_model_card
from vaswani_hf.hub.folder import REMOTE_CODE, export


RESULTS = {
    "recipe": "multi30k",
    "parameters": 1234567,
    "data": {"pairs_read": 10, "pairs_kept": 8, "dropped_empty": 1, "dropped_too_long": 1},
    "training": {"updates": 50, "seconds": 61.5, "target_tokens_per_second": 1234.5},
    "averaged_checkpoints": ["checkpoint-40", "checkpoint-50"],
    "hardware": {"processes": 1, "gpus": [], "cpu_cores": 2},
    "commit": "abc1234",
    "scores": {
        "test": {
            "bleu": 27.345,
            "bleu_signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
            "exact_match": 0.125,
            "perplexity_per_token": 4.5678,
            "sentences": 1000,
        }
    },
}


@pytest.fixture(scope="module")
def folder(copier, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported")
    export(*copier, path)
    return path


# A process that cannot import the package: its own folder is the only one it looks into first.
STRANGER = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vaswani_hf", "training"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer(["a b c", "h"], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
print(type(AutoModel.from_pretrained(folder, trust_remote_code=True)).__name__)
print(type(AutoConfig.from_pretrained(folder, trust_remote_code=True)).__module__)
"""


def run(code, folder, cwd):
    environment = {**os.environ, "HF_MODULES_CACHE": str(cwd / "modules")}
    return subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def test_an_exported_folder_loads_in_a_process_without_the_package(folder, tmp_path):
    done = run(STRANGER, folder, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "['a b c', 'h']"
    assert lines[1] == "VaswaniModel"
    assert lines[2].startswith("transformers_modules.")


WITH_PACKAGE = (
    "import sys, vaswani_hf\nfrom transformers import AutoModelForSeq2SeqLM\n"
    "print(type(AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])).__module__)"
)


def test_an_exported_folder_loads_after_importing_the_package(folder, tmp_path):
    done = run(WITH_PACKAGE, folder, tmp_path)
    assert done.stdout.strip() == "vaswani_hf.modeling_vaswani", done.stderr


def test_a_model_that_came_with_code_is_saved_with_code(folder, tmp_path):
    saved = tmp_path / "saved"
    AutoModelForSeq2SeqLM.from_pretrained(folder).save_pretrained(saved)
    AutoTokenizer.from_pretrained(folder).save_pretrained(saved)
    done = run(STRANGER, saved, tmp_path)
    assert done.stdout.splitlines()[:2] == ["['a b c', 'h']", "VaswaniModel"], done.stderr
    done = run(WITH_PACKAGE, saved, tmp_path)
    assert done.stdout.strip() == "vaswani_hf.modeling_vaswani", done.stderr
    assert {path.name for path in saved.glob("*.py")} == set(REMOTE_CODE)


def test_a_configuration_names_no_code_that_is_not_beside_it(folder, copier, tmp_path):
    AutoConfig.from_pretrained(folder).save_pretrained(tmp_path / "named")
    assert {path.name for path in (tmp_path / "named").glob("*.py")} == set(REMOTE_CODE)
    copier[0].save_pretrained(tmp_path / "unnamed")
    assert not list((tmp_path / "unnamed").glob("*.py"))
    assert "auto_map" not in json.loads((tmp_path / "unnamed" / "config.json").read_text())
    elsewhere = AutoConfig.from_pretrained(folder)
    elsewhere.auto_map = {"AutoConfig": "lab/model--configuration_vaswani.VaswaniConfig"}
    elsewhere.save_pretrained(tmp_path / "elsewhere")
    assert not list((tmp_path / "elsewhere").glob("*.py"))


def test_the_tied_matrix_is_on_disk_once(folder):
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        names = [name for name in file.keys() if "embed_tokens" in name or "lm_head" in name]  # noqa: SIM118
        assert names == []
        assert "model.shared.weight" in file.keys()  # noqa: SIM118


def test_an_exported_config_keeps_the_cache_on_after_training(copier, tmp_path):
    model, tokenizer = copier
    model.config.use_cache = False  # what the library's trainer leaves behind
    export(model, tokenizer, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["use_cache"] is True


def test_exported_weights_are_the_models(copier, folder):
    loaded = AutoModelForSeq2SeqLM.from_pretrained(folder)
    for name, parameter in copier[0].named_parameters():
        assert torch.equal(parameter, loaded.get_parameter(name))


def test_no_line_of_the_travelling_files_looks_like_an_import_of_ours(folder):
    # The library finds what to copy by regular expression, in docstrings too.
    ours = {
        "from .beam_cache_vaswani import BeamCache, gather_hypotheses, make_beam_cache",
        "from .beam_cache_vaswani import num_memory_rows, reorder_rows, with_memory_rows",
        "from .beam_search_vaswani import POWER, RULES, WU, beam_search, wu_length_penalty",
        "from .configuration_vaswani import VaswaniConfig",
        "from .generation_vaswani import VaswaniGenerationMixin",
        "from .layers_vaswani import Dropout, LayerNorm, Linear",
        "from .layers_vaswani import Linear, linear",
        "from .loss_vaswani import IGNORED, can_go_by_chunks, chunked_cross_entropy, precise",
    }
    for name in REMOTE_CODE:
        for line in (folder / name).read_text().splitlines():
            if line.strip().startswith(("from .", "import .")):
                assert line in ours
            assert "vaswani_hf import" not in line


def test_the_card_says_the_figures_of_the_results(tmp_path):
    write_model_card(tmp_path, RESULTS, languages=["en", "de"], license="cc-by-2.0")
    text = (tmp_path / "README.md").read_text()
    for figure in ("1,234,567", "27.3", "12.5 %", "4.568", "abc1234", "checkpoint-40"):
        assert figure in text
    # In a table, a bar inside a cell is escaped.
    assert RESULTS["scores"]["test"]["bleu_signature"].replace("|", "\\|") in text
    data = ModelCard.load(tmp_path / "README.md").data
    assert data.language == ["en", "de"]
    assert data.license == "cc-by-2.0"
    assert data.pipeline_tag == "translation"
    assert data.library_name == "transformers"
    assert data.eval_results[0].metric_value == pytest.approx(27.345, abs=0.01)


def test_a_license_is_never_guessed(tmp_path):
    write_model_card(tmp_path, RESULTS)
    assert ModelCard.load(tmp_path / "README.md").data.license is None


SILENT = """
import socket, sys
with socket.socket() as silent:  # it takes the question and never answers
    silent.bind(("127.0.0.1", 0))
    silent.listen(100)
    import os
    os.environ["HF_ENDPOINT"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
    from vaswani_hf.hub import fetch
    try:
        fetch("nobody/nothing")
    except OSError as error:
        sys.stdout.write(str(error))
"""


def test_a_hub_that_never_answers_is_given_up(tmp_path):
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_ETAG_TIMEOUT": "1"}
    environment["HF_HUB_OFFLINE"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", SILENT],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=300,  # seconds; it would wait for ever
    )
    assert done.stdout.startswith("Could not fetch nobody/nothing: it is not in the cache")
    assert "could not be reached" in done.stdout
