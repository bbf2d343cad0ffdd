# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""python -m benchmarks.serving FOLDER TEXT [--pair en-de] [--clients 200] [--client_cores 1]

What does `vaswani-hf serve` do under load, beside `translate` on a file of the same sentences? The
server is a process of its own, reached over the loopback interface; each client sends one sentence
after the other, the next when it has the answer to the last, and every answer is compared with the
batch translator's. Given are the answers that differ, the median and 99th percentile of the time to
an answer, the sentences a second of both, by the clock and by the processor time of the two
processes (which tells more where others use the machine too), and the server's memory after ten
seconds and at the end. Of the cores that the process may use (`taskset`) the clients get the last
`--client_cores`, as they are other machines in earnest; the server and `translate` get the others.
With 0 all share all. The file is translated before and after, loading left out. TEXT is one
sentence a line, plain or gzipped. Needs Linux.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers.utils import logging

from benchmarks.report import first_sentences, print_table, write_report
from vaswani_hf import CTranslate2Translator, Translator
from vaswani_hf.cli.engines import take_threads
from vaswani_hf.translation import TextTranslator


START_SECONDS = 120  # that loading may take
WARM_SECONDS = 10  # before the memory is looked at first


@contextmanager
def server(options: list[str], log: Path) -> Iterator[tuple[int, int]]:
    """The process id and the port of a running server, which is stopped by SIGTERM."""
    command = [sys.executable, "-m", "vaswani_hf.cli", "serve", "--port", "0", *options]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        end = time.monotonic() + START_SECONDS
        while not (found := re.search(r"Serving on \S+:(\d+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(log.read_text())
            time.sleep(0.1)
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait()


def resident_mebibytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


def sentences_together(port: int) -> float:
    """How many the server has translated together, on average."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    total, count = (
        float(re.search(rf"vaswani_round_sentences_{what} (\S+)", text)[1])
        for what in ("sum", "count")
    )
    return total / count


def processor_seconds(pid: int) -> float:
    """Processor time of a process so far, of all its threads."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Load:
    """Clients that send sentences at once, and what came of it."""

    def __init__(self, port: int, pair: str, translations: dict[str, str], seconds: float) -> None:
        self.port = port
        self.source, _, self.target = pair.rpartition("-")
        self.translations = translations
        self.end = time.monotonic() + seconds
        self.seconds: list[float] = []
        self.wrong: list[Any] = []

    async def run(self, num_clients: int) -> None:
        await asyncio.gather(*(self._ask(number) for number in range(num_clients)))

    async def _ask(self, seed: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sentences = random.Random(seed).sample(list(self.translations), len(self.translations))
        place = 0
        while time.monotonic() < self.end:
            sentence = sentences[place % len(sentences)]
            place += 1
            begun = time.monotonic()
            answer = await self._post(reader, writer, sentence)
            self.seconds.append(time.monotonic() - begun)
            if answer != {"translatedText": self.translations[sentence]}:
                self.wrong.append({"q": sentence, "answer": answer})
        writer.close()

    async def _post(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sentence: str
    ) -> Any:
        body = json.dumps({"q": sentence, "source": self.source, "target": self.target}).encode()
        head = (
            "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer)[1])
        return json.loads(await reader.readexactly(length))


def translate(
    translator: TextTranslator, sentences: list[str], language: str
) -> tuple[list[str], float, float]:
    """The translation of each, and the seconds by the clock and of the processor."""
    begun, begun_processor = time.monotonic(), time.process_time()
    found = list(translator.translate_texts(sentences, language=language))
    return found, time.monotonic() - begun, time.process_time() - begun_processor


def main() -> None:
    """Measure, print the table and write it to `results/`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("text")
    parser.add_argument("--pair", default="en-de")
    parser.add_argument("--engine", choices=("transformers", "ctranslate2"), default="transformers")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--client_cores", type=int, default=0, help="of the clients alone")
    parser.add_argument("--results", type=Path, help="folder of the report")
    arguments = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    cores = sorted(os.sched_getaffinity(0))
    num_cores = len(cores) - arguments.client_cores
    if num_cores < 1:
        raise SystemExit(f"--client_cores {arguments.client_cores}: there are {len(cores)}")
    server_cores, client_cores = cores[:num_cores], cores[num_cores:] or cores
    os.sched_setaffinity(0, server_cores)  # of this process, and of those that it starts
    sentences = list(dict.fromkeys(first_sentences(arguments.text, arguments.sentences)))
    sentences = [sentence for sentence in sentences if sentence.strip()]
    language = arguments.pair.partition("-")[0]
    translator: Any
    if arguments.engine == "ctranslate2":
        translator = CTranslate2Translator(arguments.folder)
    else:
        translator = Translator.from_pretrained(arguments.folder)
        take_threads(translator, None, is_typed=False)
    translate(translator, sentences[:100], language)  # warm
    translations, *before = translate(translator, sentences, language)
    options = ["--model", f"{arguments.pair}={arguments.folder}", "--engine", arguments.engine]
    with (
        tempfile.TemporaryDirectory() as work,
        server(options, Path(work) / "log") as (pid, port),
    ):
        os.sched_setaffinity(0, client_cores)
        expected = dict(zip(sentences, translations, strict=True))
        warm = Load(port, arguments.pair, expected, min(WARM_SECONDS, arguments.seconds))
        asyncio.run(warm.run(arguments.clients))
        first_memory = resident_mebibytes(pid)
        load = Load(port, arguments.pair, expected, arguments.seconds)
        begun, begun_processor = time.monotonic(), processor_seconds(pid)
        asyncio.run(load.run(arguments.clients))
        seconds = time.monotonic() - begun
        processor = processor_seconds(pid) - begun_processor
        last_memory, together = resident_mebibytes(pid), sentences_together(port)
    os.sched_setaffinity(0, server_cores)
    _, *after = translate(translator, sentences, language)
    of_a_file, of_a_file_processor = (
        2 * len(sentences) / sum(pair) for pair in zip(before, after, strict=True)
    )
    rate, rate_processor = len(load.seconds) / seconds, len(load.seconds) / processor
    percentiles = statistics.quantiles(load.seconds, n=100)
    row = {
        "engine": arguments.engine,
        "answers": len(warm.seconds) + len(load.seconds),
        "differ": len(warm.wrong) + len(load.wrong),
        "p50_seconds": round(percentiles[49], 3),
        "p99_seconds": round(percentiles[98], 3),
        "sentences_per_second": round(rate, 1),
        "of_a_file": round(of_a_file, 1),
        "ratio": round(rate / of_a_file, 2),
        "ratio_by_processor_time": round(rate_processor / of_a_file_processor, 2),
        "sentences_together": round(together),
        "mebibytes_after_10_s": first_memory,
        "mebibytes_at_the_end": last_memory,
    }
    print_table([row])
    for wrong in (*warm.wrong, *load.wrong)[:5]:
        print(wrong)
    figures = {
        "sentences": len(sentences),
        "clients": arguments.clients,
        "cores_of_the_server_and_of_the_clients": [len(server_cores), len(client_cores)],
        "seconds": round(seconds, 1),
        "processor_milliseconds_a_sentence": {
            "served": round(1000 / rate_processor, 2),
            "of_a_file": round(1000 / of_a_file_processor, 2),
        },
        "file_seconds_and_processor_seconds_before_and_after": [before, after],
        "rows": [row],
    }
    packages = ("torch", "transformers", "ctranslate2", "fastapi", "uvicorn")
    name = "serving" if arguments.engine == "transformers" else f"serving_{arguments.engine}"
    write_report(name, figures, arguments.results, packages)


if __name__ == "__main__":
    main()
