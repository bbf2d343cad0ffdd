# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The requests that wait, and the threads that translate what waits, by the batch."""

import itertools
import logging
import math
import threading
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import Future
from typing import NamedTuple

from ..markup import HTML
from ..markup.document import read_text
from ..translation import LongSourceError
from ..translation.markup import (
    READERS,
    Sentence,
    SplitDocument,
    Translated,
    split_documents,
    with_alignments,
)
from .errors import RequestError
from .limits import Limits
from .metrics import Metrics
from .pairs import Served


logger = logging.getLogger(__name__)
TEXT = "text"
FORMATS = {TEXT: read_text, HTML: READERS[HTML]}
# Sentences that a worker takes at a time. The engine sorts them by length and cuts its own batches;
# with more of them those are fuller, and who comes next waits longer.
ROUND_SENTENCES = 256
# Those that it takes before it leaves some to workers that are idle: few are dear, one by one.
LEAST_SENTENCES = 32
# After a round of at least so many, those that were answered may ask again before the next one: it
# begins when as many requests wait, or when this part of the round's time has passed, at most so
# many seconds.
PAUSE, PAUSE_SECONDS = 0.5, 0.2
# Those of one request, while others wait: a long one then lets the others pass.
SHARE_SENTENCES = 64


class Job:
    """What a request waits for.

    Attributes:
        found: for each text its translations, the best first; at most `num_translations`, and none
            twice.
    """

    def __init__(
        self, served: Served, texts: list[str], num_translations: int, text_format: str
    ) -> None:
        self.served = served
        self.texts = texts
        self.text_format = text_format
        self.num_translations = num_translations
        self.found: Future[list[list[str]]] = Future()
        self.is_fresh = True  # until a worker comes to split its texts
        self.split: list[SplitDocument] = []
        self.translations: list[list[Translated]] = []  # of each sentence; empty until there is one
        self.sentences: list[Sentence] = []
        self.num_taken = 0  # the first of these sentences, which workers have
        self.num_found = 0

    @property
    def kind(self) -> tuple[Served, int]:
        """Jobs of one kind are translated together."""
        return self.served, self.num_translations

    @property
    def num_waiting(self) -> int:
        return len(self.sentences) - self.num_taken

    def finish(self, result: list[list[str]] | Exception) -> None:
        """Answer, if anybody still waits."""
        if not self.found.set_running_or_notify_cancel():
            return
        if isinstance(result, Exception):
            self.found.set_exception(result)
        else:
            self.found.set_result(result)

    def result(self) -> list[list[str]]:
        """The texts, when all sentences have been translated."""
        translations = iter(self.translations)
        return [_joined(text, [next(translations) for _ in text.sentences]) for text in self.split]


def _joined(text: SplitDocument, found: list[list[Translated]]) -> list[str]:
    """A text by the best translations of its sentences, by the second best, and so on.

    A sentence that has fewer takes part with its last.
    """
    most = max(map(len, found), default=1)
    texts = [
        text.joined(ranked[min(rank, len(ranked) - 1)] for ranked in found) for rank in range(most)
    ]
    return list(dict.fromkeys(texts))


class Part(NamedTuple):
    """Sentences of a job that are translated together with those of others."""

    job: Job
    start: int
    end: int

    @property
    def sentences(self) -> list[Sentence]:
        return self.job.sentences[self.start : self.end]


class TranslationQueue:
    """Gathers what waits and translates it together, with no wait where nothing else does.

    Only the queue's own threads use the translators. One that is done takes what has come since: it
    waits for no other.

    Args:
        limits: of which `max_queue`, `max_sentences` and `timeout_seconds` are heeded here.
        metrics: which count what is done.
        num_workers: threads that translate.
    """

    def __init__(self, limits: Limits, metrics: Metrics, num_workers: int = 1) -> None:
        self.limits = limits
        self.metrics = metrics
        self.num_workers = num_workers
        self.is_closing = False
        self._jobs: dict[Job, None] = {}  # in their order; a dictionary drops any of them at once
        self._changed = threading.Condition()
        self._num_working = 0
        self._seconds_per_job = 0.0
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), name="translation", daemon=True)
            for worker in range(num_workers)
        ]
        metrics.waiting.set_function(lambda: len(self._jobs))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def refuse(self) -> None:
        """Take nothing new; what waits is still translated. A signal handler may call this."""
        self.is_closing = True

    def close(self) -> None:
        """End the threads, when they have translated what waits."""
        self.refuse()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def add(
        self, served: Served, texts: list[str], num_translations: int, text_format: str = TEXT
    ) -> Job:
        """Wait in the queue.

        Args:
            served: what translates.
            texts: any number of them.
            num_translations: most of each.
            text_format: `"text"` or `"html"`.

        Raises:
            RequestError: 503 where the server is about to stop, 429 where the queue is full.
        """
        job = Job(served, texts, num_translations, text_format)
        with self._changed:
            if self.is_closing:
                raise RequestError(503, "The server is stopping", closes=True)
            if len(self._jobs) >= self.limits.max_queue:
                raise RequestError(
                    429,
                    f"Slowdown: {len(self._jobs)} requests are waiting",
                    retry_after_seconds=self._retry_after_seconds(),
                )
            self._jobs[job] = None
            self._changed.notify_all()  # or one that pauses might be told, and one that idles not
        return job

    def drop(self, job: Job) -> None:
        """Leave the queue: nobody waits for this any more."""
        job.found.cancel()
        with self._changed:
            self._jobs.pop(job, None)

    def _retry_after_seconds(self) -> int:
        """When those that wait will have been answered, if they take as long as the last ones."""
        seconds = math.ceil(len(self._jobs) * self._seconds_per_job)
        return int(min(max(seconds, 1), math.ceil(self.limits.timeout_seconds)))

    def _work(self, worker: int) -> None:
        num_answered, pause_end = 0, 0.0
        while (fresh := self._wait(num_answered, pause_end)) is not None:
            for job in fresh:
                self._split(job)
            with self._changed:
                parts, num_sharing = self._next_round()
            if not parts:
                continue
            start = time.monotonic()
            parts[0].job.served.share(worker, num_sharing)
            try:
                self._translate(parts)
            finally:
                with self._changed:
                    self._num_working -= 1
            end = time.monotonic()
            is_long = sum(len(part.sentences) for part in parts) >= LEAST_SENTENCES
            pause_end = end + min(PAUSE * (end - start), PAUSE_SECONDS) if is_long else end
            num_answered = len(parts)

    def _wait(self, num_answered: int, pause_end: float) -> list[Job] | None:
        """Wait for sentences.

        Args:
            num_answered: requests of this worker's last round.
            pause_end: until when it waits for as many again.

        Returns:
            The jobs that this worker is to split; `None` when nothing will come any more.
        """
        with self._changed:
            while not (self._num_waiting() or self._is_done()):
                self._changed.wait()
            if self._is_done():
                return None
            self._changed.wait_for(
                lambda: self.is_closing or self._num_waiting() >= num_answered,
                pause_end - time.monotonic(),
            )
            fresh = [job for job in self._jobs if job.is_fresh]
            for job in fresh:
                job.is_fresh = False
            return fresh

    def _num_waiting(self) -> int:
        """Requests with sentences that no worker has."""
        return sum(job.is_fresh or job.num_waiting > 0 for job in self._jobs)

    def _is_done(self) -> bool:
        return self.is_closing and not self._jobs

    def _split(self, job: Job) -> None:
        try:
            documents = map(FORMATS[job.text_format], job.texts)
            split = split_documents(documents, job.served.splitter)
            sentences = [sentence for text in split for sentence in text.sentences]
            most = self.limits.max_sentences
            if len(sentences) > most:
                raise RequestError(
                    413, f"A request may have {most} sentences, this has {len(sentences)}"
                )
        except Exception as error:
            self._fail([job], error)
            return
        job.split = split
        job.translations = [[] for _ in sentences]
        job.sentences = sentences  # from here on workers take them
        if not sentences:
            self._answer(job)

    def _next_round(self) -> tuple[list[Part], int]:
        """What is translated next, by the model of the oldest, and by how many workers at a time.

        Those that are idle get a share of it, where there is enough.
        """
        ready = [job for job in self._jobs if job.num_waiting]
        if not ready:
            return [], 0
        jobs = [job for job in ready if job.kind == ready[0].kind]
        num_waiting = sum(job.num_waiting for job in jobs)
        num_idle = self.num_workers - self._num_working  # with this one
        num_shares = min(num_idle, max(num_waiting // LEAST_SENTENCES, 1))
        room = min(math.ceil(num_waiting / num_shares), ROUND_SENTENCES)
        counts = dict.fromkeys(jobs, 0)
        for share in (SHARE_SENTENCES, ROUND_SENTENCES):
            for job in jobs:
                more = min(share, job.num_waiting - counts[job], room)
                counts[job] += more
                room -= more
        parts = []
        for job, count in counts.items():
            if count:
                parts.append(Part(job, job.num_taken, job.num_taken + count))
                job.num_taken += count
            if count and job.num_waiting:  # behind those that wait
                self._jobs[job] = self._jobs.pop(job)
        self._num_working += 1
        if self._num_waiting():
            self._changed.notify_all()
        return parts, self._num_working + num_shares - 1

    def _translate(self, parts: list[Part]) -> None:
        start = time.monotonic()
        served, num_translations = parts[0].job.kind
        sentences = [sentence for part in parts for sentence in part.sentences]
        try:
            found = iter(_find(served, sentences, num_translations))
        except Exception as error:
            if len(parts) == 1:
                self._fail([parts[0].job], error)
                return
            for part in parts:  # one of them is to blame
                self._translate([part])
            return
        seconds = time.monotonic() - start
        self._seconds_per_job = seconds / len(parts) / self.num_workers
        self.metrics.count_round(served.languages, len(sentences), seconds)
        for part in parts:
            job, count = part.job, part.end - part.start
            job.translations[part.start : part.end] = itertools.islice(found, count)
            with self._changed:
                job.num_found += count
                is_found = job.num_found == len(job.sentences)
            if is_found:
                self._answer(job)

    def _answer(self, job: Job) -> None:
        try:
            result = job.result()
        except Exception as error:  # the worker goes on
            self._fail([job], error)
        else:
            self._leave(job, result)

    def _fail(self, jobs: Iterable[Job], error: Exception) -> None:
        if isinstance(error, LongSourceError):
            answer: Exception = RequestError(400, str(error))
        elif isinstance(error, RequestError):
            answer = error
        else:
            # Without the error's message, which may hold a text.
            places = "".join(traceback.format_tb(error.__traceback__))
            logger.error("A translation failed: %s\n%s", type(error).__name__, places)
            answer = RequestError(500, "The translation failed; the server's log has the reason")
        for job in jobs:
            self._leave(job, answer)

    def _leave(self, job: Job, result: list[list[str]] | Exception) -> None:
        with self._changed:
            is_here = job in self._jobs  # and neither dropped nor failed by another of its parts
            self._jobs.pop(job, None)
            if self._is_done():
                self._changed.notify_all()
        if is_here:
            job.finish(result)


def _find(
    served: Served, sentences: list[Sentence], num_translations: int
) -> list[list[Translated]]:
    """The translations of each sentence, the best first."""
    found: dict[int, list[Translated]] = {}
    for is_marked, find in ((False, _find_text), (True, _find_marked)):
        places = [place for place, one in enumerate(sentences) if one.is_marked is is_marked]
        if places:
            alike = find(served, [sentences[place] for place in places], num_translations)
            found |= zip(places, alike, strict=True)
    return [found[place] for place in range(len(sentences))]


def _find_text(
    served: Served, sentences: list[Sentence], num_translations: int
) -> list[list[Translated]]:
    texts = [sentence.text for sentence in sentences]
    if num_translations == 1:
        return [[Translated(text)] for text in served.translator(texts)]
    found = served.translator.n_best(texts, num_return_sequences=num_translations)
    return [[Translated(translation.text) for translation in ranked] for ranked in found]


def _find_marked(
    served: Served, sentences: list[Sentence], num_translations: int
) -> list[list[Translated]]:
    texts = [sentence.text for sentence in sentences]
    found = served.translator.n_best(texts, num_return_sequences=num_translations)
    repeated = [sentence for sentence in sentences for _ in range(num_translations)]
    translations = [(one.text, one.ids) for ranked in found for one in ranked]
    aligned = iter(with_alignments(served.translator, repeated, translations))
    return [list(itertools.islice(aligned, num_translations)) for _ in sentences]
