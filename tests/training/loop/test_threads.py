"""The threads of a run: which are chosen, where that is written, and what a resumed run takes."""

import json
import logging
import shutil

import pytest
import torch
import yaml

from tests.training.runs import RECIPE, results_of, run_here, write_pairs
from training.loop import threads
from training.loop.resumption import SETTINGS, Settings
from training.loop.threads import (
    choose_threads,
    note_products,
    take_threads,
    threads_of_checkpoint,
)
from training.settings.reading import parse_arguments
from vaswani_hf import VaswaniConfig, layers_vaswani


@pytest.fixture(autouse=True)
def one_thread_afterwards():
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("given", "of_environment", "before", "paying", "cores", "chosen", "reason"),
    [
        (3, 2, 4, 8, 8, 3, "`threads`"),
        (None, 2, 4, 8, 8, 2, "OMP_NUM_THREADS"),
        (None, None, 4, 8, 8, 4, "as before"),
        (None, None, 4, 2, 2, 2, "one each"),  # the cores are fewer than before
        (None, None, None, 2, 8, 2, "would not pay"),
        (None, None, None, 8, 8, 8, "one each"),
    ],
)
def test_threads_are_the_users_then_the_checkpoints_then_those_that_pay(
    given, of_environment, before, paying, cores, chosen, reason
):
    number, why = choose_threads(given, of_environment, before, paying, cores)
    assert number == chosen and reason in why


@pytest.fixture
def training(tmp_path, monkeypatch):
    """The settings of a run by the recipe of the tests, on a machine of eight cores."""
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    return parse_arguments([str(tmp_path / "tiny.yaml"), "--train_file", "a.tsv"]).training


def test_a_small_model_takes_one_thread_and_a_large_one_all_cores(training, caplog):
    with caplog.at_level(logging.INFO, logger="training"):
        take_threads(training, VaswaniConfig(d_model=32, num_heads=2), None, {})
    assert training.threads == torch.get_num_threads() == 1
    assert "CPU threads of a process: 1; cores for it: 8 (more would not pay" in caplog.text
    training.threads, training.target_tokens = None, 50_000
    take_threads(training, VaswaniConfig(), None, {})
    assert training.threads == torch.get_num_threads() == 8


def test_processes_share_the_cores(training):
    training.target_tokens = 50_000
    take_threads(training, VaswaniConfig(), None, {"LOCAL_WORLD_SIZE": "2"})
    assert training.threads == 4


def test_a_checkpoint_without_settings_says_nothing_of_threads(tmp_path):
    assert threads_of_checkpoint(tmp_path) is None
    (tmp_path / SETTINGS).write_text(json.dumps({"training": {}}))
    assert threads_of_checkpoint(tmp_path) is None


def test_other_threads_than_the_checkpoints_are_warned_of(training, tmp_path, caplog):
    (tmp_path / SETTINGS).write_text(json.dumps({"training": {"threads": 16}}))
    take_threads(training, VaswaniConfig(d_model=32, num_heads=2), tmp_path, {})
    assert f"{tmp_path.name} was computed by 16 threads and is resumed by 1" in caplog.text
    caplog.clear()
    (tmp_path / SETTINGS).write_text(json.dumps({"training": {"threads": 8}}))
    training.threads = None
    take_threads(training, VaswaniConfig(d_model=32, num_heads=2), tmp_path, {})
    assert training.threads == 8
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_resumed_run_takes_the_threads_that_its_folder_names(tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    write_pairs(tmp_path / "train.tsv", 90)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    command = [str(tmp_path / "tiny.yaml"), "--train_file", str(tmp_path / "train.tsv")]
    first = tmp_path / "first"
    run_here(*command, "--output_dir", str(first), "--max_steps", "1", "--threads", "2")
    assert yaml.safe_load((first / "config.yaml").read_text())["training"]["threads"] == 2
    assert threads_of_checkpoint(first / "checkpoint-1") == 2

    shutil.copytree(first, tmp_path / "same")
    resume = ["--max_steps", "2", "--resume_from_checkpoint", "auto", "--output_dir"]
    done = run_here(*command, *resume, str(tmp_path / "same"))
    assert "CPU threads of a process: 2; cores for it: 8 (as many as before)." in done.stderr
    assert results_of(tmp_path / "same")["hardware"]["torch_threads"] == 2
    assert threads_of_checkpoint(tmp_path / "same" / "checkpoint-2") == 2

    done = run_here(*command, *resume, str(first), "--threads", "1")
    assert "threads=1 (before: 2)" in done.stderr
    assert "not be bit-identical" in done.stderr
    assert threads_of_checkpoint(first / "checkpoint-2") == 1


def test_a_checkpoint_names_the_library_of_products_and_another_one_is_said(
    tmp_path, training, caplog, monkeypatch
):
    arguments = parse_arguments([str(tmp_path / "tiny.yaml"), "--train_file", "a.tsv"])
    settings = Settings(arguments)
    note_products(training, settings, None)
    assert settings.current["training"]["products"] == layers_vaswani.PRODUCTS
    (tmp_path / SETTINGS).write_text(json.dumps(settings.current))
    with caplog.at_level(logging.WARNING, logger="training"):
        note_products(training, settings, tmp_path)
        assert not caplog.text
        monkeypatch.setattr(layers_vaswani, "PRODUCTS", "another")
        note_products(training, settings, tmp_path)
    assert "here they are by another" in caplog.text
    assert "not be bit-identical" in caplog.text
    assert settings.current["training"]["products"] == "another"
