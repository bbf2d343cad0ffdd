# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python benchmarks/translate_corpus.py FOLDER TEXT [--lines 100000] [--alone 1000] [--num_beams N]

How fast does `vaswani-hf translate` go through a large file, does its memory stay flat, and what do
its batches bring beside one sentence at a time? The command runs in a process of its own, start and
loading included; what it has resident is noted while it writes. A sentence at a time, of the same
text, go `translator(sentence)`, `generate()` and the pipeline; the pipeline with `batch_size` too.
Seconds are those of the processor, of one thread: so the rates hold on a machine that does other
things too. FOLDER is a model that `training/run.py` has left, TEXT one sentence a line, plain or
gzipped.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
from transformers.utils import logging

from benchmarks.report import first_sentences, print_table, write_report
from vaswani_hf import Translator


PARTS = 10  # of the output, for each of which the memory is told
BATCH_SENTENCES = 32


def measure_command(folder: str, sentences: list[str], num_beams: int) -> dict[str, Any]:
    """Seconds of the command, and the most bytes resident in each tenth of its lines."""
    with tempfile.TemporaryDirectory() as work:
        source, target = Path(work) / "source", Path(work) / "target"
        source.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
        command = [sys.executable, "-m", "vaswani_hf.cli", "translate", "--model", folder]
        command += [str(source), "--output", str(target), "--device=cpu", "--threads=1"]
        command += [f"--num_beams={num_beams}"]
        begun = resource.getrusage(resource.RUSAGE_CHILDREN)
        process = subprocess.Popen(command)
        num_lines, place = 0, 0
        resident = [0] * PARTS
        while process.poll() is None:
            time.sleep(0.2)
            if target.is_file():
                with target.open("rb") as written:
                    written.seek(place)
                    new = written.read()
                num_lines, place = num_lines + new.count(b"\n"), place + len(new)
                if new:
                    print(f"{num_lines} lines, {_resident_bytes(process.pid)} bytes", flush=True)
            part = min(num_lines * PARTS // len(sentences), PARTS - 1)
            resident[part] = max(resident[part], _resident_bytes(process.pid))
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process.returncode == 0
        assert target.read_bytes().count(b"\n") == len(sentences)
    return {
        "seconds": ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime,
        # A tenth that is written at once has no memory of its own.
        "resident_megabytes": [round(most / 2**20) or None for most in resident],
    }


def _resident_bytes(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0
    return 1024 * int(text.partition("VmRSS:")[2].split()[0]) if "VmRSS:" in text else 0


def ways(folder: str, num_beams: int) -> dict[str, Callable[[list[str]], list[str]]]:
    """Ways within this process; each gives the translations of sentences."""
    translator = Translator.from_pretrained(folder, device="cpu", num_beams=num_beams)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    model.generation_config.num_beams = num_beams
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pipe = pipeline("vaswani-translation", model=model, tokenizer=tokenizer, device="cpu")

    @torch.inference_mode()
    def generate(sentence: str) -> str:
        batch = tokenizer(sentence, return_tensors="pt")
        return tokenizer.decode(model.generate(**batch)[0], skip_special_tokens=True)

    return {
        "translator(sentence)": lambda given: [translator(one)[0] for one in given],
        "generate()": lambda given: [generate(one) for one in given],
        "pipeline(sentence)": lambda given: [pipe(one)[0]["translation_text"] for one in given],
        f"pipeline, batch_size={BATCH_SENTENCES}": lambda given: [
            one["translation_text"] for one in pipe(given, batch_size=BATCH_SENTENCES)
        ],
    }


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--lines", type=int, default=100_000, help="of the command")
    parser.add_argument("--alone", type=int, default=1000, help="sentences of the other ways")
    parser.add_argument("--num_beams", type=int, default=4, help="beam width")
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    sentences = first_sentences(arguments.text, arguments.lines)
    some = sentences[: arguments.alone]
    timed, translations = {}, []
    for name, translate in ways(arguments.folder, arguments.num_beams).items():
        translate(some[:10])  # warm
        begun = time.process_time()
        translations.append(translate(some))
        timed[name] = (len(some), time.process_time() - begun)
        print(f"{name}: {timed[name][1]:.1f} s", flush=True)
    command = measure_command(arguments.folder, sentences, arguments.num_beams)
    timed["vaswani-hf translate"] = (len(sentences), command["seconds"])
    fastest = timed["vaswani-hf translate"][0] / timed["vaswani-hf translate"][1]
    rows = [
        {
            "way": name,
            "lines": count,
            "processor_seconds": round(seconds, 1),
            "lines_per_second": round(count / seconds, 1),
            "command_times_as_fast": round(fastest * seconds / count, 1),
        }
        for name, (count, seconds) in timed.items()
    ]
    print_table(rows)
    print("Resident megabytes by tenths of the lines:", command["resident_megabytes"])
    figures = {
        "num_beams": arguments.num_beams,
        "rows": rows,
        "resident_megabytes": command["resident_megabytes"],
        "num_that_differ_alone": sum(
            len(set(found)) > 1 for found in zip(*translations, strict=True)
        ),
    }
    write_report("translate_corpus", figures, arguments.results)


if __name__ == "__main__":
    main()
