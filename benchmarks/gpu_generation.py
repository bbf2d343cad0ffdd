# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/gpu_generation.py [--size base] [--sentences 64] [--tokens 64] [--rounds 5]

What `generation.py` measures, on a GPU in bfloat16: greedy and beam 4, with the cache that grows
and with a static one, where the decoder's step is compiled and replayed as a CUDA graph, ours and
Marian's, in turn. The library makes a static cache for each call, and a graph holds for one cache:
ours is also measured with one cache for all calls, which the caller makes and resets. The first
call of each, which compiles, is left out of the rounds and given by itself. `--tiny` tries the
script with a small model wherever it runs, on a CPU best with `--backend eager`, which needs no
compiler; it says nothing about speed.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import CompileConfig, EncoderDecoderCache, PreTrainedModel, StaticCache
from transformers.utils import logging

from benchmarks.generation import (
    BEAM,
    GREEDY,
    MARIAN_BEAM,
    MARIAN_GREEDY,
    TINY,
    draw_sources,
    generator,
    peers,
    table,
)
from benchmarks.report import time_in_turn, write_report
from vaswani_hf import VaswaniConfig


def static_plan(device: str, backend: str) -> dict[str, Any]:
    """The arguments of `generate()` for a static cache and a compiled step."""
    if device == "cuda":
        compiled = CompileConfig(backend=backend)  # its mode makes CUDA graphs
    else:
        compiled = CompileConfig(backend=backend, mode=None)
        compiled._compile_all_devices = True
    return {"cache_implementation": "static", "compile_config": compiled}


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("base", "big"), default="base")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--tiny", action="store_true", help="a small model, to try the script")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not arguments.tiny:
        parser.error("no GPU is here; --tiny tries the script without one")
    config = VaswaniConfig(**TINY) if arguments.tiny else getattr(VaswaniConfig, arguments.size)()
    ours, marian = (model.to(device, torch.bfloat16) for model in peers(config))
    source = draw_sources(config, arguments.sentences, arguments.tokens).to(device)
    static = static_plan(device, arguments.backend)

    def call(model: PreTrainedModel, plan: dict[str, Any], **more: Any) -> Callable:
        return generator(model, source, arguments.tokens, **plan, **more)

    def call_with_one_cache(plan: dict[str, Any]) -> Callable:
        lengths = (1 + arguments.tokens, source.shape[1])
        decoder = config.get_text_config(decoder=True)
        cache = EncoderDecoderCache(
            *(StaticCache(config=decoder, max_cache_len=length) for length in lengths)
        )
        compiled = {"compile_config": static["compile_config"], "past_key_values": cache}
        generate = call(ours, plan, **compiled)

        def call_again() -> Tensor:
            cache.reset()
            return generate()

        return call_again

    calls = {
        MARIAN_BEAM: call(marian, BEAM),
        f"{MARIAN_BEAM}, static": call(marian, BEAM, **static),  # the library does not compile it
        "vaswani_hf, beam 4": call(ours, BEAM),
        "vaswani_hf, beam 4, static": call(ours, BEAM, **static),
        "vaswani_hf, beam 4, static, one cache": call_with_one_cache(BEAM),
        MARIAN_GREEDY: call(marian, GREEDY),
        f"{MARIAN_GREEDY}, static": call(marian, GREEDY, **static),
        "vaswani_hf, greedy": call(ours, GREEDY),
        "vaswani_hf, greedy, static": call(ours, GREEDY, **static),
        "vaswani_hf, greedy, static, one cache": call_with_one_cache(GREEDY),
    }
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    first_seconds = {}
    for name, generate in calls.items():
        begun = time.perf_counter()
        generate()
        wait()
        first_seconds[name] = round(time.perf_counter() - begun, 2)
        print(f"first call of {name}: {first_seconds[name]} s", flush=True)
    seconds, _ = time_in_turn(calls, arguments.rounds, wait)
    rows = table(seconds, arguments.sentences * arguments.tokens)
    if not arguments.tiny:
        figures = {"arguments": vars(arguments), "first_seconds": first_seconds}
        write_report("gpu_generation", figures | {"rounds": seconds, "rows": rows})


if __name__ == "__main__":
    main()
