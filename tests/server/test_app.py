import json
import logging
import re
from urllib.parse import urlencode

import pytest

from tests.server.serving import EN_DE, Gate, running
from vaswani_hf.server import LanguagePair, Limits


ASKED = {"source": "en", "target": "de"}
HTML = "text/html"
FORM = "application/x-www-form-urlencoded"


# What LibreTranslate's clients send. The model copies, so the translation of a text is the text.


def test_a_text_as_json(client):
    answer = client.post("/translate", json={**ASKED, "q": "a b c", "format": "text"})
    assert (answer.status_code, answer.json()) == (200, {"translatedText": "a b c"})


def test_a_list_as_json(client):
    answer = client.post("/translate", json={**ASKED, "q": ["a b", "", "h"]})
    assert answer.json() == {"translatedText": ["a b", "", "h"]}


def test_a_form_by_either_encoding_or_the_query(client):
    fields = {**ASKED, "q": "a b", "api_key": "", "secret": "unknown fields are let through"}
    parts = {name: (None, value) for name, value in fields.items()}
    for answer in (
        client.post("/translate", data=fields),
        client.post("/translate", files=parts),
        client.post(f"/translate?{urlencode(fields)}"),
    ):
        assert (answer.status_code, answer.json()) == (200, {"translatedText": "a b"})


def test_several_texts_of_a_form_are_a_list(client):
    answer = client.post("/translate", data={**ASKED, "q": ["a", "b"]})
    assert answer.json() == {"translatedText": ["a", "b"]}


def test_what_stands_between_sentences_stays(client):
    text = "\ta b\r\n\n  c d \n"
    answer = client.post("/translate", json={**ASKED, "q": text})
    assert answer.json() == {"translatedText": text}


def test_html_keeps_its_tags_where_their_words_went(client):
    texts = ["<p>a <b>b c</b> d</p>\n<p>e {n} <i>f</i></p>&nbsp;&amp;", "h", "<br>"]
    answer = client.post("/translate", json={**ASKED, "q": texts, "format": "html"})
    assert answer.json() == {"translatedText": texts}
    # Of text the tags are words, which the model has not learned to copy.
    answer = client.post("/translate", json={**ASKED, "q": texts[0], "format": "text"})
    assert answer.json() != {"translatedText": texts[0]}


def test_other_translations_of_html_have_its_tags_too(client, translator):
    best, second = translator.n_best("a b c", num_return_sequences=2)
    fields = {**ASKED, "q": "<p>a <b>b</b> c", "format": "html", "alternatives": 1}
    answer = client.post("/translate", json=fields).json()
    found = [answer["translatedText"], *answer["alternatives"]]
    assert [re.sub("<.*?>", "", one) for one in found] == [best.text, second.text]
    assert all(one.count("<b>") == one.count("</b>") == 1 for one in found)


def test_other_translations_are_those_of_the_beam(client, translator):
    (best, second), _ = translator.n_best(["a b c", "h"], num_return_sequences=2)
    answer = client.post("/translate", json={**ASKED, "q": "a b c", "alternatives": 1})
    assert answer.json() == {"translatedText": best.text, "alternatives": [second.text]}
    assert best.text == "a b c"
    answer = client.post("/translate", json={**ASKED, "q": ["a b c"], "alternatives": "1"})
    assert answer.json() == {"translatedText": [best.text], "alternatives": [[second.text]]}


def test_alternatives_are_as_many_as_the_beam_has(client):
    answer = client.post("/translate", json={**ASKED, "q": "a", "alternatives": 10**6}).json()
    assert len(answer["alternatives"]) == 1  # of two beams


def test_auto_is_the_one_source_that_there_is_and_says_that_nothing_was_detected(client):
    answer = client.post("/translate", json={"q": "a", "source": "auto", "target": "de"})
    assert answer.json()["detectedLanguage"] == {"confidence": 0.0, "language": "en"}
    answer = client.post("/translate", json={"q": ["a", "b"], "source": "auto", "target": "de"})
    assert answer.json()["detectedLanguage"] == [{"confidence": 0.0, "language": "en"}] * 2
    assert client.post("/detect", data={"q": "a"}).json() == [{"confidence": 0.0, "language": "en"}]


def test_auto_is_refused_where_it_could_be_several(translator):
    pairs = [(LanguagePair(*codes), translator) for codes in (("en", "de"), ("fr", "de"))]
    with running(*pairs) as client:
        asked = {"q": "a", "source": "auto", "target": "de"}
        answer = client.post("/translate", json=asked)
        assert answer.status_code == 400 and "name one of en, fr" in answer.json()["error"]
        assert client.post("/translate", json={**asked, "source": "fr"}).status_code == 200
        named = [detected["language"] for detected in client.post("/detect", json=asked).json()]
        assert named == ["en", "fr"]


def test_each_pair_has_its_own_model(translator, gate):
    with running((EN_DE, translator), (LanguagePair("de", "en"), gate)) as client:
        client.post("/translate", json={**ASKED, "q": "a"})
        client.post("/translate", json={"source": "de", "target": "en", "q": "b"})
    assert gate.calls == [["b"]]


def test_languages_say_what_they_are_translated_into(client):
    pytest.importorskip("babel")
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_what_a_page_needs_to_know(client):
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == Limits().max_characters
    assert not settings["keyRequired"] and not settings["filesTranslation"]
    assert settings["language"]["source"]["code"] == "en"
    assert settings["language"]["target"]["code"] == "de"


def test_the_description_has_every_path(client):
    spec = client.get("/spec").json()
    assert {"/translate", "/detect", "/languages", "/health", "/metrics"} <= spec["paths"].keys()
    body = spec["paths"]["/translate"]["post"]["requestBody"]["content"]["application/json"]
    assert {"q", "source", "target"} == set(body["schema"]["required"])


def test_other_origins_may_ask(client):
    asked = {"Origin": "moz-extension://x", "Access-Control-Request-Method": "POST"}
    asked["Access-Control-Request-Headers"] = "content-type"
    answer = client.options("/translate", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    answer = client.post("/translate", json={**ASKED, "q": "a"}, headers={"Origin": "https://x.y"})
    assert answer.headers["access-control-allow-origin"] == "*"


# What is refused


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q parameter"),
        ({"q": ["a", 5]}, "Invalid request: q parameter"),
        ({"q": {"a": "b"}}, "Invalid request: q parameter"),
        ({"q": "a\ud800"}, "Invalid request: q parameter"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": ["de"]}, "Invalid request: target parameter"),
        ({"target": "d" * 21}, "Invalid request: target parameter"),
        ({"target": "\ud800"}, "Invalid request: target parameter"),
        ({"target": "xx"}, "xx is not supported"),
        ({"source": "de"}, "de is not available as a target language from de"),
        ({"target": "auto"}, "auto is not supported"),
        ({"format": "markdown"}, "Invalid request: format parameter"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter"),
        ({"api_key": 5}, "Invalid request: api_key parameter"),
    ],
)
def test_a_field_that_is_wrong_is_named(client, changes, error):
    fields = {**ASKED, "q": "a", **changes}
    answer = client.post(
        "/translate", content=json.dumps(fields), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b"\xff"),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"q": ' + b"9" * 5000 + b"}"),
        ("multipart/form-data", b"without a boundary"),
        ("multipart/form-data; boundary=x", b"\xff\xff--"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="q"'),
        (FORM, b"%%%=&q&&="),
        ("text/plain", json.dumps({**ASKED, "q": "a"}).encode()),
        ("", b""),
    ],
)
def test_a_body_that_is_none_is_a_400_of_one_sentence(client, content_type, body):
    answer = client.post("/translate", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_file_is_refused(client):
    answer = client.post("/translate", data={**ASKED, "q": "a"}, files={"file": b"a"})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/x", 404), ("PUT", "/detect", 405)]
)
def test_other_paths_and_methods_are_told_in_the_same_form(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status and answer.json()["error"]


@pytest.mark.parametrize(
    ("limits", "q"),
    [
        (Limits(max_body_bytes=60), "a " * 60),
        (Limits(max_characters=5), "a b c "),
        (Limits(max_characters=5), ["a b", "a b"]),
        (Limits(max_sentences=2), "a\nb\nc"),
        (Limits(max_sentences=2), ["", "", ""]),
    ],
)
def test_too_much_is_a_413(gate, limits, q):
    with running((EN_DE, gate), limits=limits) as client:
        answer = client.post("/translate", json={**ASKED, "q": q})
    assert answer.status_code == 413 and "may have" in answer.json()["error"]
    assert not gate.calls


def test_as_much_as_is_allowed_is_translated(gate):
    body = json.dumps({**ASKED, "q": "a\nb"}).encode()
    limits = Limits(max_body_bytes=len(body), max_characters=3, max_sentences=2)
    with running((EN_DE, gate), limits=limits) as client:
        answer = client.post(
            "/translate", content=body, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 200


def test_a_body_far_too_large_is_not_read_to_its_end(gate):
    with running((EN_DE, gate), limits=Limits(max_body_bytes=10)) as client:
        read = []

        def parts():
            for _ in range(1000):
                read.append(b"a" * 10)
                yield read[-1]

        answer = client.post("/translate", content=parts())
        assert answer.status_code == 413 and answer.headers["connection"] == "close"


def test_what_takes_too_long_is_a_504_and_leaves_the_queue(gate):
    gate.is_open.clear()
    with running((EN_DE, gate), limits=Limits(timeout_seconds=0.05)) as client:
        answer = client.post("/translate", json={**ASKED, "q": "a"})
        assert answer.status_code == 504 and "0.05 seconds" in answer.json()["error"]
        gate.is_open.set()


def test_keys_are_asked_for_where_texts_are_given(translator):
    with running((EN_DE, translator), keys=["right", "other"]) as client:
        for path in ("/translate", "/detect"):
            asked = {**ASKED, "q": "a"}
            assert client.post(path, json=asked).status_code == 400
            assert client.post(path, json={**asked, "api_key": ""}).status_code == 400
            for wrong in ("wrong", "righ", "right ", "\ud800"):
                headers = {"Content-Type": "application/json"}
                body = json.dumps({**asked, "api_key": wrong})
                answer = client.post(path, content=body, headers=headers)
                assert answer.status_code in (400, 403) and "API" in answer.text.upper()
            assert client.post(path, data={**asked, "api_key": "other"}).status_code == 200
            assert client.post(f"{path}?api_key=right", json=asked).status_code == 200
        assert client.get("/languages").status_code == client.get("/health").status_code == 200
        assert client.get("/frontend/settings").json()["keyRequired"]


# What an operator sees


def test_nothing_of_a_text_is_logged(client, caplog):
    caplog.set_level(logging.DEBUG, logger="vaswani_hf")
    client.post("/translate?q=h+g+h", data=ASKED)
    client.post("/translate", json={**ASKED, "q": "h g h"})
    client.get("/h%20g%20h")
    text = caplog.text
    assert "/translate 200" in text and "other 404" in text
    assert "h g h" not in text and "h+g" not in text and "h%20g" not in text


def test_texts_are_logged_where_that_is_asked(translator, caplog):
    caplog.set_level(logging.INFO, logger="vaswani_hf")
    with running((EN_DE, translator), log_text=True) as client:
        client.post("/translate", json={**ASKED, "q": "h g h"})
    assert '"q": ["h g h"], "translatedText": ["h g h"]' in caplog.text


def test_a_failure_of_the_model_is_a_500_whose_log_has_no_text(translator, caplog):
    class Failing(Gate):
        def __call__(self, sentences):
            raise RuntimeError(f"cannot translate {sentences}")

    failing = Failing(translator)
    with running((EN_DE, failing)) as client:
        answer = client.post("/translate", json={**ASKED, "q": "h g h"})
    assert answer.status_code == 500 and "h g h" not in answer.text
    assert "RuntimeError" in caplog.text and "raise RuntimeError" in caplog.text
    assert "h g h" not in caplog.text


def test_a_mistake_of_ours_is_a_500_in_the_same_form(client, monkeypatch, caplog):
    monkeypatch.setattr(client.metrics, "text", lambda: 1 / 0)
    answer = client.get("/metrics")
    assert (answer.status_code, answer.json()) == (500, {"error": "Internal Server Error"})
    assert "ZeroDivisionError" in caplog.text


def test_metrics_count_what_was_done(client):
    client.post("/translate", json={**ASKED, "q": "a b\nc"})
    client.post("/translate", json={**ASKED, "q": ""})
    client.get("/nowhere")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    for line in (
        'vaswani_requests_total{path="/translate",status="200"} 1.0',
        'vaswani_requests_total{path="/translate",status="400"} 1.0',
        'vaswani_requests_total{path="other",status="404"} 1.0',
        'vaswani_sentences_total{pair="en-de"} 2.0',
        'vaswani_source_characters_total{pair="en-de"} 5.0',
        "vaswani_round_sentences_count 1.0",
        "vaswani_waiting_requests 0.0",
    ):
        assert line in lines, line
