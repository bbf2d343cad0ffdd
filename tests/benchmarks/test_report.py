import json
import platform

from benchmarks.report import first_sentences, processor, time_in_turn, write_report


def test_calls_run_in_turn_round_after_round():
    order = []
    calls = {"a": lambda: order.append("a"), "b": lambda: order.append("b") or "last"}
    seconds, returned = time_in_turn(calls, rounds=3)
    assert order == ["a", "b"] * 3
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}
    assert returned == {"a": None, "b": "last"}


def test_a_report_has_its_date_in_the_name_and_names_the_processor(tmp_path):
    path = write_report("speed", {"rows": [1]}, tmp_path / "new", packages=("torch",))
    report = json.loads(path.read_text())
    assert path.name == f"{report['date']}-speed.json"
    assert report["rows"] == [1] and report["machine"] == processor()
    assert report["versions"].keys() == {"torch"}
    assert platform.machine() in report["machine"] or "NVIDIA" in report["machine"]


def test_the_first_lines_of_a_text_are_its_first_sentences(tmp_path):
    (tmp_path / "text").write_text("one\ntwo\nthree\n")
    assert first_sentences(str(tmp_path / "text"), 2) == ["one", "two"]
    assert first_sentences(str(tmp_path / "text"), None) == ["one", "two", "three"]
