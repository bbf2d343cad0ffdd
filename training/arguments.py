# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a training run is told: defaults, then the recipes in their order, then the command line."""

import dataclasses
import difflib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from transformers import HfArgumentParser, Seq2SeqTrainingArguments

from vaswani_hf import VaswaniConfig
from vaswani_hf.generation_vaswani import POWER, WU

from .metrics import preparation
from .watching import check_best, check_reports, choose_metric


RECIPES = Path(__file__).parent / "recipes"
EXTENDS = "extends"  # the recipe that another one builds on
NO_DATASET = "none"  # on the command line, where there is no null

# Fields of the model that follow from the tokenizer or from the run, and are not to be chosen.
_NOT_CHOSEN = {"is_encoder_decoder", "use_cache", "target_vocab_size"} | {
    f"{token}_token_id" for token in ("pad", "eos", "bos", "decoder_start")
}

# The library counts batches in sentences; section 5.1 counts them in tokens.
_REPLACED = {
    "per_device_train_batch_size": "source_tokens and target_tokens",
    "per_device_eval_batch_size": "eval_batch_tokens",
    "auto_find_batch_size": "source_tokens and target_tokens",
    "train_sampling_strategy": "source_tokens and target_tokens",
}

ModelArguments = dataclasses.make_dataclass(
    "ModelArguments",
    [
        # The library's parser takes one type a field, and reads a whole number as a float too.
        (
            name,
            (float if kind == float | int else kind) | None,
            field(default=None, metadata={"help": f"VaswaniConfig.{name}"}),
        )
        for name, kind in VaswaniConfig.__annotations__.items()
        if name not in _NOT_CHOSEN
    ],
)


@dataclass
class DataArguments:
    """Where the text comes from, and what of it is used."""

    dataset: str | None = field(
        default=None,
        metadata={
            "help": "dataset id on the Hub, a dataset folder, or `demo`; `none` for files alone"
        },
    )
    dataset_config: str | None = field(default=None, metadata={"help": "its configuration"})
    train_split: str = field(default="train", metadata={"help": "name of its training split"})
    validation_split: str = field(default="validation", metadata={"help": "likewise"})
    test_split: str = field(default="test", metadata={"help": "likewise"})
    source_column: str = field(
        default="source", metadata={"help": "column or JSON key of the source; or a language code"}
    )
    target_column: str = field(
        default="target", metadata={"help": "column or JSON key of the target; or a language code"}
    )
    source_language: str | None = field(
        default=None, metadata={"help": "language code for the model card, such as `en`"}
    )
    target_language: str | None = field(default=None, metadata={"help": "likewise, such as `de`"})
    train_source: list[str] = field(
        default_factory=list, metadata={"help": "source sides, a sentence a line, plain or .gz"}
    )
    train_target: list[str] = field(
        default_factory=list, metadata={"help": "target sides, in the same order"}
    )
    train_file: list[str] = field(
        default_factory=list, metadata={"help": "both sides in one: .tsv or .jsonl, plain or .gz"}
    )
    validation_source: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    validation_target: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    validation_file: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    test_source: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    test_target: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    test_file: list[str] = field(default_factory=list, metadata={"help": "likewise"})
    split_digits: bool = field(
        default=False, metadata={"help": "the learned vocabulary has every digit on its own"}
    )
    segmented: bool = field(
        default=False, metadata={"help": "the text is cut by subword-nmt already (`@@ `)"}
    )
    tokenizer: str | None = field(
        default=None, metadata={"help": "tokenizer to use, a folder or Hub id; else one is learned"}
    )
    max_length: int = field(
        default=256, metadata={"help": "longest training sentence, in tokens with `</s>`"}
    )
    max_length_ratio: float | None = field(
        default=None,
        metadata={
            "help": "drop training pairs whose longer side has more than so many times the "
            "shorter's tokens"
        },
    )
    drop_copies: bool = field(
        default=False, metadata={"help": "drop training pairs whose target is their source"}
    )
    drop_duplicates: bool = field(
        default=False, metadata={"help": "drop training pairs that occur again, both sides alike"}
    )
    drop_undecodable: bool = field(
        default=False,
        metadata={"help": "drop and count lines that are not UTF-8; else they are an error"},
    )
    corpora: list[str] = field(
        default_factory=list,
        metadata={
            "help": "several training corpora: mappings with `name`, `weight` and where the text "
            "is (dataset, train_source and train_target, or train_file); on the command line JSON"
        },
    )
    streaming: bool = field(
        default=False,
        metadata={"help": "read and encode the training text while training; needs max_steps"},
    )
    shuffle_buffer_pairs: int = field(
        default=50000,
        metadata={
            "help": "when streaming, pairs that a process reads ahead, sorts by length and "
            "batches, in random order"
        },
    )
    tokenizer_sample_pairs: int | None = field(
        default=None,
        metadata={
            "help": "pairs that the vocabulary is learned from; all unless given, and the first "
            "1,000,000 when streaming"
        },
    )
    license: str | None = field(
        default=None, metadata={"help": "license of the trained model, for its card"}
    )

    def __post_init__(self) -> None:
        if self.dataset == NO_DATASET:
            self.dataset = None
        _require_at_least_one("shuffle_buffer_pairs", self.shuffle_buffer_pairs)
        if self.tokenizer_sample_pairs is not None:
            _require_at_least_one("tokenizer_sample_pairs", self.tokenizer_sample_pairs)
        ratio = self.max_length_ratio
        if ratio is not None and not ratio >= 1:
            raise ValueError(f"max_length_ratio must be at least 1, got max_length_ratio={ratio}.")


@dataclass
class VaswaniTrainingArguments(Seq2SeqTrainingArguments):
    """The library's training arguments, and those of sections 5 and 6 that it lacks."""

    output_dir: str = field(
        default="", metadata={"help": "folder of the run; `runs/RECIPE` unless given"}
    )
    learning_rate: float | None = field(
        default=None,
        metadata={"help": "highest learning rate; (d_model warmup_steps)^-0.5 unless given"},
    )
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "trained model to go on from, with its tokenizer"}
    )
    source_tokens: int = field(
        default=25000,
        metadata={"help": "padded source tokens of an update, over all processes, at most"},
    )
    target_tokens: int = field(
        default=25000,
        metadata={"help": "padded target tokens of an update, over all processes, at most"},
    )
    device_tokens: int | None = field(
        default=None,
        metadata={
            "help": "padded tokens a side that a device can hold at once; batches are accumulated "
            "until an update has its tokens. No limit unless given"
        },
    )
    eval_batch_tokens: int = field(
        default=4096, metadata={"help": "padded tokens of an evaluation batch, a side, at most"}
    )
    pad_to_multiple_of: int | None = field(
        default=None,
        metadata={
            "help": "pad the lengths of training batches to multiples of this, and the batches to "
            "full size, so that they have few different shapes (for torch_compile)"
        },
    )
    max_padding: float = field(
        default=0.03,
        metadata={
            "help": "share of padding in training batches above which they are cut somewhat "
            "smaller; 1 for batches as full as can be, as they are with pad_to_multiple_of"
        },
    )
    save_minutes: float | None = field(
        default=None, metadata={"help": "minutes between two checkpoints, beside save_steps"}
    )
    max_minutes: float | None = field(
        default=None,
        metadata={
            "help": "minutes after which training ends, if max_steps is not first; those before a "
            "resumption count"
        },
    )
    hub_strategy: str = field(
        default="end",
        metadata={
            "help": "with push_to_hub: `end` pushes the averaged model alone, `every_save` also "
            "each checkpoint's on the way"
        },
    )
    run_name: str | None = field(
        default=None,
        metadata={"help": "name of the run in trackio; output_dir unless given"},
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={
            "help": "evaluations without a new best metric_for_best_model, BLEU unless given, "
            "after which training ends"
        },
    )
    # The library's parser wants `None` in the second place.
    trackio_static_space_id: str | None | Literal[False] = field(  # noqa: RUF036
        default=False,
        metadata={
            "help": "Space of the Hub that shows trackio's curves after a push to the Hub; none is "
            "made unless it is named here"
        },
    )
    logging_nan_inf_filter: bool = field(
        default=False,
        metadata={
            "help": "leave losses that are not numbers out of the logged mean, for which every "
            "update waits for the device"
        },
    )
    average_last: int = field(
        default=5, metadata={"help": "how many of the last checkpoints are averaged; 1 for none"}
    )
    num_beams: int = field(default=4, metadata={"help": "beam width of the final evaluation"})
    length_penalty: float = field(
        default=0.6, metadata={"help": "length penalty of the final evaluation, alpha"}
    )
    length_penalty_type: str = field(
        default="wu", metadata={"help": "`wu`: ((5 + n) / 6)^alpha; `power`: n^alpha"}
    )
    max_extra_tokens: int = field(
        default=50, metadata={"help": "tokens a translation may have more than its source"}
    )
    bleu_tokenize: str = field(
        default="13a", metadata={"help": "sacrebleu's tokenizer; `none` for tokenised text"}
    )
    bleu_lowercase: bool = field(default=False, metadata={"help": "BLEU of lower-cased text"})
    compound_split_bleu: str | None = field(
        default=None,
        metadata={
            "help": "score also as the paper's authors did, with this tokenizer: `none` for "
            "tokenised text, or `moses-de`"
        },
    )
    dry_run: bool = field(
        default=False, metadata={"help": "show what the run would take, and train nothing"}
    )
    dry_run_updates: int = field(
        default=20, metadata={"help": "updates that a dry run measures; 0 for none"}
    )

    def __post_init__(self) -> None:
        choose_metric(self)
        super().__post_init__()
        check_best(self)
        check_reports(self)
        # Nameless, a killed run would go on as another one in trackio, and its scores as a third.
        self.run_name = self.run_name or self.output_dir
        # The parser makes text of it, and the library a Space of that name.
        if str(self.trackio_static_space_id).lower() in ("false", "no", "none"):
            self.trackio_static_space_id = False
        for name in ("source_tokens", "target_tokens", "eval_batch_tokens", "average_last"):
            _require_at_least_one(name, getattr(self, name))
        _require_at_least_one("num_beams", self.num_beams)
        if self.pad_to_multiple_of is not None:
            _require_at_least_one("pad_to_multiple_of", self.pad_to_multiple_of)
        if not 0 <= self.max_padding <= 1:
            raise ValueError(f"max_padding must lie in [0, 1], got max_padding={self.max_padding}.")
        if self.fp16 and self.device.type == "cpu":
            raise ValueError(
                "fp16=True needs a GPU: on a CPU, Accelerate would train in float32 all the same; "
                "set bf16 or neither."
            )
        for name in ("fp16_full_eval", "bf16_full_eval"):
            if getattr(self, name):
                raise ValueError(
                    f"{name}=True would have no effect: evaluation has the precision of training; "
                    f"set {name.removesuffix('_full_eval')}."
                )
        if self.device_tokens is not None:
            _require_at_least_one("device_tokens", self.device_tokens)
            self._work_out_accumulation(self.device_tokens)
        if self.dry_run_updates < 0:
            raise ValueError(
                f"dry_run_updates must be at least 0, got dry_run_updates={self.dry_run_updates}."
            )
        preparation(self.bleu_tokenize, is_split=False)
        if self.compound_split_bleu is not None:
            preparation(self.compound_split_bleu, is_split=True)
        if self.length_penalty_type not in (WU, POWER):
            raise ValueError(
                f"length_penalty_type must be `{WU}` or `{POWER}`, got "
                f"length_penalty_type={self.length_penalty_type!r}."
            )
        if self.load_best_model_at_end and self.average_last > 1:
            raise ValueError(
                f"load_best_model_at_end=True keeps one checkpoint and average_last="
                f"{self.average_last} averages several; set average_last to 1 to keep the best."
            )
        if self.save_only_model:
            raise ValueError(
                "save_only_model=True would leave checkpoints that no run can go on from; leave it "
                "out."
            )
        if self.enable_jit_checkpoint:
            raise ValueError(
                "enable_jit_checkpoint=True is not needed: SIGTERM saves a checkpoint and stops in "
                "any case; leave it out."
            )
        limit = self.save_total_limit
        if limit is not None and limit < self.average_last:
            raise ValueError(
                f"save_total_limit={limit} keeps fewer checkpoints than average_last="
                f"{self.average_last} needs; raise the one or lower the other."
            )

    def _work_out_accumulation(self, device_tokens: int) -> None:
        given = self.gradient_accumulation_steps
        held = self.world_size * device_tokens
        needed = math.ceil(max(self.source_tokens, self.target_tokens) / held)
        self.gradient_accumulation_steps: int = needed
        if given != 1:  # the library's default
            self.refuse_other_accumulation(given)

    def refuse_other_accumulation(self, given: int) -> None:
        """Raise a `ValueError` if `device_tokens` comes to other than `given` batches an update."""
        needed = self.gradient_accumulation_steps
        if self.device_tokens is not None and given != needed:
            tokens = max(self.source_tokens, self.target_tokens)
            raise ValueError(
                f"gradient_accumulation_steps={given} contradicts device_tokens="
                f"{self.device_tokens}: {tokens} tokens an update on {self.world_size} "
                f"process(es) make {needed}. Leave gradient_accumulation_steps out, or set "
                f"device_tokens to {math.ceil(tokens / (self.world_size * max(given, 1)))}."
            )


def _require_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {name}={value}.")


@dataclass
class Arguments:
    """Everything a run is told, in three parts, and `chosen`: what recipes and command line set.

    Secrets, such as `hub_token`, are left out of `chosen`, which is written down.
    """

    recipe: str
    model: dict[str, Any]
    data: DataArguments
    training: VaswaniTrainingArguments
    chosen: dict[str, Any]


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read `RECIPE [--field value ...]`.

    Args:
        argv: the command line without the program's name.

    Raises:
        ValueError: if the recipe or a field is unknown (a near name is suggested), or a value is
            not of its field's type or range.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(
            f"Say first what to train: a recipe ({_listed(recipe_names())}) or the path of a YAML "
            f"file, then --field value."
        )
    recipe, *options = argv
    chosen = read_recipe(recipe)
    _override(chosen, _read_options(options))
    for name in chosen.keys() & _REPLACED.keys():
        raise ValueError(
            f"{name}={chosen[name]} would have no effect: batches are counted in tokens; set "
            f"{_REPLACED[name]}."
        )
    name = recipe if recipe in recipe_names() else Path(recipe).stem
    chosen.setdefault("output_dir", f"runs/{name}")
    parser = HfArgumentParser([ModelArguments, DataArguments, VaswaniTrainingArguments])
    parser.error = _raise_value_error
    try:
        model, data, training = parser.parse_args_into_dataclasses(args=_as_options(chosen))
    except ValueError as error:  # the library's too are about what was written
        raise ValueError(str(error)) from error
    if chosen.get("gradient_accumulation_steps") is not None:
        training.refuse_other_accumulation(int(chosen["gradient_accumulation_steps"]))
    return Arguments(
        recipe=name,
        model={name: value for name, value in vars(model).items() if value is not None},
        data=data,
        training=training,
        chosen={name: value for name, value in chosen.items() if not name.endswith("_token")},
    )


def field_names() -> set[str]:
    """Every field that a recipe or the command line may set."""
    return {
        spec.name
        for part in (ModelArguments, DataArguments, VaswaniTrainingArguments)
        for spec in dataclasses.fields(part)
        if spec.init
    }


def recipe_names() -> set[str]:
    """The recipes that come with the project, as they are typed."""
    return {
        path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.yaml")
    }


def read_recipe(recipe: str) -> dict[str, Any]:
    """The fields of a recipe, those of the recipes it extends included.

    Args:
        recipe: a name in `training/recipes`, or the path of a YAML file.

    Raises:
        ValueError: if there is no such recipe, it is no mapping, it sets an unknown field, or it
            extends itself.
    """
    chain: list[dict[str, Any]] = []
    seen: list[Path] = []
    path: Path | None = _find_recipe(recipe, beside=Path())
    while path is not None:
        if path in seen:
            raise ValueError(f"{path.name} extends itself.")
        seen.append(path)
        content = _read_yaml(path)
        if not isinstance(content, dict):
            raise ValueError(f"{path.name} must hold `field: value` lines.")
        parent = content.pop(EXTENDS, None)
        for key in content:
            _refuse_unknown(str(key), path.name)
        chain.append(content)
        path = _find_recipe(parent, beside=path.parent) if parent else None
    merged: dict[str, Any] = {}
    for content in reversed(chain):
        _override(merged, content)
    return merged


def _read_yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error


def _listed(names: set[str]) -> str:
    """Names in a sentence; those of a folder in braces behind its name."""
    folders: dict[str, list[str]] = {}
    for name in sorted(names):
        folder, _, rest = name.rpartition("/")
        folders.setdefault(folder, []).append(rest)
    loose = folders.pop("", [])
    return ", ".join(
        [*loose, *(f"{folder}/{{{', '.join(rest)}}}" for folder, rest in folders.items())]
    )


def _override(chosen: dict[str, Any], later: dict[str, Any]) -> None:
    chosen.update(later)
    if "num_train_epochs" in later and "max_steps" not in later:
        chosen["max_steps"] = -1  # else the recipe's number of updates would win over the epochs


def _find_recipe(recipe: str, beside: Path) -> Path:
    for candidate in (beside / recipe, beside / f"{recipe}.yaml", RECIPES / f"{recipe}.yaml"):
        if candidate.suffix in (".yaml", ".yml") and candidate.is_file():
            return candidate.resolve()
    names = recipe_names()
    near = difflib.get_close_matches(recipe, names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {_listed(names)}."
    raise ValueError(f"There is no recipe '{recipe}'; {hint}")


def _refuse_unknown(key: str, where: str) -> None:
    if key not in field_names():
        near = difflib.get_close_matches(key, field_names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else "."
        raise ValueError(f"{where}: unknown key '{key}'{hint}")


def _read_options(options: Sequence[str]) -> dict[str, Any]:
    """`--field value` pairs; a field without a value is true, one with several a list."""
    read: dict[str, Any] = {}
    name = None
    for option in options:
        if option.startswith("--"):
            name, has_value, value = option[2:].partition("=")
            name = name.replace("-", "_")
            _refuse_unknown(name, "command line")
            read[name] = [value] if has_value else []
        elif name is None:
            raise ValueError(f"command line: '{option}' follows no --field.")
        else:
            read[name].append(option)
    return {
        name: True if not values else values[0] if len(values) == 1 else values
        for name, values in read.items()
    }


def _as_options(chosen: dict[str, Any]) -> list[str]:
    """The fields as a command line, so that every value is cast by its field's type.

    YAML alone would leave `1e-9` a text and turn `no` into false.
    """
    options: list[str] = []
    for name, value in chosen.items():
        if value is None or value == []:  # back to the field's default
            continue
        if isinstance(value, dict):
            value = json.dumps(value)
        values = value if isinstance(value, list) else [value]
        values = [json.dumps(item) if isinstance(item, dict) else item for item in values]
        # `=` keeps a negative number from being taken for an option.
        if len(values) == 1:
            options.append(f"--{name}={values[0]}")
        else:
            options += [f"--{name}", *map(str, values)]
    return options


def _raise_value_error(message: str) -> None:
    raise ValueError(message)
