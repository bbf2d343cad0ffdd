"""What a run writes about itself."""

import json
from types import SimpleNamespace

import pytest

from training.outcome.evaluation import Evaluation, Translation
from training.outcome.results import Results, training_seconds
from training.settings.reading import parse_arguments
from vaswani_hf.evaluation import Score


@pytest.fixture
def results(tmp_path):
    """Those of a run resumed for 100 s, 20 of them evaluations, that saw 800 target tokens."""
    arguments = parse_arguments(["base", "--output_dir", str(tmp_path / "my run"), "--use_cpu"])
    (tmp_path / "my run").mkdir(exist_ok=True)
    trainer = SimpleNamespace(
        model=SimpleNamespace(num_parameters=lambda: 12),
        state=SimpleNamespace(
            global_step=7, epoch=2.5, log_history=[{"step": 7}], best_model_checkpoint=None
        ),
        args=SimpleNamespace(metric_for_best_model=None),
        stopped_early=False,
        settings=None,
        target_tokens_seen=800,
        evaluation_seconds=20.0,
        clock=SimpleNamespace(seconds=250.0),
    )
    corpus = SimpleNamespace(counts={})
    return Results(arguments, corpus, trainer, 100.0, None, "abc1234")


FIGURES = {"loss": 1.5, "perplexity_per_token": 4.5, "bleu": 20.0, "exact_match": 0.25}
TRANSLATIONS = tuple(Translation(f"s{n}", f"t{n}", f"r{n}") for n in range(6))


def test_the_speed_of_training_leaves_evaluations_out(results):
    assert results.figures["training"]["target_tokens_per_second"] == 10  # 800 / (100 - 20)
    assert training_seconds(results.figures) == 250


@pytest.mark.parametrize("elapsed", [{}, {"elapsed_seconds": 250.0}])
def test_folders_of_earlier_code_have_the_seconds_since_the_last_resumption(elapsed):
    found = training_seconds({"training": {"seconds": 100.0, **elapsed}})
    assert found == (250 if elapsed else 100)


def test_scores_are_written_with_units_and_signatures(results, tmp_path):
    signatures = {"bleu": "tok:13a", "compound_split_bleu": "compounds:split"}
    figures = FIGURES | {"compound_split_bleu": 21.0}
    results.add(Evaluation("validation", 4, {"loss": 2.0, "perplexity_per_token": 7.4}))
    results.add_average([tmp_path / "checkpoint-6", tmp_path / "checkpoint-7"])
    results.add(Evaluation("test", 8, figures, TRANSLATIONS, signatures))
    results.write(wall_seconds=123.44)
    written = json.loads((tmp_path / "my run" / "results.json").read_text())
    assert written["scores"] == {
        "validation": {
            "loss_nats_per_token": 2.0,
            "perplexity_per_token": 7.4,
            "sentences": 4,
        },
        "test": {
            "loss_nats_per_token": 1.5,
            "perplexity_per_token": 4.5,
            "sentences": 8,
            "bleu": 20.0,
            "bleu_signature": "tok:13a",
            "exact_match": 0.25,
            "compound_split_bleu": 21.0,
            "compound_split_bleu_signature": "compounds:split",
        },
    }
    assert written["averaged_checkpoints"] == ["checkpoint-6", "checkpoint-7"]
    assert written["wall_seconds"] == 123.4
    assert len(written["samples"]) == 5
    assert written["samples"][0] == {"source": "s0", "translation": "t0", "reference": "r0"}
    assert json.loads((tmp_path / "my run" / "log_history.json").read_text()) == [{"step": 7}]


def test_the_translations_of_each_split_are_written_a_line_each(results, tmp_path):
    texts = (Translation("a", "t0\nt1", "r0\x85r1"), Translation("b", "", "r2"))
    results.add(Evaluation("validation", 2, FIGURES, texts, {"bleu": "tok:13a"}))
    results.add(Evaluation("test", 4, {"loss": 2.0, "perplexity_per_token": 7.4}))
    results.write(wall_seconds=1.0)
    folder = tmp_path / "my run"
    assert (folder / "validation.hypotheses").read_text() == "t0 t1\n\n"
    assert (folder / "validation.references").read_text() == "r0 r1\nr2\n"
    assert not (folder / "test.hypotheses").exists()
    assert not (folder / "results.json.new").exists()


CONFIDENT = Evaluation(
    "test",
    8,
    {**FIGURES, "chrf++": 50.0},
    TRANSLATIONS,
    {"bleu": "tok:13a", "chrf++": "nw:2"},
    {
        "bleu": Score("BLEU", 20.0, "bs:9|tok:13a", 20.126, 3.5),
        "chrf++": Score("chrF2++", 50.0, "bs:9|nw:2", 49.5, 4.0),
    },
)


def test_chrf_and_confidence_are_written_beside_bleu(results, tmp_path):
    results.add(CONFIDENT)
    results.write(wall_seconds=1.0)
    scores = json.loads((tmp_path / "my run" / "results.json").read_text())["scores"]["test"]
    assert (scores["bleu"], scores["bleu_signature"]) == (20.0, "tok:13a")
    assert (scores["chrf++"], scores["chrf++_signature"]) == (50.0, "nw:2")
    assert scores["bleu_confidence"] == {"mean": 20.126, "ci": 3.5, "signature": "bs:9|tok:13a"}
    assert scores["chrf++_confidence"] == {"mean": 49.5, "ci": 4.0, "signature": "bs:9|nw:2"}
    card = (tmp_path / "my run" / "README.md").read_text(encoding="utf-8")
    assert "| test | BLEU | 20.00 | 20.13 ± 3.50 | `bs:9\\|tok:13a` |\n" in card
    assert "| test | chrF++ | 50.00 | 49.50 ± 4.00 | `bs:9\\|nw:2` |\n" in card


def test_scores_are_shown_with_their_confidence(results, capsys):
    results.add(CONFIDENT)
    results.show()
    shown = capsys.readouterr().out
    assert "test: BLEU 20.00, 95 % confidence 20.13 ± 3.50\n" in shown
    assert "test: chrF++ 50.00, 95 % confidence 49.50 ± 4.00\n" in shown


def test_translations_of_the_last_split_are_shown_with_a_command_that_can_be_pasted(
    results, tmp_path, capsys
):
    results.add(Evaluation("test", 8, FIGURES, TRANSLATIONS, {"bleu": "tok:13a"}))
    results.show()
    shown = capsys.readouterr().out
    assert "source       s4\ntranslation  t4\nreference    r4\n" in shown
    assert "s5" not in shown
    assert shown.endswith(f"  vaswani-hf translate --model '{tmp_path / 'my run'}'\n")
