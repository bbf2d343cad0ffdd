"""Checkpoint folders for tests, without training."""

import json

import torch
from safetensors.torch import save_file

from training.settings.fields import VaswaniTrainingArguments


def make_checkpoint(folder, step):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file({"w": torch.zeros(1000)}, path / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"w": torch.zeros(1000)}, path / name)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def asked(folder, wanted):
    return VaswaniTrainingArguments(
        output_dir=str(folder), resume_from_checkpoint=wanted, use_cpu=True
    )
