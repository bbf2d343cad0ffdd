# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.quantizers MODEL TEXT [--sentences 200] [--rounds 2] [--only int8 ...]

What becomes of a model that a quantizer of transformers loads (`quantization_config`): how many of
its linear layers are replaced, how many translations stay the same, how large and how fast is it?

Each quantizer has a process of its own, in which the model in float32 takes turns with it; speeds
are ratios of processor time. Quantizers that are not installed, or fail, are told with the reason.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from benchmarks.report import first_sentences, print_table, write_report
from vaswani_hf import VaswaniForConditionalGeneration


def torchao(kind: str) -> Any:
    """A configuration of torchao's, by the name of its own."""
    from torchao import quantization

    return transformers.TorchAoConfig(getattr(quantization, kind)())


CONFIGS: dict[str, tuple[str, Callable[[], Any]]] = {
    "torchao int8": ("torchao", lambda: torchao("Int8WeightOnlyConfig")),
    "torchao int8 dynamic": ("torchao", lambda: torchao("Int8DynamicActivationInt8WeightConfig")),
    "quanto int8": ("optimum-quanto", lambda: transformers.QuantoConfig(weights="int8")),
    "quanto int4": ("optimum-quanto", lambda: transformers.QuantoConfig(weights="int4")),
    "HQQ 8 bits": ("hqq", lambda: transformers.HqqConfig(nbits=8, group_size=64)),
    "bitsandbytes int8": (
        "bitsandbytes",
        lambda: transformers.BitsAndBytesConfig(load_in_8bit=True),
    ),
    "bitsandbytes nf4": (
        "bitsandbytes",
        lambda: transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=torch.float32,
        ),
    ),
}
AT_ONCE = 25  # sentences of a batch


def main() -> None:
    """Try each quantizer; figures go to `results/` and to the screen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a folder of ours")
    parser.add_argument("text", help="sources, a sentence a line, plain or gzipped")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CONFIGS, default=list(CONFIGS))
    parser.add_argument("--results", type=Path, help="folder of the report")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.only[0], options)))
        return
    rows = []
    for name in options.only:
        command = [sys.executable, "-m", "benchmarks.quantizers", options.model, options.text]
        command += ["--sentences", str(options.sentences), "--rounds", str(options.rounds)]
        done = subprocess.run(
            [*command, "--measure", "--only", name], capture_output=True, text=True, check=False
        )
        if done.returncode:
            rows.append({"quantizer": name, "error": done.stderr.strip().splitlines()[-1]})
        else:
            rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    if found := [row for row in rows if "error" not in row]:
        print_table(found)
    shown = ("model", "text", "sentences", "rounds")
    write_report(
        "quantizers",
        {"options": {name: Path(str(getattr(options, name))).name for name in shown}, "rows": rows},
        options.results,
    )


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of one quantizer."""
    package, config_of = CONFIGS[name]
    plain = AutoModelForSeq2SeqLM.from_pretrained(options.model).eval()
    model = AutoModelForSeq2SeqLM.from_pretrained(
        options.model, quantization_config=config_of(), device_map="cpu"
    ).eval()
    assert isinstance(model, VaswaniForConditionalGeneration)
    linear = [name for name, module in plain.named_modules() if isinstance(module, nn.Linear)]
    replaced = sum(is_replaced(model.get_submodule(name)) for name in linear)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    sentences = first_sentences(options.text, options.sentences)
    seconds: dict[Any, list[float]] = {plain: [], model: []}
    said = {}
    for _ in range(options.rounds):
        for one, times in seconds.items():
            begun = time.process_time()
            said[one] = translations(one, tokenizer, sentences)
            times.append(time.process_time() - begun)
    equal = sum(one == other for one, other in zip(said[plain], said[model], strict=True))
    ratios = [own / other for own, other in zip(seconds[plain], seconds[model], strict=True)]
    return {
        "quantizer": name,
        "version": version(package),
        "replaced": replaced,
        "linear_layers": len(linear),
        "equal": equal,
        "sentences": len(sentences),
        "bytes": bytes_of(model),
        "share_of_float32": round(bytes_of(model) / bytes_of(plain), 3),
        "speed": round(statistics.median(ratios), 3),
    }


def is_replaced(module: nn.Module) -> bool:
    """Whether a layer, or the tensor that it multiplies by, is a quantizer's."""
    weight = module.weight
    plain = (Tensor, nn.Parameter)
    return (
        type(module) is not nn.Linear
        or type(weight) not in plain
        or type(weight.data) is not Tensor
    )


def translations(model: Any, tokenizer: Any, sentences: list[str]) -> list[str]:
    """By the library's `generate()` and the search of the model's generation config."""
    found: list[str] = []
    for place in range(0, len(sentences), AT_ONCE):
        batch = tokenizer(sentences[place : place + AT_ONCE], return_tensors="pt", padding=True)
        found += tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    return found


def bytes_of(model: nn.Module) -> int:
    """Bytes of what a model keeps, tied tensors once."""
    tensors = [part for tensor in model.state_dict().values() for part in parts_of(tensor)]
    return sum({part.data_ptr(): part.nbytes for part in tensors}.values())


def parts_of(tensor: Any) -> list[Tensor]:
    """The plain tensors that one of a quantizer's holds."""
    if not isinstance(tensor, Tensor):
        return []
    if type(tensor) in (Tensor, nn.Parameter) or not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in parts_of(getattr(tensor, name))]


if __name__ == "__main__":
    main()
