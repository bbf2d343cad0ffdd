import json

from vaswani_hf.hub.verification import SAMPLES, sample_sentences


def test_a_push_that_cannot_be_fetched_says_so(hub, client, trained):
    hub.truncate("GET", "/", to_bytes=20_000, times=1000)
    message = client.fails("push", trained, "--to", "lab/unfetched")
    assert "was pushed (commit" in message and "could not load it" in message


def test_the_sentences_are_those_of_the_runs_test_set(tmp_path):
    samples = [{"source": text} for text in ("one", "two", "three", "four")]
    (tmp_path / "results.json").write_text(json.dumps({"samples": samples}))
    assert sample_sentences(tmp_path) == ["one", "two", "three"]


def test_a_model_without_a_training_is_tried_with_sentences_of_ours(tmp_path):
    assert sample_sentences(tmp_path) == list(SAMPLES)
    (tmp_path / "results.json").write_text(json.dumps({"samples": [{"source": "one"}]}))
    assert sample_sentences(tmp_path) == list(SAMPLES)
