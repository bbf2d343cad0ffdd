"""A server's application around a small model, and a translator that waits until it may go on."""

import threading
from contextlib import contextmanager

from vaswani_hf.server import LanguagePair, Limits, Pairs


EN_DE = LanguagePair("en", "de")


class Gate:
    """A translator behind a gate: `calls` is what it was asked for, `entered` tells that it was."""

    def __init__(self, translator):
        self.translator = translator
        self.calls = []
        self.entered = threading.Semaphore(0)
        self.is_open = threading.Event()
        self.is_open.set()

    def __call__(self, sentences):
        self.calls.append(list(sentences))
        self.entered.release()
        assert self.is_open.wait(20)
        return self.translator(sentences)

    def __getattr__(self, name):
        return getattr(self.translator, name)


@contextmanager
def running(*translators, limits=None, **options):
    """A client of an application that translates by these, and its parts."""
    from fastapi.testclient import TestClient

    from vaswani_hf.server import TranslationQueue, make_app
    from vaswani_hf.server.metrics import Metrics

    limits, metrics = limits or Limits(), Metrics()
    pairs = Pairs(translators)
    queue = TranslationQueue(limits, metrics)
    client = TestClient(make_app(pairs, queue, limits, metrics, **options))
    client.queue, client.pairs, client.metrics = queue, pairs, metrics
    queue.start()
    try:
        yield client
    finally:
        queue.close()
