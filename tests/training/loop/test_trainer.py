"""The trainer, and what it needs of the libraries: a contract a test for all that is overridden."""

import copy
import functools
import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import accelerate
import pytest
import torch
import transformers
from accelerate.data_loader import (
    BatchSamplerShard,
    prepare_data_loader,
    skip_first_batches,
)
from datasets import Dataset
from safetensors.torch import load_file
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Sampler
from transformers import Seq2SeqTrainer, TrainerState
from transformers.trainer_utils import rotate_checkpoints

from training.data.collating import PairCollator
from training.loop.trainer import VaswaniTrainer
from training.settings.fields import VaswaniTrainingArguments
from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer


# What the library itself calls of what we override: all of it but `train`, which a run calls.
OVERRIDDEN = sorted(
    name
    for name, part in vars(VaswaniTrainer).items()
    if inspect.isfunction(part)
    and hasattr(Seq2SeqTrainer, name)
    and name not in ("__init__", "train")
)


def changed(name):
    return f"transformers {transformers.__version__} has changed {name}: see VaswaniTrainer"


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a b c d e f g h"], 300, are_files=False, show_progress=False)


@pytest.fixture(scope="module")
def pairs():
    rows = [[*range(10, 10 + length), 1] for length in (2, 3, 4, 5, 6, 7)]
    return Dataset.from_dict({"input_ids": rows, "labels": rows})


def make_trainer(kind, folder, tokenizer, pairs, *, settings=None, evaluator=None, **options):
    torch.manual_seed(0)
    widths = {"d_model": 8, "d_ff": 8, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    model = VaswaniForConditionalGeneration(
        VaswaniConfig(vocab_size=len(tokenizer), **widths, **tokens)
    )
    arguments = VaswaniTrainingArguments(
        output_dir=str(folder),
        **{"source_tokens": 24, "target_tokens": 24, "warmup_steps": 2, "average_last": 1}
        | {"lr_scheduler_type": "inverse_sqrt", "save_minutes": None, "disable_tqdm": True}
        | {"use_cpu": True, "report_to": "none", "predict_with_generate": False}
        | options,
    )
    return kind(
        model=model,
        args=arguments,
        train_dataset=pairs,
        eval_dataset=pairs,
        data_collator=PairCollator(tokenizer, model),
        processing_class=tokenizer,
        settings=settings,
        evaluator=evaluator,
    )


def unchanging(trainer, loader, split, **search):
    """An evaluator that finds every model equally good."""
    return SimpleNamespace(figures={"loss": 1.0}, sentences=6, split=split, search=search)


def test_a_checkpoint_has_the_sentencepiece_model_of_its_tokenizer(tmp_path, tokenizer, pairs):
    tokenizer = copy.deepcopy(tokenizer)
    (tmp_path / "source.spm").write_bytes(b"a model")
    tokenizer.vocab_file = str(tmp_path / "source.spm")
    tokenizer.init_kwargs["sentencepiece_model"] = "tokenizer.model"
    trainer = make_trainer(VaswaniTrainer, tmp_path / "run", tokenizer, pairs, max_steps=1)
    trainer.save_model(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "tokenizer.model").read_bytes() == b"a model"


class Noted(VaswaniTrainer):
    """Notes the calls of what we override, and of what our checkpoints are made by."""

    calls: list


def noting(name):
    @functools.wraps(getattr(VaswaniTrainer, name))
    def method(self, *arguments, **named):
        step = self.state.global_step if hasattr(self, "state") else 0
        self.calls.append((name, arguments, named, step))
        return getattr(VaswaniTrainer, name)(self, *arguments, **named)

    return method


for name in OVERRIDDEN:
    setattr(Noted, name, noting(name))


@pytest.fixture(scope="module")
def run(tmp_path_factory, tokenizer, pairs):
    """A run of three updates, the same resumed after its first, and resumed once it is over."""
    folder, lives = tmp_path_factory.mktemp("noted"), []
    for checkpoint in (None, "checkpoint-1", "checkpoint-3"):
        Noted.calls = []
        trainer = make_trainer(
            Noted,
            folder,
            tokenizer,
            pairs,
            evaluator=unchanging,
            **{"max_steps": 3, "learning_rate": 1e-3, "logging_steps": 1, "push_to_hub": True},
            **{"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "best"},
            **{"metric_for_best_model": "eval_loss", "load_best_model_at_end": True},
        )
        trainer.train(resume_from_checkpoint=checkpoint and str(folder / checkpoint))
        left = {path.name for path in folder.glob("*checkpoint-*")}
        lives.append(SimpleNamespace(trainer=trainer, calls=Noted.calls, left=left, folder=folder))
    return lives


def calls_of(life, name):
    return [(arguments, named) for called, arguments, named, _ in life.calls if called == name]


# What is overridden


def test_what_is_private_of_the_trainer_is_all_in_these_contracts():
    # Whatever is overridden more needs its own test below.
    assert {name for name in OVERRIDDEN if name.startswith("_")} == {
        *("_determine_best_metric", "_load_best_model", "_load_from_checkpoint"),
        *("_load_optimizer_and_scheduler", "_run_epoch"),
        *("_save", "_save_checkpoint", "_save_rng_state"),
    }


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_the_library_calls_what_we_override(run, name):
    assert any(calls_of(life, name) for life in run), changed(f"Trainer.{name}, uncalled")


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_an_override_takes_what_the_librarys_method_takes(name):
    theirs = inspect.signature(getattr(Seq2SeqTrainer, name)).parameters
    ours = inspect.signature(getattr(VaswaniTrainer, name)).parameters
    kinds = {parameter.kind for parameter in ours.values()}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return  # it hands on whatever comes
    taken, given = (
        [each.name for each in signature.values() if each.kind != inspect.Parameter.VAR_KEYWORD]
        for signature in (ours, theirs)
    )
    assert taken[: len(given)] == given, changed(f"Trainer.{name}")  # some versions give fewer


def test_a_run_that_is_over_makes_no_update_where_run_epoch_makes_none(run):
    # The library would make one before it asks.
    life = run[2]
    assert len(calls_of(life, "_run_epoch")) == 1, changed("Trainer._run_epoch")
    assert not calls_of(life, "training_step"), changed("Trainer._run_epoch")
    assert life.trainer.state.global_step == 3


def test_the_optimizer_is_loaded_once_it_has_its_schedule_and_before_updates(run):
    told = changed("Trainer._load_optimizer_and_scheduler")
    life = run[1]
    assert calls_of(life, "_load_optimizer_and_scheduler") == [
        ((str(life.folder / "checkpoint-1"),), {})
    ], told
    names = [name for name, *_ in life.calls]
    place = names.index("_load_optimizer_and_scheduler")
    assert names.index("create_scheduler") < place < names.index("training_step"), told


def test_the_answer_about_the_best_decides_what_save_strategy_best_saves(run):
    # The first is the best and the last is asked for by the clock; the second is neither.
    told = changed("Trainer._determine_best_metric")
    assert run[0].left == {"checkpoint-1", "checkpoint-3"}, told
    for arguments, named in calls_of(run[0], "_determine_best_metric"):
        assert (arguments, sorted(named)) == ((), ["metrics", "trial"]), told
        assert named["metrics"]["eval_loss"] == 1.0, told


def test_each_checkpoint_is_saved_by_its_one_method(run):
    told = changed("Trainer._save_checkpoint")
    steps = [step for name, *_, step in run[0].calls if name == "_save_checkpoint"]
    assert steps == [1, 3], told
    folders = [named or arguments for arguments, named in calls_of(run[0], "_save_rng_state")]
    unfinished = [(str(run[0].folder / f"unfinished-checkpoint-{step}"),) for step in steps]
    assert folders == unfinished, changed("Trainer._save_rng_state")


def test_what_is_written_of_the_model_is_by_its_one_method(run):
    told = changed("Trainer._save")
    folders = [Path(arguments[0]).name for arguments, _ in calls_of(run[0], "_save")]
    assert folders[:2] == ["unfinished-checkpoint-1", "unfinished-checkpoint-3"], told


# What is replaced altogether


SAVING = [name for name in dir(Seq2SeqTrainer) if name.startswith(("save_", "_save", "store_"))]


def saved_by(method, trainer, monkeypatch, folder):
    """The files and the state that a method leaves, and which of the trainer's methods it calls."""
    called, depth = [], []

    def note(name, original):
        def noted(*arguments, **named):
            if not depth:
                called.append((name, sorted(named)))
            depth.append(name)
            try:
                return original(*arguments, **named)
            finally:
                depth.pop()

        return noted

    with monkeypatch.context() as patch:
        for name in SAVING:
            if name != "_save_checkpoint":
                patch.setattr(trainer, name, note(name, getattr(trainer, name)))
        patch.setattr(trainer.args, "output_dir", str(folder))
        method(trainer, trainer.model, None)
    (checkpoint,) = folder.iterdir()
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    clock = state["stateful_callbacks"]["CheckpointClock"]["attributes"]
    for name in ("seconds_before", "processor_seconds_before"):
        clock.pop(name)
    return called, {path.name for path in checkpoint.iterdir()}, state, checkpoint


def test_a_checkpoint_has_what_the_librarys_own_has(run, tmp_path, monkeypatch):
    # Ours replaces the library's method, to write it whole or not at all.
    trainer = run[0].trainer
    trainer.args.push_to_hub = False
    found = []
    for name, kind in (("theirs", Seq2SeqTrainer), ("ours", VaswaniTrainer)):
        (tmp_path / name).mkdir()
        method = kind._save_checkpoint
        found.append(saved_by(method, trainer, monkeypatch, tmp_path / name))
    theirs, ours = found
    told = changed("Trainer._save_checkpoint")
    assert ours[0] == theirs[0], told
    assert ours[1] == theirs[1], told
    assert ours[2] == theirs[2], told
    both = [load_file(each[3] / "model.safetensors") for each in found]
    assert all(torch.equal(both[0][key], tensor) for key, tensor in both[1].items()), told


def test_a_repository_is_not_made_by_the_trainer(run):
    # Offline, the library's own would fail: it asks the Hub.
    assert calls_of(run[0], "init_hf_repo") == [((), {})], changed("Trainer.init_hf_repo")


# What is called, or set


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (Seq2SeqTrainer.save_model, {"output_dir", "_internal_call"}),
        (Seq2SeqTrainer._save_optimizer_and_scheduler, {"output_dir"}),
        (Seq2SeqTrainer._save_scaler, {"output_dir"}),
        (Seq2SeqTrainer.store_flos, set()),
        (Seq2SeqTrainer.compute_loss_context_manager, set()),
        (TrainerState.compute_steps, {"args", "max_steps"}),
        (
            rotate_checkpoints,
            {"output_dir", "save_total_limit", "best_model_checkpoint", "use_mtime"},
        ),
    ],
    ids=lambda each: getattr(each, "__qualname__", ""),
)
def test_what_we_call_takes_what_we_give(function, taken):
    named = inspect.signature(function).parameters
    assert taken <= named.keys(), changed(function.__qualname__)


def test_a_trainer_that_made_its_schedule_says_so(run, tmp_path, tokenizer, pairs):
    # `create_scheduler` sets it too, so that a second `train()` makes a new one.
    told = changed("Trainer._created_lr_scheduler")
    options = {"max_steps": 3, "lr_scheduler_type": "constant", "learning_rate": 1e-3}
    trainer = make_trainer(VaswaniTrainer, tmp_path, tokenizer, pairs, **options)
    assert vars(trainer).get("_created_lr_scheduler") is False, told
    trainer.create_optimizer_and_scheduler(3)  # by the library
    assert vars(trainer)["_created_lr_scheduler"] is True, told
    first, trainer = run[0].trainer.lr_scheduler, run[0].trainer
    trainer.args.save_strategy = "no"
    trainer.train()
    assert trainer.lr_scheduler is not first, told


def test_lambda_lr_works_rates_out_as_we_do_for_a_resumed_run():
    told = f"torch {torch.__version__} has changed LambdaLR: see VaswaniTrainer"
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = LambdaLR(optimizer, lambda done: 1 / (done + 1))
    for _ in range(3):
        optimizer.step()
        schedule.step()
    (factor,), (peak,) = schedule.lr_lambdas, schedule.base_lrs
    assert (peak, optimizer.param_groups[0]["initial_lr"]) == (2.0, 2.0), told
    assert schedule._last_lr == [peak * factor(schedule.last_epoch)] == [0.5], told
    schedule.base_lrs = [4.0]
    schedule._last_lr = [1.0]
    assert schedule.get_last_lr() == [1.0], told
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] == 4 / 5, told


class Batches(Sampler):
    """A sampler of batches that knows its epoch, without a `batch_size`, as ours is."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 4

    def __iter__(self):
        yield from ([self.epoch, place] for place in range(4))


def test_the_epoch_reaches_the_sampler_of_a_process_after_batches_are_skipped():
    # As a resumed run of two processes does.
    told = f"accelerate {accelerate.__version__} has changed BatchSamplerShard: see VaswaniTrainer"
    sampler = Batches()
    loader = prepare_data_loader(
        DataLoader(range(9), batch_sampler=sampler, collate_fn=list),
        **{"num_processes": 2, "process_index": 1, "put_on_device": False},
    )
    assert isinstance(loader.batch_sampler, BatchSamplerShard), told
    loader.batch_sampler.sampler = sampler  # as `get_train_dataloader` does
    rest = skip_first_batches(loader, 1)
    rest.set_epoch(3)
    assert sampler.epoch == 3, told
    assert list(rest) == [[3, 3]], told  # of its batches 1 and 3, the second


# Evaluation


def test_an_evaluation_is_logged_under_its_split_and_kept_as_a_value(tmp_path, tokenizer, pairs):
    trainer = make_trainer(VaswaniTrainer, tmp_path, tokenizer, pairs, evaluator=unchanging)
    heard = []
    trainer.on_evaluation = lambda *about: heard.append(about)
    metrics = trainer.evaluate(pairs, metric_key_prefix="test", num_beams=3)
    assert metrics["test_loss"] == 1.0
    assert trainer.state.log_history[-1]["test_loss_nats_per_token"] == 1.0
    assert trainer.last_evaluation.search == {"num_beams": 3}
    assert heard == [(trainer, trainer.last_evaluation)]
    trainer.evaluate()  # as in training
    assert (trainer.last_evaluation.split, trainer.last_evaluation.search) == ("eval", {})


def test_checkpoints_are_told_of_once_they_have_their_name(tmp_path, tokenizer, pairs):
    trainer = make_trainer(
        VaswaniTrainer,
        *(tmp_path, tokenizer, pairs),
        **{"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-3},
    )
    heard = []
    trainer.on_checkpoint = lambda told, path: heard.append(
        (told.state.global_step, path.name, path.is_dir())
    )
    trainer.train()
    assert heard == [(1, "checkpoint-1", True), (2, "checkpoint-2", True)]
