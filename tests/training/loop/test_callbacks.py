"""Early stopping, the best checkpoint, and what TensorBoard and trackio are told."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerControl, TrainerState

from training.loop.callbacks import EarlyStopping
from training.run import main
from training.settings.fields import VaswaniTrainingArguments


TINY = """\
extends: base
vocab_size: 300
d_model: 32
d_ff: 64
num_heads: 2
encoder_layers: 1
decoder_layers: 1
source_tokens: 120
target_tokens: 120
max_steps: 24
warmup_steps: 10
learning_rate: 1.0e-3
save_strategy: steps
save_steps: 2
eval_steps: 2
logging_steps: 2
save_minutes: null
num_beams: 2
disable_tqdm: true
use_cpu: true
"""
# The highest loss is the first one, so the best checkpoint is foreseen: it is the first.
BEST_IS_FIRST = ["--metric_for_best_model", "eval_loss", "--greater_is_better", "true"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Pairs of words and their reversed letters."""
    folder = tmp_path_factory.mktemp("text")
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcde", k=chooser.randint(1, 4))) for _ in range(20)]
    for split, count in [("train", 100), ("validation", 7), ("test", 6)]:
        sources = [" ".join(chooser.choices(words, k=chooser.randint(1, 6))) for _ in range(count)]
        pairs = [(source, " ".join(word[::-1] for word in source.split())) for source in sources]
        lines = [f"{source}\t{target}\n" for source, target in pairs]
        (folder / f"{split}.tsv").write_text("".join(lines))
    (folder / "tiny.yaml").write_text(TINY)
    return folder


def train(text, output, *more):
    files = []
    for split in ("train", "validation", "test"):
        files += [f"--{split}_file", str(text / f"{split}.tsv")]
    main([str(text / "tiny.yaml"), *files, "--output_dir", str(output), *more])
    return output


def results_of(output):
    return json.loads((output / "results.json").read_text())


def checkpoints_of(output):
    return sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))


@pytest.fixture(scope="module")
def stopped(text, tmp_path_factory):
    """A run whose first evaluation is its best, with patience for three more."""
    output = tmp_path_factory.mktemp("stopped") / "out"
    patience = ["--early_stopping_patience", "3", "--average_last", "2", "--save_total_limit", "3"]
    return train(text, output, *BEST_IS_FIRST, *patience, "--report_to", "tensorboard")


def test_training_ends_when_patience_does(stopped):
    training = results_of(stopped)["training"]
    assert training["updates"] == 8  # evaluations at 2, the best, and at 4, 6, 8
    assert training["stopped_early"] is True


def test_the_best_checkpoint_outlives_the_limit_and_is_named(stopped):
    assert checkpoints_of(stopped) == [2, 6, 8]
    best = results_of(stopped)["training"]["best_checkpoint"]
    assert (best["folder"], best["update"]) == ("checkpoint-2", 2)
    log = json.loads((stopped / "log_history.json").read_text())
    losses = [
        entry["eval_loss_nats_per_token"] for entry in log if "eval_loss_nats_per_token" in entry
    ]
    assert best["eval_loss_nats_per_token"] == max(losses) == losses[0]


def test_the_final_model_is_still_the_average_of_the_last(stopped):
    assert results_of(stopped)["averaged_checkpoints"] == ["checkpoint-6", "checkpoint-8"]
    saved = load_file(stopped / "model.safetensors")
    parts = [load_file(stopped / f"checkpoint-{step}" / "model.safetensors") for step in (6, 8)]
    for name, tensor in saved.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(0).float()
        assert torch.equal(tensor, mean), name


def test_a_resumed_run_keeps_its_count_and_ends_as_its_best(text, tmp_path):
    options = ["--early_stopping_patience", "3", "--average_last", "1", "--load_best_model_at_end"]
    train(text, tmp_path, *BEST_IS_FIRST, *options, "--max_steps", "4")
    assert results_of(tmp_path)["training"]["stopped_early"] is False
    train(text, tmp_path, *BEST_IS_FIRST, *options, "--resume_from_checkpoint", "auto")
    results = results_of(tmp_path)
    assert results["training"]["updates"] == 8  # and not 10: the evaluation at 4 counts
    assert results["averaged_checkpoints"] == ["checkpoint-2"]
    saved = load_file(tmp_path / "model.safetensors")
    best, last = (load_file(tmp_path / f"checkpoint-{n}" / "model.safetensors") for n in (2, 8))
    assert all(torch.equal(saved[name], best[name]) for name in saved)
    assert not all(torch.equal(saved[name], last[name]) for name in saved)


def test_bleu_decides_and_saving_the_best_still_saves_the_last(text, tmp_path):
    # A rate of 0 changes nothing: the first BLEU stays the best, and the second ends training.
    options = ["--learning_rate", "0", "--early_stopping_patience", "1", "--average_last", "1"]
    train(text, tmp_path, *options, "--save_strategy", "best")
    training = results_of(tmp_path)["training"]
    assert training["updates"] == 4
    assert training["best_checkpoint"].keys() == {"folder", "update", "eval_bleu"}
    assert training["best_checkpoint"]["folder"] == "checkpoint-2"
    assert checkpoints_of(tmp_path) == [2, 4]


# TensorBoard and trackio


@pytest.fixture(scope="module")
def events(stopped):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (folder,) = (stopped / "runs").iterdir()
    found = reading.EventAccumulator(str(folder))
    found.Reload()
    return found


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("train/loss_nats_per_token", "loss_nats_per_token"),
        ("train/learning_rate", "learning_rate"),
        ("train/target_tokens_per_second", "target_tokens_per_second"),
        ("eval/loss_nats_per_token", "eval_loss_nats_per_token"),
        ("eval/perplexity_per_token", "eval_perplexity_per_token"),
        ("eval/bleu", "eval_bleu"),
        ("test/bleu", "test_bleu"),
    ],
)
def test_tensorboard_has_the_figures_of_the_log(stopped, events, tag, name):
    log = json.loads((stopped / "log_history.json").read_text())
    expected = [(entry["step"], entry[name]) for entry in log if name in entry]
    written = [(event.step, event.value) for event in events.Scalars(tag)]
    assert [step for step, _ in written] == [step for step, _ in expected] != []
    for (_, value), (_, figure) in zip(written, expected, strict=True):
        assert value == pytest.approx(figure, rel=1e-6)  # float32 in the file


def test_tensorboard_has_the_first_validation_sentences_at_each_evaluation(text, events):
    texts = events.Tensors("eval/translations/text_summary")
    assert [event.step for event in texts] == [2, 4, 6, 8]
    pairs = [line.split("\t") for line in (text / "validation.tsv").read_text().splitlines()]
    for event in texts:
        table = event.tensor_proto.string_val[0].decode()
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        assert rows[0] == ["source", "translation", "reference"]
        assert [[row[0], row[2]] for row in rows[2:]] == pairs[:5]


def test_trackio_has_figures_and_translations_in_one_run(text, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    trackio = pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    output = train(text, tmp_path / "out", "--max_steps", "4", "--report_to", "trackio")
    trackio.finish()  # as it does itself when the process ends
    assert SQLiteStorage.get_runs("huggingface") == [str(output)]
    entries = SQLiteStorage.get_logs("huggingface", str(output))
    names = {name for entry in entries for name in entry}
    assert names >= {
        *("train/loss_nats_per_token", "train/learning_rate", "train/target_tokens_per_second"),
        *("eval/perplexity_per_token", "eval/bleu", "test/bleu"),
    }
    tables = [
        entry["eval/translations"]["_value"] for entry in entries if "eval/translations" in entry
    ]
    assert len(tables) == 2  # evaluations at 2 and 4
    pairs = [line.split("\t") for line in (text / "validation.tsv").read_text().splitlines()]
    for table in tables:
        assert [[row["source"], row["reference"]] for row in table] == pairs[:5]
        assert all("translation" in row for row in table)


# When training ends early


def arguments(tmp_path, **fields):
    return VaswaniTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, **{"average_last": 1, **fields}
    )


EVERY_TEN = {
    "eval_strategy": "steps",
    "eval_steps": 10,
    "save_strategy": "steps",
    "save_steps": 10,
    "predict_with_generate": True,
}


def stops_at(tmp_path, bleus, patience):
    """The evaluation, from 1, after which training ends; `None` if it goes on."""
    stopping = EarlyStopping(arguments(tmp_path, early_stopping_patience=patience, **EVERY_TEN))
    state = TrainerState()
    for number, bleu in enumerate(bleus, start=1):
        state.log_history.append({"step": number, "loss_nats_per_token": 1.0})
        state.log_history.append({"step": number, "eval_bleu": bleu})
        control = TrainerControl()
        stopping.on_evaluate(None, state, control)
        assert control.should_save is control.should_training_stop
        if control.should_training_stop:
            return number
    return None


def test_an_equal_score_is_no_improvement_and_a_better_one_starts_the_count_anew(tmp_path):
    assert stops_at(tmp_path, [5.0, 6.0, 6.0, 4.0], 2) == 4
    assert stops_at(tmp_path, [5.0, 6.0, 5.0, 7.0, 6.0], 2) is None
    assert stops_at(tmp_path, [5.0, 4.0, 4.5, 4.9], 3) == 4  # better than the last is not best
