"""The library's own common tests, of the very version that is installed, run against our classes.

They are not part of the installed package: its source distribution is fetched once into the
temporary folder of this machine. Without a network and without that copy, these tests skip.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import transformers

from vaswani_hf import train_tokenizer


REPOSITORY = Path(__file__).resolve().parent.parent
FETCHED = Path(tempfile.gettempdir()) / f"vaswani-hf-transformers-{transformers.__version__}"

EMPTY_MIXIN = "class {name}:\n    pass\n"
STUBS = {  # what the common tests import from files that the source distribution leaves out
    "pytest.ini": "[pytest]\n",
    "conftest.py": """
from transformers import testing_utils


def pytest_addoption(parser):
    testing_utils.pytest_addoption_shared(parser)


def pytest_configure(config):
    for marker in ("slow", "accelerate_tests", "flash_attn_test", "flash_attn_3_test",
                   "flash_attn_4_test", "generate", "torch_compile_test", "torch_export_test",
                   "tensor_parallel_test", "training_test", "fsdp_test", "flex_attention_test"):
        config.addinivalue_line("markers", f"{marker}: of the library")
""",
    "tests/__init__.py": "",
    "tests/exporters/__init__.py": "",
    "tests/exporters/test_export.py": EMPTY_MIXIN.format(name="ExportTesterMixin"),
    "tests/generation/__init__.py": "",
    "tests/generation/test_utils.py": EMPTY_MIXIN.format(name="GenerationTesterMixin"),
    "tests/utils/__init__.py": "",
    # `GenerationConfig` and the like have no default here that the config should know.
    "tests/utils/test_configuration_utils.py": """
config_common_kwargs = {
    "return_dict": False,
    "output_hidden_states": True,
    "output_attentions": True,
    "dtype": "float16",
    "chunk_size_feed_forward": 5,
    "architectures": ["BertModel"],
    "id2label": {0: "label"},
    "label2id": {"label": "0"},
    "problem_type": "regression",
}
""",
    "tests/fixtures/sample_text.txt": "Attention is all you need.\\n\\nA second line of text.\\n",
    "tests/models/__init__.py": "",
    "tests/models/vaswani/__init__.py": "",
}

MODEL_TESTS = '''
import unittest

import torch
from transformers.models.auto import modeling_auto

modeling_auto.MODEL_MAPPING_NAMES["vaswani"] = "VaswaniModel"
modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES["vaswani"] = (
    "VaswaniForConditionalGeneration"
)

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, VaswaniModel

from ...generation.test_utils import GenerationTesterMixin
from ...test_configuration_common import ConfigTester
from ...test_modeling_common import ModelTesterMixin, ids_tensor


class VaswaniModelTester:
    """A small model and a batch for it, under the names that the common tests read."""

    batch_size = 3
    seq_length = encoder_seq_length = decoder_seq_length = key_length = 7
    is_training = True
    use_labels = False
    vocab_size = 99
    hidden_size = 16
    num_hidden_layers = 2
    num_attention_heads = 4

    def __init__(self, parent):
        self.parent = parent

    def get_config(self):
        return VaswaniConfig(
            vocab_size=self.vocab_size,
            d_model=self.hidden_size,
            d_ff=24,
            num_heads=self.num_attention_heads,
            encoder_layers=self.num_hidden_layers,
            decoder_layers=self.num_hidden_layers,
            max_position_embeddings=128,
        )

    def prepare_config_and_inputs_for_common(self):
        def ids():
            return ids_tensor([self.batch_size, self.seq_length], self.vocab_size).clamp(3)

        source, target = ids(), ids()
        return self.get_config(), {
            "input_ids": source,
            "attention_mask": torch.ones_like(source),
            "decoder_input_ids": target,
            "decoder_attention_mask": torch.ones_like(target),
        }

    prepare_config_and_inputs = prepare_config_and_inputs_for_common


class VaswaniModelTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    all_model_classes = (VaswaniModel, VaswaniForConditionalGeneration)
    pipeline_model_mapping = {}
    is_encoder_decoder = True
    test_missing_keys = False

    def setUp(self):
        self.model_tester = VaswaniModelTester(self)
        self.config_tester = ConfigTester(self, config_class=VaswaniConfig, d_model=32)

    def test_config(self):
        self.config_tester.run_common_tests()
'''

TOKENIZER_TESTS = """
import unittest

from transformers import TokenizersBackend

from ...test_tokenization_common import TokenizerTesterMixin


class VaswaniTokenizationTest(TokenizerTesterMixin, unittest.TestCase):
    tokenizer_class = rust_tokenizer_class = TokenizersBackend
    from_pretrained_id = [{folder!r}]
    test_tokenizer_from_extractor = False
    test_sentencepiece = False

    @unittest.skip("a text that spells a special piece is not that piece: split_special_tokens")
    def test_tokenize_special_tokens(self):
        pass
"""


def fetch_common_tests() -> Path:
    """The folder with the library's `tests/`."""
    if FETCHED.is_dir():
        return FETCHED
    version = transformers.__version__
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryDirectory(dir=FETCHED.parent, prefix="vaswani-hf-fetch-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "transformers"]
        where = ["--dest", str(folder), "--retries", "1", "--timeout", "20"]
        try:
            result = subprocess.run(
                [*pip, *where, f"transformers=={version}"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"fetching the common tests of transformers {version} took too long")
        if result.returncode != 0:
            reason = (result.stderr or result.stdout).strip().splitlines()[-1:]
            pytest.skip(f"cannot fetch the common tests of transformers {version}: {reason}")
        with tarfile.open(folder / f"transformers-{version}.tar.gz") as archive:
            members = [
                member
                for member in archive.getmembers()
                if re.fullmatch(r"[^/]+/tests/test_\w+\.py", member.name)
            ]
            archive.extractall(folder, members, filter="data")
        (folder / "new").mkdir()
        shutil.move(folder / f"transformers-{version}" / "tests", folder / "new" / "tests")
        try:
            os.rename(folder / "new", FETCHED)
        except OSError:  # another process was faster
            if not FETCHED.is_dir():
                raise
    return FETCHED


def run_common_tests(folder: Path, file: str, text: str, at_least: int) -> None:
    """Run the library's tests with `text` as the model's own test file, in a process of their own.

    Args:
        folder: an empty folder.
        file: name of the model's test file.
        text: its content.
        at_least: how many tests must pass, so that a run that skips them all does not.
    """
    fetched = fetch_common_tests()
    shutil.copytree(fetched / "tests", folder / "tests")
    for name, content in {**STUBS, f"tests/models/vaswani/{file}": text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    paths = [str(folder), str(REPOSITORY)]
    options = ["-q", "-rs", "-p", "no:cacheprovider", "--tb=short"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"tests/models/vaswani/{file}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    report = f"{result.stdout[-6000:]}\n{result.stderr[-2000:]}"
    print(report)
    assert result.returncode == 0, report
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None, report
    assert int(passed[1]) >= at_least, report


def test_the_model_passes_the_librarys_common_tests(tmp_path: Path) -> None:
    run_common_tests(tmp_path, "test_modeling_vaswani.py", MODEL_TESTS, at_least=90)


def test_the_tokenizer_passes_the_librarys_common_tests(tmp_path: Path) -> None:
    words = "attention is all you need and nothing else but a Transformer of six layers".split()
    sentences = [" ".join(words[i % 14] for i in range(j, j + 9)) for j in range(200)]
    tokenizer = train_tokenizer(sentences, vocab_size=700, are_files=False, show_progress=False)
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    run_common_tests(
        tmp_path,
        "test_tokenization_vaswani.py",
        TOKENIZER_TESTS.format(folder=str(tmp_path / "tokenizer")),
        at_least=40,
    )
