# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The fields that a run is told: of the model, of the data and of training."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.utils.data
from transformers import (
    Seq2SeqTrainingArguments,
)

from vaswani_hf import VaswaniConfig
from vaswani_hf.generation_vaswani import POWER, WU

from .best import check_best, choose_metric
from .bleu import preparation
from .budget import TokenBudget
from .library import check_accelerator, check_library, check_reports
from .ranges import check_ranges


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
            "smaller; 1 for batches as full as can be, as they are with pad_to_multiple_of, and "
            "when streaming unless given"
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
        TokenBudget.of(self).check()
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
