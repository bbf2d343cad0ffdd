# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a server counts, for Prometheus."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from .pairs import LanguagePair


SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts of one server; nothing in them comes from a text.

    Attributes:
        waiting: requests that wait or are being translated.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "vaswani_requests",
            "Requests that were answered, or whose client has gone (status 499).",
            ["path", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "vaswani_request_seconds",
            "Time from the head of a request to its answer.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge(
            "vaswani_waiting_requests",
            "Requests that wait or are being translated.",
            registry=self.registry,
        )
        self._characters = Counter(
            "vaswani_source_characters",
            "Characters of the texts that were translated.",
            ["pair"],
            registry=self.registry,
        )
        self._sentences = Counter(
            "vaswani_sentences", "Sentences translated.", ["pair"], registry=self.registry
        )
        self._translation_seconds = Counter(
            "vaswani_translation_seconds",
            "Time in which the model of a pair was at work; of several rounds at a time, the sum.",
            ["pair"],
            registry=self.registry,
        )
        self._round_sentences = Histogram(
            "vaswani_round_sentences",
            "Sentences that were translated together.",
            buckets=SENTENCES,
            registry=self.registry,
        )

    def count_request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def count_texts(self, pair: LanguagePair, num_characters: int) -> None:
        self._characters.labels(str(pair)).inc(num_characters)

    def count_round(self, pair: LanguagePair, num_sentences: int, seconds: float) -> None:
        self._sentences.labels(str(pair)).inc(num_sentences)
        self._translation_seconds.labels(str(pair)).inc(seconds)
        self._round_sentences.observe(num_sentences)

    def text(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self.registry)
