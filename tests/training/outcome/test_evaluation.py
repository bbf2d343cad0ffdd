"""What an evaluation finds, against sums by hand, `generate()` and sacrebleu."""

import dataclasses

import pytest
import sacrebleu
import torch
from datasets import Dataset

from training.data.collating import PairCollator
from training.loop.trainer import VaswaniTrainer
from training.outcome.evaluation import Evaluation, evaluate, evaluate_with_beams
from training.settings.fields import VaswaniTrainingArguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer


SOURCES = ["a b c", "b", "a b c d e f g", "c d", "h g f e"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e f g h"], 300, are_files=False, show_progress=False)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(3)
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = VaswaniConfig(vocab_size=len(tokenizer), label_smoothing=0.1, **sizes, **tokens)
    model = VaswaniForConditionalGeneration(config)
    model.generation_config.length_penalty_type = "wu"
    return model


@pytest.fixture(scope="module")
def alone(model, tokenizer):
    """What `generate()` makes of each source by itself, with three beams."""
    model.eval()
    search = {"num_beams": 3, "length_penalty": 0.6, "max_extra_tokens": 5}
    return [
        tokenizer.decode(
            model.generate(**tokenizer(text, return_tensors="pt"), **search)[0],
            skip_special_tokens=True,
        )
        for text in SOURCES
    ]


@pytest.fixture(scope="module")
def targets(alone):
    """References: three are what the model says."""
    return [*alone[:3], alone[3] + " h", "h " + alone[4]]


@pytest.fixture(scope="module")
def pairs(tokenizer, targets):
    return Dataset.from_dict(
        {
            "input_ids": tokenizer(SOURCES)["input_ids"],
            "labels": tokenizer(text_target=targets)["input_ids"],
            "source": SOURCES,
            "target": targets,
        }
    )


@pytest.fixture
def make_trainer(model, tokenizer, tmp_path):
    def make(**options):
        arguments = VaswaniTrainingArguments(
            output_dir=str(tmp_path),
            **{"eval_batch_tokens": 12, "use_cpu": True, "report_to": "none", "num_beams": 3}
            | {"predict_with_generate": True, "disable_tqdm": True, "max_extra_tokens": 5}
            | {"length_penalty": 0.6, "length_penalty_type": "wu"}
            | options,
        )
        return VaswaniTrainer(
            model=model,
            args=arguments,
            data_collator=PairCollator(tokenizer, model),
            processing_class=tokenizer,
            evaluator=evaluate,
        )

    return make


def test_the_loss_is_in_nats_a_token_and_unsmoothed(make_trainer, pairs):
    trainer = make_trainer(predict_with_generate=False)
    trainer.evaluate(pairs)
    nats = tokens = 0
    model = trainer.model.eval()
    for row in pairs:
        source, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        start = model.prepare_decoder_input_ids_from_labels(labels)
        with torch.no_grad():
            logp = model(input_ids=source, decoder_input_ids=start).logits[0].log_softmax(-1)
        nats -= logp.gather(1, labels[0][:, None]).sum().item()
        tokens += labels.numel()
    found = trainer.last_evaluation
    assert found.figures["loss"] == pytest.approx(nats / tokens, rel=1e-5)
    perplexity = torch.tensor(nats / tokens).exp().item()
    assert found.figures["perplexity_per_token"] == pytest.approx(perplexity, rel=1e-5)
    # Without translations there is nothing that they would score.
    assert (found.sentences, found.translations, found.signatures) == (5, (), {})
    assert found.figures.keys() == {"loss", "perplexity_per_token"}


def test_scores_are_sacrebleus_of_translations_in_the_order_of_the_split(
    make_trainer, pairs, alone, targets
):
    trainer = make_trainer(compound_split_bleu="none", bleu_tokenize="none")
    found = evaluate_with_beams(trainer, "test", pairs)
    assert (found.split, found.sentences) == ("test", 5)
    assert [each.source for each in found.translations] == SOURCES
    assert [each.reference for each in found.translations] == targets
    lines = [each.translation for each in found.translations]
    assert lines == alone
    bleu = sacrebleu.corpus_bleu(lines, [targets], tokenize="none", force=True)
    assert found.figures["bleu"] == pytest.approx(bleu.score)
    assert "|tok:none|" in found.signatures["bleu"]
    assert found.figures["exact_match"] == 3 / 5
    assert found.signatures["compound_split_bleu"].endswith("|compounds:split")
    assert found.figures["compound_split_bleu"] <= found.figures["bleu"]  # not smoothed
    assert trainer.state.log_history[-1]["test_bleu"] == found.figures["bleu"]


def test_the_final_evaluation_has_chrf_and_confidence(make_trainer, pairs, alone, targets):
    trainer = make_trainer(bleu_tokenize="none")
    found = evaluate_with_beams(trainer, "test", pairs)
    for name, metric in [
        ("bleu", sacrebleu.BLEU(tokenize="none", force=True)),
        ("chrf++", sacrebleu.CHRF(word_order=2)),
    ]:
        assert found.figures[name] == pytest.approx(metric.corpus_score(alone, [targets]).score)
        assert found.signatures[name] == str(metric.get_signature())
        expected = metric.corpus_score(alone, [targets], n_bootstrap=1000)
        assert found.confidence[name].mean == pytest.approx(expected._mean)
        assert found.confidence[name].ci == pytest.approx(expected._ci)
        assert found.confidence[name].signature == str(metric.get_signature())
    # Evaluations in training do without.
    trainer.evaluate(pairs)
    assert "chrf++" not in trainer.last_evaluation.figures
    assert not trainer.last_evaluation.confidence


def test_the_final_evaluation_searches_by_the_recipe_and_those_in_training_greedily(
    make_trainer, pairs, monkeypatch
):
    trainer = make_trainer(num_beams=3, length_penalty=0.4, length_penalty_type="power")
    asked, generate = [], trainer.model.generate

    def noted(**named):
        names = ("num_beams", "length_penalty", "length_penalty_type")
        asked.append(tuple(named.get(name) for name in names))
        return generate(**named)

    monkeypatch.setattr(trainer.model, "generate", noted)
    evaluate_with_beams(trainer, "test", pairs)
    assert set(asked) == {(3, 0.4, "power")}
    asked.clear()
    trainer.evaluate(pairs)  # as the library does in training
    assert set(asked) == {(1, None, None)}


def test_an_evaluation_is_a_value():
    evaluation = Evaluation("test", 1, {"loss": 1.0})
    with pytest.raises(dataclasses.FrozenInstanceError):
        evaluation.sentences = 2
    assert evaluation == Evaluation("test", 1, {"loss": 1.0})
