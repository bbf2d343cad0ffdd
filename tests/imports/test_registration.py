"""Model and pipeline are registered whatever is imported first; nothing is imported for that."""

import json
import os
import pickle
import subprocess
import sys

import pytest

from vaswani_hf import VaswaniConfig


# What a process does before it looks for the model.
THREADS = """
import importlib, threading
from concurrent.futures import ThreadPoolExecutor
names = ["vaswani_hf", "transformers.models.auto.modeling_auto", "vaswani_hf.modeling_vaswani"]
names += ["transformers.models.auto.configuration_auto", "transformers.modeling_layers"]
names += ["transformers.pipelines", "vaswani_hf.pipeline_vaswani"]
barrier = threading.Barrier(len(names))
def load(name):
    barrier.wait()
    importlib.import_module(name)
with ThreadPoolExecutor(len(names)) as pool:
    list(pool.map(load, names))
"""
AN_ERROR_FIRST = """
import sys, vaswani_hf
sys.modules["transformers.models.auto.auto_factory"] = None
try:
    from transformers import AutoModel
except ImportError:
    del sys.modules["transformers.models.auto.auto_factory"]
"""
NO_MODEL_UNTIL_IT_IS_LOOKED_FOR = """
import vaswani_hf
from transformers import AutoModel
assert "vaswani_hf.modeling_vaswani" not in sys.modules
"""
ORDERS = [
    "import vaswani_hf; from transformers import AutoConfig, AutoModelForSeq2SeqLM",
    "import vaswani_hf; from transformers import AutoTokenizer",
    # The library's file of layers imports that of the auto classes, and ours imports both.
    "import vaswani_hf, transformers.modeling_layers",
    "from transformers import AutoConfig; import vaswani_hf",
    "from transformers import AutoModelForSeq2SeqLM; import vaswani_hf",
    "from vaswani_hf import VaswaniForConditionalGeneration",
    "from transformers import AutoModel; from vaswani_hf import VaswaniConfig",
    "import importlib, vaswani_hf; importlib.reload(vaswani_hf)",
    "import pickle; pickle.loads({config})",  # as a spawned process does
    "import vaswani_hf; from transformers import pipeline",
    "from transformers import pipeline; import vaswani_hf",
    "import vaswani_hf.pipeline_vaswani",
    "import importlib, vaswani_hf, transformers.pipelines; importlib.reload(vaswani_hf)",
    AN_ERROR_FIRST,
    NO_MODEL_UNTIL_IT_IS_LOOKED_FOR,
    THREADS,
]
# After what takes long but has no part in it, a process is forked for each order.
RUN = """
import json, os, sys, traceback
import torch._dynamo, torch.distributed.fsdp, torch.distributed.tensor
import transformers.core_model_loading, transformers.generation.utils
import transformers.integrations.accelerate, transformers.integrations.gguf.utils
import transformers.models, transformers.tokenization_utils_tokenizers

CHECK = '''
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
import vaswani_hf
sizes = dict(d_model=8, d_ff=8, num_heads=2, encoder_layers=1, decoder_layers=1, vocab_size=9)
config = AutoConfig.for_model("vaswani", **sizes)
assert type(config) is vaswani_hf.VaswaniConfig
for auto, name in (AutoModel, "VaswaniModel"), (
    AutoModelForSeq2SeqLM, "VaswaniForConditionalGeneration"
):
    model = auto.from_config(config)
    assert type(model) is getattr(vaswani_hf, name), type(model)
    assert auto._model_mapping[type(config)] is type(model)
watched = ["transformers.models.auto.modeling_auto"]
if "transformers.pipelines" in sys.modules:
    watched.append("transformers.pipelines")
    tasks = sys.modules["transformers.pipelines"].PIPELINE_REGISTRY.supported_tasks
    from vaswani_hf.pipeline_vaswani import VaswaniTranslationPipeline
    assert tasks["vaswani-translation"]["impl"] is VaswaniTranslationPipeline
for name in watched:
    loader = sys.modules[name].__spec__.loader
    assert type(loader).__module__.startswith(("importlib", "_frozen_importlib")), loader
'''
assert "transformers.models.auto" not in sys.modules
orders = json.load(sys.stdin)
failures = {}
for order in orders:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            exec(order + "\\n" + CHECK, {"sys": sys})
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-9000:])
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        failures[order] = told.read()
    os.waitpid(child, 0)
print(json.dumps(failures))
"""


@pytest.fixture(scope="module")
def failures():
    """What went wrong in a fresh process after each order of imports."""
    orders = [order.replace("{config}", repr(pickle.dumps(VaswaniConfig()))) for order in ORDERS]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(ORDERS, json.loads(done.stdout).values(), strict=True))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("order", ORDERS)
def test_the_library_finds_the_model_whatever_is_imported_first(failures, order):
    assert failures[order] == ""
