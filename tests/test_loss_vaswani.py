"""The loss, in processes that hold several copies of its code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer
from vaswani_hf.hub.folder import export


# A process that cannot import the package: each model comes with the code in its own folder.
COPIES = """
import importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("vaswani_hf", "training"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import torch
from transformers import AutoModelForSeq2SeqLM

is_compiled, *folders = json.loads(sys.argv[1])
source = torch.arange(3, 17).view(2, 7)
models = [AutoModelForSeq2SeqLM.from_pretrained(x, trust_remote_code=True) for x in folders]
losses, translations = [], []
for model in [*models, models[0]]:  # the first again, when all others have been used
    step = torch.compile(model.train(), backend="aot_eager") if is_compiled else model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = step(source, labels=source).loss
    loss.backward()
    losses.append(loss.item())
    translations.append(model.eval().generate(source, max_new_tokens=9).tolist())
    optimizer.step()
print(json.dumps([[type(model).__module__ for model in models], losses, translations]))
"""


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_copies_of_the_code_train_and_translate_side_by_side(
    tmp_path: Path, is_compiled: bool
) -> None:
    tokenizer = train_tokenizer(["a b c"] * 10, 300, are_files=False, show_progress=False)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = VaswaniConfig(vocab_size=len(tokenizer), dropout=0.0, **sizes)
    model = VaswaniForConditionalGeneration(config).eval()
    folders = [tmp_path / name for name in ("first", "second", "other_version")]
    for folder in folders:
        export(model, tokenizer, folder)
    # Another version, whose loss is twice as large, so that a mix-up shows.
    path = folders[2] / "loss_vaswani.py"
    text = path.read_text()
    assert "return sums.total, " in text
    path.write_text(text.replace("return sums.total, ", "return 2 * sums.total, "))
    done = subprocess.run(
        [sys.executable, "-c", COPIES, json.dumps([is_compiled, *map(str, folders)])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules, losses, translations = json.loads(done.stdout.splitlines()[-1])
    assert len(set(modules)) == 3
    assert losses[:3] == pytest.approx([losses[0], losses[0], 2 * losses[0]])
    assert losses[3] < losses[0]  # after a step, and not twice as large
    expected = model.generate(torch.arange(3, 17).view(2, 7), max_new_tokens=9).tolist()
    assert translations[:3] == [expected] * 3
