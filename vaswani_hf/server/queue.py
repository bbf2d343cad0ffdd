# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The requests that wait, and the one thread that translates what waits, by the batch."""

import logging
import math
import threading
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import Future

from ..text.paragraphs import SplitText, join_segments
from ..translation import LongSourceError
from .errors import RequestError
from .limits import Limits
from .metrics import Metrics
from .pairs import Served


logger = logging.getLogger(__name__)
# Sentences that are translated together. The engine sorts them by length and cuts its own batches;
# with more of them those are fuller, and who comes next waits longer.
ROUND_SENTENCES = 256
# Those of one request, while others wait: a long one then lets the others pass.
SHARE_SENTENCES = 64


class Job:
    """What a request waits for.

    Attributes:
        found: for each text its translations, the best first; at most `num_translations`, and none
            twice.
    """

    def __init__(self, served: Served, texts: list[str], num_translations: int) -> None:
        self.served = served
        self.texts = texts
        self.num_translations = num_translations
        self.found: Future[list[list[str]]] = Future()
        self.is_split = False  # until the thread has come to it
        self.split: list[SplitText] = []
        self.sentences: list[str] = []
        self.translations: list[list[str]] = []  # of the first of these sentences

    @property
    def num_left(self) -> int:
        return len(self.sentences) - len(self.translations)

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
        return [_joined(text, [next(translations) for _ in text.segments]) for text in self.split]


def _joined(text: SplitText, found: list[list[str]]) -> list[str]:
    """A text by the best translations of its sentences, by the second best, and so on.

    A sentence that has fewer takes part with its last.
    """
    most = max(map(len, found), default=1)
    texts = [
        join_segments(text, [ranked[min(rank, len(ranked) - 1)] for ranked in found])
        for rank in range(most)
    ]
    return list(dict.fromkeys(texts))


class TranslationQueue:
    """Gathers what waits and translates it together, with no wait where nothing else does.

    Only the queue's own thread uses the translators.

    Args:
        limits: of which `max_queue`, `max_sentences` and `timeout_seconds` are heeded here.
        metrics: which count what is done.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self.is_closing = False
        self._jobs: dict[Job, None] = {}  # in their order; a dictionary drops any of them at once
        self._changed = threading.Condition()
        self._seconds_per_job = 0.0
        self._thread = threading.Thread(target=self._work, name="translation", daemon=True)
        metrics.waiting.set_function(lambda: len(self._jobs))

    def start(self) -> None:
        self._thread.start()

    def refuse(self) -> None:
        """Take nothing new; what waits is still translated. A signal handler may call this."""
        self.is_closing = True

    def close(self) -> None:
        """End the thread, when it has translated what waits."""
        self.refuse()
        with self._changed:
            self._changed.notify()
        self._thread.join()

    def add(self, served: Served, texts: list[str], num_translations: int) -> Job:
        """Wait in the queue.

        Raises:
            RequestError: 503 where the server is about to stop, 429 where the queue is full.
        """
        job = Job(served, texts, num_translations)
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
            self._changed.notify()
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

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self.is_closing:
                    self._changed.wait()
                if not self._jobs:
                    return
                fresh = [job for job in self._jobs if not job.is_split]
            for job in fresh:
                self._split(job)
            with self._changed:
                counts = self._next_round()
            if counts:
                self._translate(counts)

    def _split(self, job: Job) -> None:
        try:
            job.split = job.served.splitter.split(job.texts)
            job.sentences = [segment for text in job.split for segment in text.segments]
            most = self.limits.max_sentences
            if len(job.sentences) > most:
                raise RequestError(
                    413, f"A request may have {most} sentences, this has {len(job.sentences)}"
                )
        except Exception as error:
            self._fail([job], error)
            return
        job.is_split = True
        if not job.sentences:
            self._leave(job, job.result())

    def _next_round(self) -> dict[Job, int]:
        """How many sentences of each job are translated next: by the model of the oldest."""
        ready = [job for job in self._jobs if job.is_split]
        if not ready:
            return {}
        kind = _kind(ready[0])
        jobs = [job for job in ready if _kind(job) == kind]
        counts = dict.fromkeys(jobs, 0)
        room = ROUND_SENTENCES
        for share in (SHARE_SENTENCES, ROUND_SENTENCES):
            for job in jobs:
                more = min(share, job.num_left - counts[job], room)
                counts[job] += more
                room -= more
        return {job: count for job, count in counts.items() if count}

    def _translate(self, counts: dict[Job, int]) -> None:
        start = time.monotonic()
        sentences = [
            sentence
            for job, count in counts.items()
            for sentence in job.sentences[len(job.translations) :][:count]
        ]
        served, num_translations = _kind(next(iter(counts)))
        try:
            found = iter(_find(served, sentences, num_translations))
        except Exception as error:
            if len(counts) == 1:
                self._fail(counts, error)
                return
            for job, count in counts.items():  # one of them is to blame
                self._translate({job: count})
            return
        seconds = time.monotonic() - start
        self._seconds_per_job = seconds / len(counts)
        self.metrics.count_round(served.languages, len(sentences), seconds)
        for job, count in counts.items():
            job.translations.extend(next(found) for _ in range(count))
            if not job.num_left:
                self._leave(job, job.result())
                continue
            with self._changed:  # behind those that wait
                if job in self._jobs:
                    self._jobs[job] = self._jobs.pop(job)

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
            self._jobs.pop(job, None)
        job.finish(result)


def _kind(job: Job) -> tuple[Served, int]:
    """Jobs of one kind are translated together."""
    return job.served, job.num_translations


def _find(served: Served, sentences: list[str], num_translations: int) -> list[list[str]]:
    """The translations of each sentence, the best first."""
    if num_translations == 1:
        return [[text] for text in served.translator(sentences)]
    found = served.translator.n_best(sentences, num_return_sequences=num_translations)
    return [[translation.text for translation in ranked] for ranked in found]
