"""Whatever the text and the settings: training/run.py ends with a model, or with one line."""

import contextlib
import faulthandler
import gzip
import json
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from training.loop.checkpoints import checkpoints, find_damage
from training.run import main


TINY = """\
extends: base
vocab_size: 300
d_model: 16
d_ff: 16
num_heads: 2
encoder_layers: 1
decoder_layers: 1
max_steps: 2
warmup_steps: 10
save_minutes: null
average_last: 1
eval_strategy: steps
eval_steps: 1
max_extra_tokens: 3
generation_max_length: 8
num_beams: 2
disable_tqdm: true
use_cpu: true
"""
HANGS_AFTER_SECONDS = 100  # an example takes less than one; a busy machine is not a fault

# Text

WORDS = st.lists(st.text("abcde", min_size=1, max_size=4), min_size=1, max_size=6).map(" ".join)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ODD_TEXT = st.sampled_from(
    [
        *("", " ", "     ", "\t", "a\tb", "\r", "a\rb", "\x00", "\x1b[31m", "\x85", "\xa0", "a\nb"),
        *("\ufeff", "\ufeffa", "\u2028", "\u2029", "\u2581", "a\u2581b", "\u0301", "\ufffd"),
        *("</s>", "<pad>", "<unk>", "a</s>b", "@@ a", "a@@", "a@@ b", "{}", '"', "'", "\\", "null"),
        *("\U0001f3f3\ufe0f\u200d\U0001f308", "\u202eabc", "ab" * 400, "a b " * 400, "\U0010ffff"),
    ]
)
SENTENCES = st.one_of(WORDS, WORDS, WORDS, ANY_TEXT, ODD_TEXT)
ODD_PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), max_size=8)
FORMATS = st.sampled_from(["two files", "tsv", "jsonl"])
DAMAGES = st.sampled_from(
    [
        *("missing", "a folder", "empty", "one line short", "no gzip", "cut gzip", "not UTF-8"),
        *("no last newline", "BOM", "a NUL in front", "JSON of another kind"),
    ]
)


def one_in(number: int) -> st.SearchStrategy[bool]:
    return st.integers(1, number).map(lambda drawn: drawn == number)


@st.composite
def sets_of_pairs(draw: st.DrawFn) -> dict:
    """The pairs of a split, how its files look, and what is wrong with them."""
    plain = plain_pairs(draw(st.integers(0, 42)), seed=draw(st.integers(0, 9)))
    return {
        "pairs": [] if draw(one_in(30)) else plain + draw(ODD_PAIRS),
        "format": draw(FORMATS),
        "is_gzip": draw(one_in(4)),
        "damage": draw(DAMAGES) if draw(one_in(10)) else None,
    }


def plain_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Words and their reversed letters; drawn one by one they would take most of the time."""
    chooser = random.Random(seed)
    words = ["".join(chooser.choices("abcdefgh", k=chooser.randint(1, 5))) for _ in range(30)]
    sources = [chooser.choices(words, k=chooser.randint(1, 8)) for _ in range(count)]
    return [(" ".join(source), " ".join(word[::-1] for word in source)) for source in sources]


def write_set(folder: Path, split: str, text: dict) -> dict[str, object]:
    """Write a split; returns the settings that name its files."""
    pairs, kind = text["pairs"], text["format"]
    if kind == "two files":
        sides = {
            side: [sentence.replace("\n", " ") for sentence in sentences]
            for side, sentences in zip(
                ("source", "target"), zip(*pairs, strict=True) if pairs else ([], []), strict=True
            )
        }
    elif kind == "tsv":
        clean = [[side.replace("\n", " ").replace("\t", " ") for side in pair] for pair in pairs]
        sides = {"file": ["\t".join(pair) for pair in clean]}
    else:
        rows = [dict(zip(("source", "target"), pair, strict=True)) for pair in pairs]
        sides = {"file": [json.dumps(row, ensure_ascii=len(pairs) % 2 == 0) for row in rows]}
    chosen: dict[str, object] = {}
    for place, (side, lines) in enumerate(sides.items()):
        damage = text["damage"] if place == 0 else None
        name = f"{split}.{side}{'' if kind == 'two files' else '.' + kind}"
        path = folder / (name + (".gz" if text["is_gzip"] or "gzip" in str(damage) else ""))
        chosen[f"{split}_{side}"] = path
        if damage == "one line short":
            lines = lines[:-1]
        elif damage == "JSON of another kind":
            lines = [*lines, "null", "[1]", '{"source": 1, "target": null}', '{"source": "a"}']
        content = "".join(f"{line}\n" for line in lines).encode()
        if damage == "no last newline":
            content = content[:-1]
        elif damage == "BOM":
            content = b"\xef\xbb\xbf" + content
        elif damage == "a NUL in front":
            content = b"\0" + content
        elif damage == "not UTF-8":
            content += b"caf\xe9\tcaf\xe9\n"
        elif damage == "empty":
            content = b""
        if path.suffix == ".gz" and damage != "no gzip":
            content = gzip.compress(content)
        if damage == "cut gzip":
            content = content[: len(content) // 2]
        if damage == "a folder":
            path.mkdir()
        elif damage != "missing":
            path.write_bytes(content)
    return chosen


# Settings

BUDGETS = [1, 2, 3, 7, 20, 60, 240, 1000, 25000]
RATES = [0, 0.1, 0.9, 1]
YES_OR_NO = ["true", "false"]
# Any of them may be chosen by somebody who knows what it does.
PLAUSIBLE = {
    "source_tokens": BUDGETS,
    "target_tokens": BUDGETS,
    "device_tokens": BUDGETS,
    "eval_batch_tokens": BUDGETS,
    "gradient_accumulation_steps": [1, 2, 3, 50],
    "max_padding": [0, 0.01, 0.2, 1],
    "pad_to_multiple_of": [1, 2, 8, 64],
    "max_length": [1, 2, 5, 20, 256],
    "max_length_ratio": [1, 1.5, 9],
    "vocab_size": [1, 5, 100, 258, 259, 260, 261, 262, 300, 5000],
    "d_model": [1, 2, 7, 8, 16, 18],
    "d_ff": [1, 7, 32],
    "num_heads": [1, 2, 3, 4, 16],
    "d_k": [1, 3, 8],
    "d_v": [1, 3, 8],
    "encoder_layers": [1, 2],
    "decoder_layers": [1, 2],
    "dropout": RATES,
    "attention_dropout": RATES,
    "activation_dropout": RATES,
    "activation_function": ["relu", "gelu", "silu", "swish"],
    "label_smoothing": RATES,
    "position_encoding": ["sinusoidal", "learned"],
    "max_position_embeddings": [1, 2, 5, 20, 1024],
    "share_embeddings": YES_OR_NO,
    "tie_word_embeddings": YES_OR_NO,
    "attention_bias": YES_OR_NO,
    "output_bias": YES_OR_NO,
    "final_norm": YES_OR_NO,
    "scale_embedding": YES_OR_NO,
    "split_digits": YES_OR_NO,
    "segmented": YES_OR_NO,
    "streaming": YES_OR_NO,
    "shuffle_buffer_pairs": [1, 2, 30],
    "tokenizer_sample_pairs": [1, 2, 100],
    "drop_copies": YES_OR_NO,
    "drop_duplicates": YES_OR_NO,
    "drop_undecodable": YES_OR_NO,
    "max_steps": [1, 2, 3],
    "num_train_epochs": [0.5, 1, 2],
    "learning_rate": [0, 1e-3, 10, 1e30],
    "warmup_steps": [0, 0.5, 1, 4000],
    "lr_scheduler_type": ["inverse_sqrt", "linear", "cosine", "constant", "polynomial"],
    "optim": ["adamw_torch", "sgd", "adafactor", "adamw_torch_fused"],
    "weight_decay": [0, 0.1],
    "max_grad_norm": [0, 1],
    "bf16": YES_OR_NO,
    "gradient_checkpointing": YES_OR_NO,
    "logging_strategy": ["no", "steps", "epoch"],
    "logging_steps": [0.5, 1, 2],
    "logging_first_step": YES_OR_NO,
    "eval_strategy": ["no", "steps", "epoch"],
    "eval_steps": [0.5, 1, 2],
    "eval_delay": [1],
    "eval_on_start": YES_OR_NO,
    "predict_with_generate": YES_OR_NO,
    "prediction_loss_only": YES_OR_NO,
    "save_strategy": ["no", "steps", "epoch", "best"],
    "save_steps": [0.5, 1, 2],
    "save_minutes": [1e-6, 10],
    "max_minutes": [1e-6, 10],
    "save_total_limit": [1, 2, 5],
    "average_last": [1, 2, 5],
    "load_best_model_at_end": YES_OR_NO,
    "metric_for_best_model": ["bleu", "eval_bleu", "loss", "exact_match"],
    "early_stopping_patience": [1, 2],
    "num_beams": [1, 2, 5, 40],
    "generation_num_beams": [1, 3],
    "generation_max_length": [1, 2, 10],
    "length_penalty": [0, 0.6, 2, -1],
    "length_penalty_type": ["wu", "power"],
    "max_extra_tokens": [0, 1, 5],
    "bleu_tokenize": ["13a", "none", "intl", "char", "zh"],
    "bleu_lowercase": YES_OR_NO,
    "compound_split_bleu": ["none", "moses-de"],
    "dry_run": YES_OR_NO,
    "dry_run_updates": [0, 1],
    "seed": [0, 2**32 - 1],
    "data_seed": [0, 7],
    "ignore_data_skip": YES_OR_NO,
    "source_language": ["en", "x y"],
    "target_language": ["de", "\u00e4\u00f6"],
    "license": ["mit", "none of them"],
    "run_name": ["a name"],
    "report_to": ["none", "tensorboard"],
    "dataset": ["none", "demo"],
    "source_column": ["source", "en"],
}
# What nobody means: tried on every field whose size costs neither memory nor hours.
NONSENSE = ["-1", "0", "1.5", "1e9", "1000000000", "-1e30", "nan", "inf", "", "abc", "\x00", "{}"]
TOO_COSTLY = {"max_steps", "num_train_epochs", "dry_run_updates", "shuffle_buffer_pairs"}
TOO_COSTLY |= {"d_model", "d_ff", "d_k", "d_v", "num_heads", "encoder_layers", "decoder_layers"}
TOO_COSTLY |= {"max_position_embeddings", "num_beams", "generation_num_beams", "max_extra_tokens"}
TOO_COSTLY |= {"generation_max_length", "dataset", "vocab_size", "eval_batch_tokens"}
WILD = {name: NONSENSE for name in PLAUSIBLE if name not in TOO_COSTLY}
WILD |= {name: ["-5", "0", "1.5", "nan", "abc", ""] for name in TOO_COSTLY - {"max_steps"}}
WILD |= {
    "max_steps": ["0", "-5", "1.5", "abc"],
    "label_smoothing_factor": ["0.1"],
    "dataloader_drop_last": ["true"],
    "adam_beta1": ["-1", "1", "2", "nan"],
    "adam_epsilon": ["-1", "0", "inf"],
    "neftune_noise_alpha": ["5", "-1"],
    "fp16": ["true"],
    "tf32": ["true"],
    "torch_empty_cache_steps": ["1", "0"],
    "use_liger_kernel": ["true"],
    "full_determinism": ["true"],
    "include_num_input_tokens_seen": ["all", "non_padding", "abc"],
    "remove_unused_columns": ["false"],
    "label_names": ["x"],
    "auto_find_batch_size": ["true"],
    "dataloader_num_workers": ["-1", "abc"],
    "dataloader_prefetch_factor": ["2"],
    "dataloader_persistent_workers": ["true"],
    "do_train": ["false"],
    "tokenizer": ["no/such/folder", ""],
    "model_name_or_path": ["no/such/folder", "/"],
    "resume_from_checkpoint": ["auto", "no/such/folder", "/", ""],
    "corpora": ["{}", "abc", '{"name": "a", "weight": -1}', '{"name": "a", "train_file": "b.tsv"}'],
    "generation_config": ["abc"],
    "lr_scheduler_kwargs": ['{"a": 1}', "abc"],
    "optim_args": ["a=1", "abc"],
    "accelerator_config": ['{"split_batches": true}', "abc"],
    "deepspeed": ["abc.json"],
    "fsdp": ["full_shard"],
    "debug": ["underflow_overflow", "abc"],
    "no_such_field": ["1"],
    "max_step": ["1"],
}


@st.composite
def settings_of(draw: st.DrawFn, least: int, most: int, wildness: int) -> dict[str, object]:
    """So many plausible settings; one in `wildness` times one that is not."""
    names = draw(
        st.lists(st.sampled_from(sorted(PLAUSIBLE)), unique=True, min_size=least, max_size=most)
    )
    chosen = {name: draw(st.sampled_from(PLAUSIBLE[name])) for name in names}
    if draw(one_in(wildness)):
        name = draw(st.sampled_from(sorted(WILD)))
        chosen[name] = draw(st.sampled_from(WILD[name]))
    return chosen


@st.composite
def runs(draw: st.DrawFn) -> dict:
    """Text, settings, and maybe a second start in the same folder."""
    return {
        "train": draw(sets_of_pairs()),
        **{
            split: None if draw(one_in(3)) else draw(sets_of_pairs())
            for split in ("validation", "test")
        },
        "settings": draw(settings_of(least=2, most=7, wildness=5)),
        "starts_from": draw(st.sampled_from([None, None, None, None, "model", "tokenizer"])),
        "again": draw(settings_of(least=0, most=2, wildness=9)) if draw(one_in(3)) else None,
        "resumes": draw(st.booleans()),
        "goes_on": draw(st.booleans()),
    }


# Running them


class Hang(BaseException):
    """Not an `Exception`, so that nothing on the way catches it."""


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Raise where the block does not end at all; show where it stands if even that fails."""

    def ring(number, frame):
        raise Hang(f"no end after {HANGS_AFTER_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANGS_AFTER_SECONDS)
    faulthandler.dump_traceback_later(2 * HANGS_AFTER_SECONDS, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def start(folder: Path, chosen: dict[str, object]) -> str | None:
    """Run training/run.py by a folder's recipe; returns its line of error, or `None` for success.

    Everything that a run changes in the process is put back.
    """
    options = [f"--{name}={value}" for name, value in chosen.items()]
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        with watched():
            main([str(folder / "tiny.yaml"), *options])
    except SystemExit as error:
        message = error.code
        assert isinstance(message, str), f"status {message!r} without a line of error"
        assert message.startswith("training/run.py: "), message
        assert len(message.strip().splitlines()) == 1, message
        assert message.strip() != "training/run.py:", message
        return message
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        torch.use_deterministic_algorithms(deterministic)
    return None


def check_folder(output: Path, is_finished: bool) -> None:
    """Checkpoints are whole; a model that is there loads and answers."""
    for folder in checkpoints(output):
        assert find_damage(folder) is None
    if not is_finished and not (output / "config.json").exists():
        assert not (output / "model.safetensors").exists()
        return
    model = AutoModelForSeq2SeqLM.from_pretrained(output).eval()
    tokenizer = AutoTokenizer.from_pretrained(output)
    batch = tokenizer(["a"], return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=torch.tensor([[tokenizer.pad_token_id]])).logits
    assert logits.isfinite().all()


def run_example(folder: Path, example: dict, trained: Path) -> list[str | None]:
    """Run an example in an empty folder, and check what it leaves; returns its lines of error."""
    (folder / "tiny.yaml").write_text(TINY)
    output = folder / "out"
    chosen = {"output_dir": output, **example["settings"]}
    for split in ("train", "validation", "test"):
        if example[split] is not None:
            chosen |= write_set(folder, split, example[split])
    if example["starts_from"] == "model":
        chosen.setdefault("model_name_or_path", trained)
    elif example["starts_from"] == "tokenizer":
        chosen.setdefault("tokenizer", trained)
    is_dry = chosen.get("dry_run") == "true"
    errors = [start(folder, chosen)]
    if is_dry:
        assert not output.exists()
    else:
        check_folder(output, is_finished=errors[-1] is None)
    if example["again"] is not None and not is_dry:
        if example["resumes"]:
            chosen["resume_from_checkpoint"] = "auto"
        if example["goes_on"]:
            chosen["max_steps"] = 4
        errors.append(start(folder, chosen | {**example["again"], "dry_run": "false"}))
        check_folder(output, is_finished=None in errors)
    return errors


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a tiny model, for runs that go on from one."""
    return train_tiny(tmp_path_factory.mktemp("trained"))


def train_tiny(folder: Path) -> Path:
    text = {"pairs": plain_pairs(40, seed=0), "format": "tsv", "is_gzip": False, "damage": None}
    (folder / "tiny.yaml").write_text(TINY)
    chosen = write_set(folder, "train", text)
    assert start(folder, {**chosen, "output_dir": folder / "out"}) is None
    return folder / "out"


def try_out(example: dict, trained: Path) -> list[str | None]:
    folder = Path(tempfile.mkdtemp(prefix="vaswani_hf_fuzz_"))
    try:
        return run_example(folder, example, trained)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


RANDOM = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@given(runs())
@settings(max_examples=24, derandomize=True, **RANDOM)
def test_a_run_ends_with_a_model_or_with_one_line(trained, example):
    try_out(example, trained)


@pytest.mark.slow
@given(runs())
@settings(max_examples=1500, **RANDOM)
def test_many_runs_end_with_a_model_or_with_one_line(trained, example):
    try_out(example, trained)
