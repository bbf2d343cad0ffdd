"""The model under the library's own trainer and collator, with nothing of `training/`."""

import pytest
import torch
from transformers import (
    DataCollatorForSeq2Seq,
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
