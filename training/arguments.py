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

import torch
import yaml
from transformers import HfArgumentParser, Seq2SeqTrainingArguments

from vaswani_hf import VaswaniConfig
from vaswani_hf.generation_vaswani import POWER, WU
from vaswani_hf.tokenization_vaswani import check_vocab_size

from .limits import check_accelerator, check_library, check_ranges, refuse_unheeded
from .metrics import preparation
from .watching import check_best, check_reports, choose_metric, do_without_validation


RECIPES = Path(__file__).parent / "recipes"
EXTENDS = "extends"  # the recipe that another one builds on
NO_DATASET = "none"  # on the command line, where there is no null
TRAINING_FILES = ("train_source", "train_target", "train_file")
FILES = TRAINING_FILES + tuple(
    f"{split}_{side}" for split in ("validation", "test") for side in ("source", "target", "file")
)

# Fields of the model that follow from the tokenizer or from the run, and are not to be chosen.
_NOT_CHOSEN = {"is_encoder_decoder", "use_cache", "target_vocab_size"} | {
    f"{token}_token_id" for token in ("pad", "eos", "bos", "decoder_start")
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
        check_ranges(self)


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
        check_ranges(self)
        check_accelerator(self.accelerator_config)
        choose_metric(self)
        if self.bf16 and not torch.accelerator.is_available():
            self.use_cpu = True  # as it would be; the library asks to be told
        super().__post_init__()
        check_library(self)
        check_best(self)
        check_reports(self)
        # Nameless, a killed run would go on as another one in trackio, and its scores as a third.
        self.run_name = self.run_name or self.output_dir
        # The parser makes text of it, and the library a Space of that name.
        if str(self.trackio_static_space_id).lower() in ("false", "no", "none"):
            self.trackio_static_space_id = False
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
            self._work_out_accumulation(self.device_tokens)
        self._check_budgets()
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

    def _check_budgets(self) -> None:
        parts = self.world_size * self.gradient_accumulation_steps
        for side in ("source_tokens", "target_tokens"):
            if getattr(self, side) // parts < 2:
                raise ValueError(
                    f"{side}={getattr(self, side)} over {parts} batches an update leaves "
                    f"{getattr(self, side) // parts} tokens a batch, and a piece and `</s>` are 2; "
                    f"raise {raised_by(self, side)}."
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


_LISTS = {
    spec.name
    for part in (DataArguments, VaswaniTrainingArguments)
    for spec in dataclasses.fields(part)
    if "list[" in str(spec.type)
}
_DEFAULTS = {spec.name: spec.default for spec in dataclasses.fields(VaswaniTrainingArguments)}


def raised_by(training: VaswaniTrainingArguments, side: str) -> str:
    """The field that makes batches larger; `side` is `source_tokens` or `target_tokens`."""
    if training.device_tokens is not None and training.gradient_accumulation_steps > 1:
        return "device_tokens"  # more tokens an update are more batches of the same size
    return side


@dataclass
class Arguments:
    """Everything a run is told, in three parts, and `chosen`: what recipes and command line set.

    Secrets, such as `hub_token`, are left out of `chosen`, which is written down. `given` are the
    settings of the command line, and `notes` what the log should say about settings that gave way.
    """

    recipe: str
    model: dict[str, Any]
    data: DataArguments
    training: VaswaniTrainingArguments
    chosen: dict[str, Any]
    given: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read `RECIPE [--field value ...]`, and refuse what cannot work whatever the text is.

    Args:
        argv: the command line without the program's name.

    Raises:
        ValueError: if the recipe or a field is unknown (a near name is suggested), a value is not
            of its field's type or range, or values do not go together.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(
            f"Say first what to train: a recipe ({_listed(recipe_names())}) or the path of a YAML "
            f"file, then --field value."
        )
    recipe, *options = argv
    notes: list[str] = []
    chosen, given = read_recipe(recipe, notes), _read_options(options)
    _override(chosen, given, notes)
    refuse_unheeded(chosen, _DEFAULTS)
    name = recipe if recipe in recipe_names() else Path(recipe).stem
    chosen.setdefault("output_dir", f"runs/{name}")
    parser = HfArgumentParser([ModelArguments, DataArguments, VaswaniTrainingArguments])
    parser.error = _raise_value_error
    try:
        model, data, training = parser.parse_args_into_dataclasses(args=_as_options(chosen))
    except (ValueError, ImportError) as error:  # the library's too are about what was written
        raise ValueError(" ".join(str(error).split())) from error
    if chosen.get("gradient_accumulation_steps") is not None:
        training.refuse_other_accumulation(int(chosen["gradient_accumulation_steps"]))
    arguments = Arguments(
        recipe=name,
        model={name: value for name, value in vars(model).items() if value is not None},
        data=data,
        training=training,
        chosen={name: value for name, value in chosen.items() if not name.endswith("_token")},
        given=frozenset(given),
        notes=notes,
    )
    _check_together(arguments)
    return arguments


def _check_together(arguments: Arguments) -> None:
    """Refuse settings of different parts that contradict each other, and a model that cannot be."""
    model, data, training = arguments.model, arguments.data, arguments.training
    if not training.model_name_or_path:  # whose own configuration decides
        vocab_size = model.get("vocab_size", VaswaniConfig.vocab_size)
        if not (data.tokenizer or data.segmented):
            check_vocab_size(vocab_size)
        VaswaniConfig(**model)
    if data.streaming and arguments.chosen.get("max_padding") not in (None, 1):
        raise ValueError(
            f"max_padding={training.max_padding} has no effect on streaming, whose batches are as "
            f"full as can be: leave it out, or set it to 1."
        )
    is_share = 0 < training.warmup_steps < 1
    if is_share and training.learning_rate is None and training.max_steps < 1:
        raise ValueError(
            f"warmup_steps={training.warmup_steps} is a share of the updates, and the highest "
            f"learning rate is worked out from their number: set learning_rate or max_steps."
        )
    has_text = data.train_source or data.train_file or data.corpora
    if has_text and not (data.dataset or data.validation_source or data.validation_file):
        note = do_without_validation(training, arguments.given)
        arguments.notes += [note] if note else []


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


def read_recipe(recipe: str, notes: list[str] | None = None) -> dict[str, Any]:
    """The fields of a recipe, those of the recipes it extends included.

    Args:
        recipe: a name in `training/recipes`, or the path of a YAML file.
        notes: is told which fields gave way to others.

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
        if parent is not None and not isinstance(parent, str):
            raise ValueError(f"{path.name}: {EXTENDS} must name one recipe, got {parent!r}.")
        path = _find_recipe(parent, beside=path.parent) if parent else None
    merged: dict[str, Any] = {}
    for content in reversed(chain):
        _override(merged, content, [] if notes is None else notes)
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


def _override(chosen: dict[str, Any], later: dict[str, Any], notes: list[str]) -> None:
    """Let later settings win, also over earlier ones that they cannot stand beside.

    Else the recipe's number of updates would win over epochs, and text of two places be mixed:
    training pairs of the one, and test pairs of the other.
    """
    replaced: dict[str, Any] = {}
    if "num_train_epochs" in later and "max_steps" not in later:
        chosen["max_steps"] = -1
    if any(later.get(name) for name in TRAINING_FILES) and "dataset" not in later:
        replaced = {name: chosen.get(name) for name in ("dataset", "dataset_config")}
    elif later.get("dataset") not in (None, NO_DATASET):
        replaced = {name: chosen.get(name) for name in FILES}
    for name, value in replaced.items():
        if value and name not in later:
            chosen[name] = None
            by = "dataset" if name in FILES else "the training files"
            notes.append(f"{name}={_shown(value)} of the recipe gives way to {by}.")
    chosen.update(later)


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


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
    """`--field value` pairs; a field without a value is true, one with several a list.

    A list that is named again grows; any other field may be named once.
    """
    read: dict[str, Any] = {}
    name = None
    for option in options:
        if option.startswith("--"):
            name, has_value, value = option[2:].partition("=")
            name = name.replace("-", "_")
            _refuse_unknown(name, "command line")
            if name in read and name not in _LISTS:
                raise ValueError(f"command line: --{name} is given twice; give it once.")
            read.setdefault(name, [])
            read[name] += [value] if has_value else []
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
        if len(values) > 1 and name not in _LISTS:
            raise ValueError(f"{name} takes one value, got {_shown(values)}.")
        for item in values:
            if len(values) > 1 and str(item).startswith("-"):  # the parser would take it for one
                raise ValueError(f"{name}: {item} looks like an option; if it is a file: ./{item}.")
        values = [json.dumps(item) if isinstance(item, dict) else item for item in values]
        # `=` keeps a negative number from being taken for an option.
        if len(values) == 1:
            options.append(f"--{name}={values[0]}")
        else:
            options += [f"--{name}", *map(str, values)]
    return options


def _raise_value_error(message: str) -> None:
    raise ValueError(message)
