"""The model under the library's own trainer and collator, with nothing of `training/`."""

import pytest
import torch
from transformers import (
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)

from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration


def rows():
    chooser = torch.Generator().manual_seed(0)
    lengths = [3, 9, 5, 4, 7, 2, 8, 6]
    rows = [torch.randint(3, 40, (length,), generator=chooser).tolist() for length in lengths]
    return [{"input_ids": [*row, 2], "labels": [*row[:0:-1], 2]} for row in rows]


def small_model(tokenizer, label_smoothing=0.0):
    set_seed(0)
    return VaswaniForConditionalGeneration(
        VaswaniConfig(
            vocab_size=len(tokenizer),
            d_model=32,
            d_ff=64,
            num_heads=4,
            encoder_layers=1,
            decoder_layers=1,
            dropout=0.0,
            label_smoothing=label_smoothing,
        )
    )


def train(tokenizer, folder, label_smoothing=0.0, **options):
    model = small_model(tokenizer, label_smoothing)
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder),
        max_steps=1,
        learning_rate=1e-2,
        optim="sgd",
        max_grad_norm=0.0,
        train_sampling_strategy="sequential",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        **options,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=rows(),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer.state.log_history[0]["loss"], model


def expected_loss(tokenizer, smoothing):
    # By log-probabilities of an untrained model of the same seed: (1 - eps) on the label, eps / V
    # on every piece, summed over real targets and divided by their number.
    model = small_model(tokenizer).eval()
    nats = tokens = 0
    for row in rows():
        source, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
        start = model.prepare_decoder_input_ids_from_labels(labels)
        with torch.no_grad():
            logp = model(input_ids=source, decoder_input_ids=start).logits[0].log_softmax(-1)
        plain = -logp.gather(1, labels[0][:, None]).squeeze(1)
        nats += ((1 - smoothing) * plain - smoothing * logp.mean(-1)).sum().item()
        tokens += labels.numel()
    return nats / tokens


@pytest.mark.parametrize(
    ("ours", "librarys"),
    [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)],
    ids=["unsmoothed", "label_smoothing", "label_smoothing_factor"],
)
@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_loss_is_that_of_the_whole_update(copier, tmp_path, ours, librarys, accumulation):
    tokenizer = copier[1]
    loss, _ = train(
        tokenizer,
        tmp_path,
        label_smoothing=ours,
        label_smoothing_factor=librarys,
        gradient_accumulation_steps=accumulation,
        per_device_train_batch_size=8 // accumulation,
    )
    assert loss == pytest.approx(expected_loss(tokenizer, ours + librarys), rel=1e-4)


def test_accumulated_batches_update_as_one(copier, tmp_path):
    _, whole = train(copier[1], tmp_path, per_device_train_batch_size=8)
    _, parts = train(
        copier[1], tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=4
    )
    for name, parameter in whole.named_parameters():
        assert torch.allclose(parameter, parts.get_parameter(name), atol=1e-6), name


def ids_of(generated):
    """What was generated, without start and padding."""
    return [[int(piece) for piece in row if piece not in (-100, 1)] for row in generated]


@pytest.fixture(
    params=[(1, "wu"), (1, "power"), (4, "wu"), (4, "power")], ids=lambda p: f"{p[0]}-{p[1]}"
)
def trained(request, copier, tmp_path):
    """The library's trainer after two steps, evaluated once, and its metric's arguments."""
    num_beams, form = request.param
    tokenizer, seen = copier[1], []
    model = small_model(tokenizer)
    model.generation_config.length_penalty_type = form
    model.generation_config.max_extra_tokens = 5

    def share_of_ends(prediction):
        seen.append((ids_of(prediction.predictions), ids_of(prediction.label_ids)))
        return {"share_of_ends": sum(2 in ids for ids in seen[-1][0]) / len(seen[-1][0])}

    arguments = Seq2SeqTrainingArguments(
        output_dir=str(tmp_path),
        max_steps=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=1e-3,
        predict_with_generate=True,
        generation_num_beams=num_beams,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=rows(),
        eval_dataset=rows(),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=share_of_ends,
    )
    trainer.train()
    return trainer, num_beams, seen


def alone(model, num_beams):
    """Each source translated by `generate()`, without labels and batch-mates."""
    model.eval()
    return [
        ids_of(model.generate(torch.tensor([row["input_ids"]]), num_beams=num_beams))[0]
        for row in rows()
    ]


def test_the_trainer_evaluates_what_generate_gives_without_labels(trained):
    trainer, num_beams, seen = trained
    assert len(seen) == 1
    assert seen[0][0] == alone(trainer.model, num_beams)
    assert len({len(ids) for ids in seen[0][0]}) > 2  # each has its source's limit
    assert seen[0][1] == [row["labels"] for row in rows()]
    share = sum(2 in ids for ids in seen[0][0]) / 8
    logged = [entry for entry in trainer.state.log_history if "eval_share_of_ends" in entry]
    assert [entry["eval_share_of_ends"] for entry in logged] == [share]


def test_the_trainer_predicts_what_generate_gives_without_labels(trained):
    trainer, num_beams, _ = trained
    output = trainer.predict(rows())
    assert ids_of(output.predictions) == alone(trainer.model, num_beams)
    assert ids_of(output.label_ids) == [row["labels"] for row in rows()]
    trainer.data_collator = DataCollatorWithPadding(trainer.processing_class)
    without = trainer.predict([{"input_ids": row["input_ids"]} for row in rows()])
    assert ids_of(without.predictions) == ids_of(output.predictions)
    assert without.label_ids is None


def test_the_trainers_loss_is_that_of_evaluation_by_hand(trained):
    trainer, *_ = trained
    model = trainer.model.eval()
    batches = [rows()[:4], rows()[4:]]
    total = 0.0
    for batch in batches:
        nats = tokens = 0.0
        for row in batch:
            source, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
            start = model.prepare_decoder_input_ids_from_labels(labels)
            with torch.no_grad():
                logp = model(input_ids=source, decoder_input_ids=start).logits[0].log_softmax(-1)
            nats -= logp.gather(1, labels[0][:, None]).sum().item()
            tokens += labels.numel()
        total += nats / tokens
    assert trainer.evaluate()["eval_loss"] == pytest.approx(total / 2, rel=1e-5)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_a_collated_start_is_continued_as_by_marian(copier, num_beams):
    # The trainer takes the collator's `decoder_input_ids` out where there are labels; `generate()`
    # itself continues them, for either model, whatever the labels say.
    tokenizer = copier[1]
    marian = MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=24,
            decoder_ffn_dim=24,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
        )
    )
    same_length = [{"input_ids": row["input_ids"], "labels": row["input_ids"]} for row in rows()]
    for model in (marian.eval(), small_model(tokenizer).eval()):
        collator = DataCollatorForSeq2Seq(tokenizer, model=model)
        batch = collator(same_length[1:2])
        found = model.generate(**batch, num_beams=num_beams, max_new_tokens=4)
        start = torch.tensor([[1, *rows()[1]["input_ids"][:-1]]])
        assert torch.equal(found[:, : start.shape[1]], start)
        del batch["labels"]
        again = model.generate(**batch, num_beams=num_beams, max_new_tokens=4)
        assert torch.equal(found, again)
