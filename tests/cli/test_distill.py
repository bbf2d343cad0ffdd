"""Pairs for a student, of small lists of translations; what is nearest is sacrebleu's to say."""

import gzip
import json

import pytest
import sacrebleu

from vaswani_hf.cli import main


# Source, reference, and translations with their scores; the order of chrF is another.
SENTENCES = [
    ("a", "the cat sat here", [("a dog ran", -0.1), ("the cat sat there", -0.5), ("the", -0.6)]),
    ("b", "all is well now", [("all is well now", -0.3), ("nothing", -0.4)]),
    ("c", "it rains", [("snow falls", -0.9), ("it is raining", -1.0)]),
    ("", "", [("", 0.0)]),
    ("d", "some words of it", [("other letters", -0.2), ("some words of", -0.7)]),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the translations, and the same in two parts, and references."""
    lines = [
        json.dumps({"source": source, "translations": [{"text": t, "score": s} for t, s in found]})
        for source, _, found in SENTENCES
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n_best.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with gzip.open("part.1.gz", "wt") as file:
        file.write(f"{lines[0]}\n")
    (tmp_path / "part.2").write_text("".join(f"{line}\n" for line in lines[1:]))
    (tmp_path / "references").write_text("".join(f"{text}\n" for _, text, _ in SENTENCES))
    return tmp_path


def distill(*options, files=("n_best.jsonl",)):
    assert main(["distill", *files, "--output_source", "s", "--output_target", "t", *options]) == 0
    with open("s") as sources, open("t") as targets:
        return list(zip(sources.read().splitlines(), targets.read().splitlines(), strict=True))


def nearest(measure):
    """By hand: the largest of sacrebleu's numbers, the first of equal ones."""
    return [
        (
            source,
            max((text for text, _ in found), key=lambda text: measure(text, [reference]).score),
        )
        for source, reference, found in SENTENCES
        if source
    ]


def bleu(text, references):
    return sacrebleu.sentence_bleu(text, references)


def test_what_the_teacher_scores_highest_is_taken_unless_said_otherwise(place, capsys):
    best = [(source, found[0][0]) for source, _, found in SENTENCES if source]
    assert distill() == best
    assert capsys.readouterr().err == "5 sentences, 4 kept, dropped 1 with an empty side\n"
    assert distill(files=("part.1.gz", "part.2")) == best


@pytest.mark.parametrize(("name", "measure"), [("chrf", sacrebleu.sentence_chrf), ("bleu", bleu)])
def test_the_translation_nearest_to_the_reference_is_taken(place, name, measure):
    expected = nearest(measure)
    assert distill("--choose", name, "--target", "references") == expected
    assert expected != distill()


def test_a_share_is_kept_by_the_score(place, capsys):
    # Scores of the four pairs: -0.1, -0.3, -0.9, -0.2.
    assert [source for source, _ in distill("--keep_best", "0.5")] == ["a", "d"]
    assert "dropped 1 with an empty side, 2 with a score below -0.2" in capsys.readouterr().err


def test_a_share_may_be_kept_by_another_measure_than_chooses(place):
    kept = distill("--keep_best", "0.5", "--by", "chrf", "--target", "references")
    # Of the teacher's own, "all is well now" is the reference, and the empty one has no chrF.
    scores = {
        source: sacrebleu.sentence_chrf(found[0][0], [reference]).score
        for source, reference, found in SENTENCES
    }
    best = sorted(scores, key=scores.get)[-2:]
    assert {source for source, _ in kept} == set(best) and "b" in best


def test_all_of_equal_ones_are_kept(place):
    line = json.dumps({"source": "a", "translations": [{"text": "b", "score": -1}]})
    (place / "n_best.jsonl").write_text(f"{line}\n" * 4)
    assert len(distill("--keep_best", "0.5")) == 4


def test_nothing_makes_nothing(place):
    (place / "n_best.jsonl").write_text("")
    assert distill("--keep_best", "0.5") == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "n_best.jsonl, line 6 is no line of"),
        ('{"source": "a", "translations": []}', "line 6 is no line of"),
        ('{"source": "a", "translations": [{"text": 1, "score": 1}]}', "line 6 is no line of"),
        ('{"source": "a", "translations": [{"text": "b", "score": "c"}]}', "line 6 is no line of"),
        ('{"source": "a"}', "line 6 is no line of"),
        ("7", "line 6 is no line of"),
    ],
)
def test_other_lines_are_refused_and_the_outputs_left_alone(place, capsys, line, told):
    (place / "t").write_text("mine\n")
    with (place / "n_best.jsonl").open("a") as file:
        file.write(f"{line}\n")
    argv = ["distill", "n_best.jsonl", "--output_source", "s", "--output_target", "t"]
    assert main(argv) == 1
    assert told in capsys.readouterr().err
    assert (place / "t").read_text() == "mine\n" and not (place / "s").exists()


def test_references_of_another_number_are_refused(place, capsys):
    (place / "references").write_text("one\n")
    argv = ["distill", "n_best.jsonl", "--output_source", "s", "--output_target", "t"]
    assert main([*argv, "--target", "references"]) == 1
    assert "references has 1 lines, and n_best.jsonl has more" in capsys.readouterr().err
