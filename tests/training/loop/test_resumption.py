"""What a resumed run may change of its settings, and what then happens."""

import json
import logging
import shutil

import pytest
import torch
from datasets import Dataset

from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from training.loop.resumption import SETTINGS, Settings, fingerprint
from training.loop.trainer import VaswaniTrainer
from training.settings.reading import parse_arguments
from vaswani_hf import VaswaniConfig


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    return str(tmp_path / "tiny.yaml")


def told(recipe, *options, text="a.tsv"):
    return parse_arguments([recipe, "--train_file", text, *options])


@pytest.fixture
def made(recipe, tmp_path):
    """A checkpoint after 7 updates by the recipe, of pairs `PAIRS`, as far as settings matter."""

    def make(*options):
        arguments = told(recipe, *options)
        folder = tmp_path / "checkpoint-7"
        VaswaniConfig(**arguments.model).save_pretrained(folder)
        settings = Settings(arguments)
        settings.check_text(PAIRS)
        settings.save(folder)
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": 7}))
        return folder

    return make


PAIRS = Dataset.from_dict({"input_ids": [[5, 6, 2], [7, 2]], "labels": [[8, 2], [9, 2]]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--d_model", "64"], "d_model=32 then and 64 now"),
        (["--decoder_layers", "2"], "decoder_layers=1 then and 2 now"),
        (["--position_encoding", "learned"], "position_encoding='sinusoidal' then and 'learned'"),
        (["--vocab_size", "310"], "vocab_size=300 then and 310 now"),
        (["--source_tokens", "480"], "source_tokens=240 then and 480 now"),
        (["--max_padding", "1"], r"max_padding=0\.03 then and 1\.0 now"),
        (["--seed", "3"], "seed=42 then and 3 now"),
        (["--max_length", "7"], "max_length=256 then and 7 now"),
        (["--drop_copies"], "drop_copies=False then and True now"),
        (["--tokenizer", "other"], "tokenizer=None then and 'other' now"),
        (["--optim", "adafactor"], "optim='adamw_torch_fused' then and 'adafactor' now"),
        (
            [
                *("--lr_scheduler_type", "greedy", "--eval_strategy", "steps"),
                *("--validation_file", "b.tsv"),
            ],
            "lr_scheduler_type='inverse_sqrt' then and 'greedy' now",
        ),
    ],
)
def test_what_weights_or_pairs_hang_on_may_not_change(made, recipe, options, message):
    checkpoint = made()
    with pytest.raises(ValueError, match=rf"checkpoint-7 was made with other .*{message}"):
        Settings(told(recipe, *options)).resume_from(checkpoint)


def test_the_padding_of_a_stream_is_left_to_the_streams_own_checkpoint(made, recipe):
    streamed = ("--streaming", "--max_steps", "9")
    checkpoint = made(*streamed, "--max_padding", "0.03")
    Settings(told(recipe, *streamed)).resume_from(checkpoint)


def test_all_that_differs_is_named(made, recipe):
    with pytest.raises(ValueError, match="d_model=32 then and 64 now; seed=42 then and 3 now"):
        Settings(told(recipe, "--seed", "3", "--d_model", "64")).resume_from(made())


def test_the_shape_is_compared_where_a_checkpoint_has_no_settings(made, recipe, caplog):
    checkpoint = made()
    (checkpoint / SETTINGS).unlink()
    with caplog.at_level(logging.INFO, logger="training"):
        Settings(told(recipe, "--seed", "3")).resume_from(checkpoint)
    assert "checkpoint-7 has no settings.json: only the shape of its model" in caplog.text
    with pytest.raises(ValueError, match="d_ff=64 then and 128 now"):
        Settings(told(recipe, "--d_ff", "128")).resume_from(checkpoint)


def test_what_may_change_is_told_and_kept(made, recipe, caplog):
    checkpoint = made()
    settings = Settings(told(recipe, "--dropout", "0.2", "--save_steps", "9", "--bf16", "true"))
    with caplog.at_level(logging.INFO, logger="training"):
        settings.resume_from(checkpoint)
    changed = {"dropout": (0.1, 0.2), "save_steps": (4, 9), "bf16": (False, True)}
    assert settings.changes == [{"after_update": 7, "settings": changed}]
    for name, (then, now) in changed.items():
        assert f"{name}={now} (before: {then})" in caplog.text


def test_changes_are_kept_one_after_the_other(made, recipe):
    checkpoint = made()
    for number, steps in enumerate(("9", "11"), start=1):
        settings = Settings(told(recipe, "--save_steps", steps))
        settings.resume_from(checkpoint)
        settings.save(checkpoint)
        assert len(settings.changes) == number
    assert settings.changes[-1]["settings"] == {"save_steps": (9, 11)}


def test_the_same_settings_change_nothing(made, recipe):
    settings = Settings(told(recipe, "--output_dir", "elsewhere", "--validation_file", "b.tsv"))
    settings.resume_from(made())
    settings.check_text(PAIRS)
    assert settings.changes == []


def test_text_that_has_moved_is_the_same_and_other_text_is_refused(made, recipe):
    checkpoint, moved = made(), Settings(told(recipe, text="moved.tsv"))
    moved.resume_from(checkpoint)
    moved.check_text(PAIRS)
    other = Dataset.from_dict({**PAIRS.to_dict(), "labels": [[8, 2], [10, 2]]})
    with pytest.raises(ValueError, match=r"train_file=\['a\.tsv'\] then and \['moved\.tsv'\] now"):
        moved.check_text(other)
    same_place = Settings(told(recipe))
    same_place.resume_from(checkpoint)
    with pytest.raises(ValueError, match="checkpoint-7 was made with other training text"):
        same_place.check_text(other)


@pytest.mark.parametrize(
    "columns",
    [
        {"input_ids": [[7, 2], [5, 6, 2]], "labels": [[9, 2], [8, 2]]},  # another order
        {"input_ids": [[5, 6], [2, 7, 2]], "labels": [[8, 2], [9, 2]]},  # cut elsewhere
        {"input_ids": [[8, 2], [9, 2]], "labels": [[5, 6, 2], [7, 2]]},  # sides exchanged
    ],
)
def test_the_fingerprint_is_of_the_pairs_and_their_order(columns):
    assert fingerprint(Dataset.from_dict(columns)) != fingerprint(PAIRS)
    assert fingerprint(PAIRS.select([1, 0]).select([1, 0])) == fingerprint(PAIRS)


# The whole of it


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Four updates of a run."""
    folder = tmp_path_factory.mktemp("settings")
    write_pairs(folder / "train.tsv", 90)
    (folder / "tiny.yaml").write_text(RECIPE)
    train = ("--train_file", str(folder / "train.tsv"), "--output_dir", str(folder / "out"))
    run_here(str(folder / "tiny.yaml"), *train, "--max_steps", "4")
    return folder


def go_on(begun, output, *options, **named):
    shutil.copytree(begun / "out", output)
    command = ("--output_dir", str(output), "--resume_from_checkpoint", "auto", *options)
    return run_here(str(begun / "tiny.yaml"), *command, **named)


def test_other_rates_and_steps_take_effect_with_the_next_update(begun, tmp_path, monkeypatch):
    in_optimizer, training_step = {}, VaswaniTrainer.training_step

    def step(self, *given, **named):
        rates = [group["lr"] for group in self.optimizer.param_groups]
        in_optimizer[self.state.global_step + 1] = rates
        return training_step(self, *given, **named)

    monkeypatch.setattr(VaswaniTrainer, "training_step", step)
    (tmp_path / "moved.tsv").write_bytes((begun / "train.tsv").read_bytes())
    done = go_on(
        begun,
        tmp_path / "out",
        *("--train_file", str(tmp_path / "moved.tsv"), "--max_steps", "6"),
        *("--learning_rate", "0.005", "--warmup_steps", "20", "--adam_beta2", "0.9"),
        *("--logging_steps", "1", "--save_steps", "1"),
    )
    assert "Resuming from checkpoint-4." in done.stderr
    assert "learning_rate=0.005 (before: 0.001)" in done.stderr
    last = tmp_path / "out" / "checkpoint-6"
    rates = {
        entry["step"]: entry["learning_rate"]
        for entry in json.loads((last / "trainer_state.json").read_text())["log_history"]
        if "loss_nats_per_token" in entry
    }
    # Equation 3 by hand: 0.005 step / 20.
    assert rates == {5: pytest.approx(0.00125), 6: pytest.approx(0.0015)}
    assert in_optimizer == {step: [rate] * 2 for step, rate in rates.items()}  # two groups
    assert (tmp_path / "out" / "checkpoint-5").is_dir()
    (group, *_) = torch.load(last / "optimizer.pt", weights_only=True)["param_groups"]
    assert (group["initial_lr"], tuple(group["betas"])) == (0.005, (0.9, 0.9))
    (change,) = results_of(tmp_path / "out")["training"]["changed_settings"]
    assert change["after_update"] == 4
    assert change["settings"]["learning_rate"] == [0.001, 0.005]


def test_another_metric_forgets_the_best_by_the_one_before(begun, tmp_path):
    write_pairs(tmp_path / "validation.tsv", 3, seed=1)
    command = (
        *("--train_file", str(begun / "train.tsv"), "--resume_from_checkpoint", "auto"),
        *("--validation_file", str(tmp_path / "validation.tsv"), "--eval_strategy", "steps"),
        *("--eval_steps", "2", "--save_steps", "2", "--output_dir", str(tmp_path / "out")),
    )
    recipe = str(begun / "tiny.yaml")
    run_here(recipe, *command, "--max_steps", "2", "--metric_for_best_model", "eval_loss")
    # A perplexity is above its loss: beside the loss, it would never be the best.
    best = ("--metric_for_best_model", "eval_perplexity_per_token")
    run_here(recipe, *command, "--max_steps", "4", *best)
    best = results_of(tmp_path / "out")["training"]["best_checkpoint"]
    assert best["folder"] == "checkpoint-4"
    assert best["eval_perplexity_per_token"] > 1


def test_a_run_that_diverges_says_from_where_it_can_go_on(begun, tmp_path):
    done = go_on(
        begun,
        tmp_path / "out",
        *("--train_file", str(begun / "train.tsv"), "--max_steps", "20"),
        *("--learning_rate", "1e29", "--logging_steps", "1"),
        status=1,
    )
    message = done.stderr.strip().splitlines()[-1]
    assert "Restart with a learning_rate below 1e+29 or warmup_steps above 10; earlier" in message
    assert message.endswith(f"auto goes on from checkpoint-4 in {tmp_path / 'out'}.")


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (["--d_model", "64"], "train.tsv", "d_model=32 then and 64 now"),
        ([], "other.tsv", "other.tsv'] now. Resume with the same, or start a new run from its"),
    ],
)
def test_a_refusal_comes_in_one_line_before_anything_is_written(
    begun, tmp_path, options, text, message
):
    write_pairs(tmp_path / "other.tsv", 90, seed=1)
    train = ("--train_file", str((tmp_path if text == "other.tsv" else begun) / text))
    done = go_on(begun, tmp_path / "out", *train, "--max_steps", "6", *options, status=1)
    assert message in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr

    def state(folder):
        return {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.name != ".run.lock"
        }

    assert state(tmp_path / "out") == state(begun / "out")
