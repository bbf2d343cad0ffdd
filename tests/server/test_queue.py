from concurrent.futures import CancelledError

import pytest

from tests.server.serving import EN_DE, Gate, running
from vaswani_hf.server import LanguagePair, Limits, Pairs
from vaswani_hf.server.errors import RequestError


@pytest.fixture
def served(gate):
    return Pairs([(EN_DE, gate)]).find("en", "de")


def make_queue(num_workers=1, **limits):
    from vaswani_hf.server import TranslationQueue
    from vaswani_hf.server.metrics import Metrics

    return TranslationQueue(Limits(**limits), Metrics(), num_workers)


@pytest.fixture
def queue():
    """One that has been started, with room for four."""
    queue = make_queue(max_queue=4)
    queue.start()
    yield queue
    queue.close()


@pytest.fixture
def pair_of_workers(gate):
    """A queue that two threads work at; the gate is closed."""
    gate.is_open.clear()
    queue = make_queue(num_workers=2)
    queue.start()
    yield queue
    gate.is_open.set()
    queue.close()


@pytest.fixture
def busy(queue, served, gate):
    """The queue, at work on the text `a` behind the closed gate."""
    gate.is_open.clear()
    queue.first = queue.add(served, ["a"], 1)
    assert gate.entered.acquire(timeout=20)
    yield queue
    gate.is_open.set()


def found(job):
    return job.found.result(20)


def test_what_waits_is_translated_together(busy, served, gate):
    jobs = [busy.add(served, [letter, "h"], 1) for letter in "bcd"]
    gate.is_open.set()
    assert [found(job) for job in jobs] == [[["b"], ["h"]], [["c"], ["h"]], [["d"], ["h"]]]
    assert gate.calls == [["a"], ["b", "h", "c", "h", "d", "h"]]


def test_nothing_waits_for_more_to_come(queue, served, gate):
    assert found(queue.add(served, ["a"], 1)) == [["a"]]
    assert found(queue.add(served, ["b"], 1)) == [["b"]]
    assert gate.calls == [["a"], ["b"]]


def test_a_long_request_lets_others_pass(busy, served, gate):
    num_sentences = 320  # five shares of a round
    long = busy.add(served, ["b\n" * num_sentences], 1)
    short = [busy.add(served, [letter], 1) for letter in "cd"]
    gate.is_open.set()
    assert found(short[0]) == [["c"]] and found(long) == [["b\n" * num_sentences]]
    _, first, second, *_ = gate.calls
    assert len(first) == 256 and {"b", "c", "d"} == set(first)  # full, and nobody is left out
    assert set(second) == {"b"}


def test_a_full_queue_is_a_429_that_says_when(busy, served):
    for letter in "bcd":
        busy.add(served, [letter], 1)
    with pytest.raises(RequestError, match="4 requests are waiting") as caught:
        busy.add(served, ["e"], 1)
    assert caught.value.status == 429
    assert int(caught.value.headers["Retry-After"]) >= 1


def test_one_that_is_dropped_is_not_translated_and_makes_room(busy, served, gate):
    jobs = [busy.add(served, [letter], 1) for letter in "bcd"]
    busy.drop(jobs[1])
    late = busy.add(served, ["e"], 1)
    gate.is_open.set()
    assert found(late) == [["e"]]
    assert gate.calls == [["a"], ["b", "d", "e"]]
    with pytest.raises(CancelledError):
        found(jobs[1])


def test_one_that_is_dropped_while_it_is_translated_harms_nobody(busy, served, gate):
    busy.drop(busy.first)
    job = busy.add(served, ["b"], 1)
    gate.is_open.set()
    assert found(job) == [["b"]]


def test_a_long_one_that_is_dropped_ends_after_its_round(busy, served, gate):
    long = busy.add(served, ["b\n" * 600], 1)
    gate.is_open.set()
    assert gate.entered.acquire(timeout=20)  # it is in its first round, or past it
    busy.drop(long)
    assert found(busy.add(served, ["c"], 1)) == [["c"]]
    assert sum(map(len, gate.calls)) <= 602


def test_closing_answers_what_waits_and_refuses_the_rest(busy, served, gate):
    jobs = [busy.add(served, [letter], 1) for letter in "bc"]
    busy.refuse()
    with pytest.raises(RequestError) as caught:
        busy.add(served, ["d"], 1)
    assert caught.value.status == 503
    gate.is_open.set()
    busy.close()
    assert [job.found.result(0) for job in (busy.first, *jobs)] == [[["a"]], [["b"]], [["c"]]]


def test_one_that_fails_takes_no_other_with_it(busy, served, gate):
    class Picky(Gate):
        def __call__(self, sentences):
            if "c" in sentences:
                raise RuntimeError
            return super().__call__(sentences)

    gate.__class__ = Picky
    jobs = [busy.add(served, [letter], 1) for letter in "bcd"]
    gate.is_open.set()
    assert (found(jobs[0]), found(jobs[2])) == ([["b"]], [["d"]])
    with pytest.raises(RequestError) as caught:
        found(jobs[1])
    assert caught.value.status == 500


def test_a_sentence_beyond_the_limit_is_a_400(copier, monkeypatch):
    from vaswani_hf import Translator

    translator = Translator(*copier, max_source_tokens=4)
    monkeypatch.setattr(translator, "encode", lambda texts: [[5] * 9 for _ in texts])
    with running((EN_DE, translator)) as client:
        answer = client.post("/translate", json={"source": "en", "target": "de", "q": "a"})
    assert answer.status_code == 400 and "9 tokens" in answer.json()["error"]


def test_pairs_wait_for_each_other_in_their_turn(busy, served, gate, translator):
    other = Gate(translator)
    reverse = Pairs([(LanguagePair("de", "en"), other)]).find("de", "en")
    jobs = [busy.add(served, ["b"], 1), busy.add(reverse, ["c"], 1), busy.add(served, ["d"], 1)]
    gate.is_open.set()
    assert [found(job) for job in jobs] == [[["b"]], [["c"]], [["d"]]]
    assert gate.calls == [["a"], ["b", "d"]] and other.calls == [["c"]]


def test_when_to_ask_again_is_at_most_the_time_that_a_request_has(served):
    queue = make_queue(max_queue=1, timeout_seconds=7)  # not started
    queue.add(served, ["a"], 1)
    queue._seconds_per_job = 1e6
    with pytest.raises(RequestError) as caught:
        queue.add(served, ["b"], 1)
    assert caught.value.headers["Retry-After"] == "7"


def test_a_text_without_a_letter_stays_and_needs_no_model(queue, served, gate):
    assert found(queue.add(served, ["", " \n", "?!"], 1)) == [[""], [" \n"], ["?!"]]
    assert not gate.calls


def test_a_worker_that_is_done_waits_for_no_other(pair_of_workers, served, gate):
    slow = pair_of_workers.add(served, ["a"], 1)
    assert gate.entered.acquire(timeout=20)
    other = pair_of_workers.add(served, ["b"], 1)
    assert gate.entered.acquire(timeout=20)  # while the first one is still there
    gate.is_open.set()
    assert (found(slow), found(other)) == ([["a"]], [["b"]])


def test_idle_workers_share_what_is_enough_for_them(pair_of_workers, served, gate):
    letters = [*"abcdefgh"] * 10
    job = pair_of_workers.add(served, ["\n".join(letters)], 1)
    for _ in range(2):
        assert gate.entered.acquire(timeout=20)
    gate.is_open.set()
    assert found(job) == [["\n".join(letters)]]  # in its order
    assert sorted(gate.calls) == sorted([letters[:40], letters[40:]])


def test_one_of_two_parts_that_fail_answers_for_both(pair_of_workers, served, gate):
    class Broken(Gate):
        def __call__(self, sentences):
            super().__call__(sentences)
            raise RuntimeError

    gate.__class__ = Broken
    job = pair_of_workers.add(served, ["a\n" * 64], 1)
    for _ in range(2):
        assert gate.entered.acquire(timeout=20)
    gate.is_open.set()
    with pytest.raises(RequestError):
        found(job)
    pair_of_workers.close()  # both of them are well
    assert len(gate.calls) == 2


def test_workers_share_the_threads(gate):
    shares = []
    gate.sharing = lambda: lambda *share: shares.append(share)
    served = Pairs([(EN_DE, gate)]).find("en", "de")
    queue = make_queue(num_workers=2)
    gate.is_open.clear()
    jobs = []
    for letter in "ab":
        jobs.append(queue.add(served, [letter], 1))
        if letter == "a":
            queue.start()
        assert gate.entered.acquire(timeout=20)
    gate.is_open.set()
    queue.close()
    assert [found(job) for job in jobs] == [[["a"]], [["b"]]]
    (first, alone), (second, beside) = shares
    assert {first, second} == {0, 1} and (alone, beside) == (1, 2)


@pytest.fixture
def answered(busy, served, gate, monkeypatch):
    """The queue after a round of two requests, of 20 sentences each."""

    def answer(pause):
        monkeypatch.setattr("vaswani_hf.server.queue.PAUSE", pause)
        monkeypatch.setattr("vaswani_hf.server.queue.PAUSE_SECONDS", pause)
        jobs = [busy.add(served, ["b\n" * 20], 1) for _ in range(2)]
        gate.is_open.set()
        for job in jobs:
            found(job)
        return busy

    return answer


@pytest.mark.parametrize(("pause", "rounds"), [(0, [["c"], ["d"]]), (1e6, [["c", "d"]])])
def test_those_that_were_answered_may_ask_again(answered, served, gate, pause, rounds):
    queue = answered(pause)
    first = queue.add(served, ["c"], 1)
    if not pause:
        found(first)
    second = queue.add(served, ["d"], 1)
    assert (found(first), found(second)) == ([["c"]], [["d"]])
    assert gate.calls[2:] == rounds


def test_a_worker_outlives_an_answer_that_cannot_be_joined(queue, served, monkeypatch):
    def fail(job):
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr("vaswani_hf.server.queue.Job.result", fail)
        for texts in (["b"], []):
            with pytest.raises(RequestError) as caught:
                found(queue.add(served, texts, 1))
            assert caught.value.status == 500
    assert found(queue.add(served, ["c"], 1)) == [["c"]]


def test_closing_ends_the_wait_for_more(answered, served):
    queue = answered(1e6)
    last = queue.add(served, ["c"], 1)
    queue.close()
    assert last.found.result(0) == [["c"]]
