"""The whole of training/run.py on a few made-up pairs."""

import contextlib
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import sacrebleu
import torch
import yaml
from safetensors.torch import load_file
from tokenizers import Tokenizer

from tests.training.runs import results_of, run_here, warm_start
from tests.training.warm import together
from training.loop import callbacks
from training.loop.locking import LOCK
from training.loop.output_dir import WRITTEN_AT_END, WRITTEN_FIRST
from training.loop.trainer import VaswaniTrainer
from vaswani_hf import cli


REPOSITORY = Path(__file__).resolve().parents[2]
TINY = """\
extends: base
vocab_size: 300
d_model: 32
d_ff: 64
num_heads: 2
encoder_layers: 1
decoder_layers: 1
dropout: 0.1
source_tokens: 120
target_tokens: 120
max_steps: 24
warmup_steps: 10
learning_rate: 1.0e-3
save_strategy: steps
save_steps: 8
save_minutes: null
average_last: 3
eval_steps: 12
logging_steps: 6
num_beams: 2
compound_split_bleu: "none"
disable_tqdm: true
use_cpu: true
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Files of words and their reversed letters: train, validation, test."""
    folder = tmp_path_factory.mktemp("text")
    chooser = random.Random(0)
    words = ["".join(chooser.choices("abcde", k=chooser.randint(1, 4))) for _ in range(20)]
    for split, count in [("train", 200), ("validation", 17), ("test", 11)]:
        sources = [" ".join(chooser.choices(words, k=chooser.randint(1, 6))) for _ in range(count)]
        targets = [" ".join(word[::-1] for word in source.split()) for source in sources]
        (folder / f"{split}.en").write_text("\n".join(sources) + "\n")
        (folder / f"{split}.de").write_text("\n".join(targets) + "\n")
    (folder / "tiny.yaml").write_text(TINY)
    return folder


def arguments(text, output, *more):
    files = []
    for split in ("train", "validation", "test"):
        files += [f"--{split}_source", str(text / f"{split}.en")]
        files += [f"--{split}_target", str(text / f"{split}.de")]
    return [str(text / "tiny.yaml"), *files, "--output_dir", str(output), *more]


def run(command, check=True):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done


def train(text, output, *more, check=True):
    return run_here(*arguments(text, output, *more), status=0 if check else None)


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    """A run in a process of its own, as typed, and what it printed."""
    output = tmp_path_factory.mktemp("run") / "out"
    return output, run([sys.executable, "training/run.py", *arguments(text, output)])


@pytest.fixture(scope="module")
def translated(finished, text):
    """The lines that `vaswani-hf translate` prints for the test sentences."""
    command = ["translate", "--model", str(finished[0]), str(text / "test.en")]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as lines,
        contextlib.redirect_stdout(lines),
    ):
        assert cli.main(command) == 0
        lines.seek(0)
        return lines.read().splitlines()


def test_the_output_folder_holds_all_that_is_needed(finished):
    names = {path.name for path in finished[0].iterdir()}
    assert names >= {
        *("config.json", "model.safetensors", "generation_config.json", "config.yaml"),
        *("tokenizer.json", "tokenizer_config.json", "results.json", "README.md"),
        *("configuration_vaswani.py", "modeling_vaswani.py", "generation_vaswani.py"),
        *("beam_search_vaswani.py", "beam_cache_vaswani.py"),
        *("greedy_search_vaswani.py", "decoding_vaswani.py"),
        "layers_vaswani.py",
        "search_settings_vaswani.py",
        "loss_vaswani.py",
    }


def test_the_saved_model_searches_as_it_was_scored(finished):
    written = json.loads((finished[0] / "generation_config.json").read_text())
    chosen = yaml.safe_load((finished[0] / "config.yaml").read_text())["training"]
    for name in ("num_beams", "length_penalty", "length_penalty_type", "max_extra_tokens"):
        assert written[name] == chosen[name]
    assert written["length_penalty_type"] == "wu"


def test_the_saved_tokenizer_says_how_long_a_source_was_trained_on(finished, text):
    tokenizer = Tokenizer.from_file(str(finished[0] / "tokenizer.json"))
    lines = (text / "train.en").read_text().splitlines()
    written = json.loads((finished[0] / "tokenizer_config.json").read_text())
    assert written["model_max_length"] == max(len(tokenizer.encode(line).ids) for line in lines)


def test_a_run_that_diverges_ends_and_keeps_no_such_weights(text, tmp_path):
    output = tmp_path / "out"
    # The rate grows by 1e28 an update.
    rate = ("--learning_rate", "1e29", "--save_steps", "2", "--logging_steps", "50")
    done = train(text, output, *rate, check=False)
    assert done.returncode == 1
    message = done.stderr.strip().splitlines()[-1]
    assert message == (
        "training/run.py: training has diverged: at update 2 the loss or a weight is NaN or "
        "infinite. Restart with a learning_rate below 1e+29 or warmup_steps above 10."
    )
    assert "Traceback" not in done.stderr
    assert not list(output.glob("*checkpoint-*"))


def test_the_compound_split_score_stands_beside_the_usual_one(finished, text, translated):
    # Words without hyphens, spaces between all tokens: only the smoothing differs.
    scores = results_of(finished[0])["scores"]["test"]
    assert scores["compound_split_bleu_signature"].endswith("|compounds:split")
    references = (text / "test.de").read_text().splitlines()
    expected = sacrebleu.corpus_bleu(
        translated, [references], tokenize="none", smooth_method="none", force=True
    )
    assert scores["compound_split_bleu"] == pytest.approx(expected.score, abs=1e-6)


def test_results_say_how_the_figures_came_about(finished):
    results = results_of(finished[0])
    assert results["training"]["updates"] == 24
    assert results["data"]["pairs_read"] == 200
    assert results["averaged_checkpoints"] == ["checkpoint-8", "checkpoint-16", "checkpoint-24"]
    assert results["versions"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert results["wall_seconds"] > results["training"]["seconds"] > 0
    assert results["wall_seconds"] > results["training"]["elapsed_seconds"] > 0
    assert "tok:13a" in results["scores"]["test"]["bleu_signature"]
    assert results["scores"]["validation"]["sentences"] == 17


def test_the_resolved_recipe_is_written_down(finished):
    config = yaml.safe_load((finished[0] / "config.yaml").read_text())
    assert config["chosen"]["d_model"] == 32
    assert config["model"]["d_k"] == 16  # d_model / num_heads
    assert config["training"]["adam_beta2"] == 0.98


def test_the_saved_model_is_the_mean_of_the_checkpoints(finished):
    output = finished[0]
    saved = load_file(output / "model.safetensors")
    parts = [load_file(output / f"checkpoint-{step}" / "model.safetensors") for step in (8, 16, 24)]
    for name, tensor in saved.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(0).float()
        assert torch.equal(tensor, mean), name


def test_the_score_is_that_of_what_translate_prints(finished, text, translated):
    references = (text / "test.de").read_text().splitlines()
    expected = sacrebleu.corpus_bleu(translated, [references]).score
    scores = results_of(finished[0])["scores"]["test"]
    assert scores["bleu"] == pytest.approx(expected, abs=1e-6)
    expected = sacrebleu.corpus_chrf(translated, [references], word_order=2).score
    assert scores["chrf++"] == pytest.approx(expected, abs=1e-6)
    assert "|bs:1000|seed:12345|" in scores["chrf++_confidence"]["signature"]


def test_the_log_says_speed_rate_and_loss_with_their_units(finished):
    output, _ = finished
    state = json.loads((output / "checkpoint-24" / "trainer_state.json").read_text())
    first = state["log_history"][0]
    assert {"loss_nats_per_token", "target_tokens_per_second", "learning_rate"} <= first.keys()
    # Section 5.3 by hand, with a peak of 1e-3 at update 10.
    rates = {
        entry["step"]: entry["learning_rate"]
        for entry in state["log_history"]
        if "loss_nats_per_token" in entry
    }
    assert rates[6] == pytest.approx(1e-3 * 6 / 10)
    assert rates[18] == pytest.approx(1e-3 * (10 / 18) ** 0.5)
    scored = [entry for entry in state["log_history"] if "eval_bleu" in entry]
    assert [entry["step"] for entry in scored] == [12, 24]
    assert "eval_perplexity_per_token" in scored[0]


def test_perplexity_is_unsmoothed_and_per_token(finished, text):
    # The last checkpoint's validation loss again, sentence by sentence in plain PyTorch.
    from transformers import AutoTokenizer

    from vaswani_hf import VaswaniForConditionalGeneration

    output = finished[0]
    model = VaswaniForConditionalGeneration.from_pretrained(output).eval()
    tokenizer = AutoTokenizer.from_pretrained(output)
    nats = tokens = 0
    sides = [(text / f"validation.{side}").read_text().splitlines() for side in ("en", "de")]
    for source, target in zip(*sides, strict=True):
        batch = tokenizer(source, text_target=target, return_tensors="pt")
        with torch.no_grad():
            logits = model(**batch).logits[0]
        nats -= logits.log_softmax(-1).gather(1, batch["labels"][0][:, None]).sum().item()
        tokens += len(batch["labels"][0])
    expected = torch.tensor(nats / tokens).exp().item()
    scored = results_of(output)["scores"]["validation"]
    assert scored["perplexity_per_token"] == pytest.approx(expected, rel=1e-4)


def test_five_translations_are_shown(finished):
    assert finished[1].stdout.count("translation  ") == 5


def test_all_that_a_run_writes_is_known_to_be_its(finished):
    # Else a fresh start would not see it in a folder of somebody else's.
    names = {path.name for path in finished[0].iterdir()} - {LOCK}
    patterns = (*WRITTEN_FIRST, *WRITTEN_AT_END)
    assert all(any(fnmatchcase(name, each) for each in patterns) for name in names), names


def test_a_folder_of_others_is_refused_before_the_text_is_read(text, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    done = train(text, tmp_path, "--train_source", str(tmp_path / "none"), check=False)
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith(f"training/run.py: {tmp_path} has files that this run would replace:")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_the_command_that_is_shown_can_be_pasted(text, tmp_path):
    output = tmp_path / "my run's"
    done = train(text, output, "--max_steps", "1", "--average_last", "1")
    shown = done.stdout.strip().splitlines()[-1]
    assert shlex.split(shown) == ["vaswani-hf", "translate", "--model", str(output)]


def test_a_finished_folder_is_not_trained_over(finished, text):
    done = train(text, finished[0], check=False)
    assert done.returncode != 0
    assert "checkpoints of another run, up to checkpoint-24" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_resumed_run_ends_with_the_same_weights(finished, text, tmp_path):
    train(text, tmp_path, "--max_steps", "13", "--save_steps", "8")
    # Between checkpoints 8 and 13 the newest is torn, as by a kill.
    (tmp_path / "checkpoint-13" / "optimizer.pt").unlink()
    train(text, tmp_path, "--resume_from_checkpoint", "auto")
    expected = load_file(finished[0] / "checkpoint-24" / "model.safetensors")
    resumed = load_file(tmp_path / "checkpoint-24" / "model.safetensors")
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)


@pytest.fixture
def a_minute_each(monkeypatch):
    """A clock by which every update takes a minute, and nothing else takes any time."""
    begun, step = [0.0], VaswaniTrainer.training_step

    def minute(self, *given, **named):
        begun[0] += 60
        return step(self, *given, **named)

    monkeypatch.setattr(callbacks.time, "monotonic", lambda: begun[0])
    monkeypatch.setattr(VaswaniTrainer, "training_step", minute)


def test_time_ends_training_and_leaves_a_checkpoint(text, tmp_path, a_minute_each):
    train(text, tmp_path, "--max_steps", "100000", "--max_minutes", "3", "--save_strategy", "no")
    results = results_of(tmp_path)
    assert results["training"]["updates"] == 3
    assert results["averaged_checkpoints"] == ["checkpoint-3"]


def test_minutes_make_checkpoints(text, tmp_path, a_minute_each):
    options = ("--max_steps", "5", "--save_strategy", "no", "--save_minutes", "2")
    train(text, tmp_path, *options, "--average_last", "1")
    # Every second update, and the last one.
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {
        *("checkpoint-2", "checkpoint-4", "checkpoint-5")
    }


def test_two_processes_train_as_one(finished, text, tmp_path):
    argv = arguments(text, tmp_path)
    done = warm_start().run("training/run.py", *argv, environments=together(os.environ, 2))
    assert done.returncode == 0, done.stderr[-6000:]
    results = results_of(tmp_path)
    assert results["hardware"]["processes"] == 2
    assert results["training"]["updates"] == 24
    # Each sentence counts once, whatever the number of processes.
    assert results["scores"]["validation"]["sentences"] == 17
    one = results_of(finished[0])["scores"]["test"]
    assert results["scores"]["test"].keys() == one.keys()


def test_training_goes_on_from_a_trained_model(finished, text, tmp_path):
    start = ["--model_name_or_path", str(finished[0]), "--max_steps", "1", "--learning_rate", "0"]
    train(text, tmp_path, *start)
    scores = [results_of(path)["scores"]["test"] for path in (finished[0], tmp_path)]
    assert scores[0] == scores[1]  # a rate of 0 changes nothing


def test_a_misspelt_option_ends_in_one_line(text, tmp_path):
    done = train(text, tmp_path, "--warmup_step", "3", check=False)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith("unknown key 'warmup_step'; did you mean 'warmup_steps'?")
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A small model and its tokenizer in a folder, and a file of two long pairs and four short."""
    from vaswani_hf import VaswaniConfig, VaswaniForConditionalGeneration, train_tokenizer

    folder = tmp_path_factory.mktemp("untrained")
    pairs = [("ab cde " * 6, "edc ba " * 6), ("ba cde " * 6, "edc ab " * 6)]
    pairs += [(word, word[::-1]) for word in ("ab", "cd", "ea", "bd")]
    (folder / "pairs.tsv").write_text(
        "".join(f"{source.strip()}\t{target.strip()}\n" for source, target in pairs)
    )
    tokenizer = train_tokenizer([folder / "pairs.tsv"], 300, show_progress=False)
    tokenizer.save_pretrained(folder / "start")
    torch.manual_seed(0)
    config = VaswaniConfig(
        **{"vocab_size": len(tokenizer), "d_model": 32, "d_ff": 64, "num_heads": 2},
        **{"encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0, "label_smoothing": 0.1},
    )
    VaswaniForConditionalGeneration(config).save_pretrained(folder / "start")
    return folder


def after_one_update(folder, rate):
    """The weights of one step of gradient descent, each pair alone, and the longest side."""
    from transformers import AutoTokenizer

    from vaswani_hf import VaswaniForConditionalGeneration

    model = VaswaniForConditionalGeneration.from_pretrained(folder / "start").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "start")
    nats, tokens, lengths = 0.0, 0, []
    for line in (folder / "pairs.tsv").read_text().splitlines():
        source, target = line.split("\t")
        batch = tokenizer(source, text_target=target, return_tensors="pt")
        labels = batch.pop("labels")
        start = model.prepare_decoder_input_ids_from_labels(labels)
        log_probs = model(**batch, decoder_input_ids=start).logits[0].log_softmax(-1)
        # Section 5.4, written out: 0.1 / V on every piece and 0.9 more on the true one.
        wanted = torch.full_like(log_probs, 0.1 / log_probs.shape[-1])
        wanted[range(labels.numel()), labels[0]] += 0.9
        nats = nats - (wanted * log_probs).sum()
        tokens += labels.numel()
        lengths.append(max(batch["input_ids"].numel(), labels.numel()))
    (nats / tokens).backward()
    weights = {name: w.detach() - rate * w.grad for name, w in model.named_parameters()}
    # Two batches of two long pairs and of four short ones, whose target tokens differ in number.
    assert 2 * max(lengths[2:]) <= lengths[0] == lengths[1]
    return weights, lengths[0]


@pytest.mark.parametrize("spread", ["two processes", "two accumulated batches"])
def test_an_update_is_that_of_the_summed_loss_over_all_target_tokens(untrained, tmp_path, spread):
    expected, longest = after_one_update(untrained, rate=0.5)
    budget = str(2 * 2 * longest)  # two parts, of two long pairs each at most
    command = [
        *(str(tmp_path / "tiny.yaml"), "--output_dir", str(tmp_path / "out")),
        *("--train_file", str(untrained / "pairs.tsv"), "--eval_strategy", "no"),
        *("--model_name_or_path", str(untrained / "start"), "--dropout", "0"),
        *("--source_tokens", budget, "--target_tokens", budget, "--optim", "sgd"),
        *("--learning_rate", "0.5", "--lr_scheduler_type", "constant"),
        *("--max_steps", "1", "--save_steps", "1", "--average_last", "1"),
    ]
    (tmp_path / "tiny.yaml").write_text(TINY)
    if spread == "two processes":
        done = warm_start().run("training/run.py", *command, environments=together(os.environ, 2))
        assert done.returncode == 0, done.stderr[-6000:]
    else:
        run_here(*command, "--gradient_accumulation_steps", "2")
    saved = load_file(tmp_path / "out" / "checkpoint-1" / "model.safetensors")
    assert results_of(tmp_path / "out")["training"]["epochs"] == 1.0  # all pairs were in it
    for name, tensor in saved.items():
        # float32 sums in another order, times a rate of 0.5
        torch.testing.assert_close(tensor, expected[name], atol=1e-5, rtol=1e-5, msg=name)


def test_a_greedy_recipe_saves_a_config_that_loads(text, tmp_path):
    train(text, tmp_path / "out", "--num_beams", "1", "--max_steps", "8")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["num_beams"] == 1
    assert not {"early_stopping", "length_penalty"} & written.keys()
