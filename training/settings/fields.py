# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The fields that a recipe and the command line set: of the model, of the data and of training."""

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_type_hints

from transformers import Seq2SeqTrainingArguments

from vaswani_hf import VaswaniConfig
from vaswani_hf.search_settings_vaswani import POWER, WU

from .adapters import check_lora
from .best import check_best, check_kept, choose_metric
from .bleu import check_bleu
from .budget import TokenBudget
from .kinds import Kind
from .library import check_accelerator, check_library, check_reports, choose_device
from .ranges import check_ranges


NO_DATASET = "none"  # on the command line, where there is no null
TRANSLATION, PARSING = "translation", "parsing"
KINDS_OF_FILES = ("source", "target", "file", "trees")
TRAINING_FILES = tuple(f"train_{kind}" for kind in KINDS_OF_FILES)
FILES = tuple(
    f"{split}_{kind}" for split in ("train", "validation", "test") for kind in KINDS_OF_FILES
)
# Of a corpus: a mapping of `corpora` may set them too.
NOISE = ("upper_case_noise", "title_case_noise", "lower_case_noise", "typo_noise")
GENERAL_FILES = ("general_source", "general_target", "general_file")

# Fields of the model that follow from the tokenizer or from the run, and are not to be chosen.
_NOT_CHOSEN = {
    *("is_encoder_decoder", "use_cache", "target_vocab_size", "alignment_layer", "alignment_head"),
    *(f"{token}_token_id" for token in ("pad", "eos", "bos", "decoder_start")),
}
# A paragraph `name: text` of a docstring's section `Args:`.
_ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n     .+)*)", re.MULTILINE)
_MODEL_HELP = {
    name: " ".join(text.split())
    for name, text in _ARGUMENT.findall(inspect.getdoc(VaswaniConfig) or "")
}

# `None` leaves a field at the default of `VaswaniConfig`.
ModelArguments = dataclasses.make_dataclass(
    "ModelArguments",
    [
        (name, kind | None, field(default=None, metadata={"help": _MODEL_HELP.get(name, "")}))
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
            "help": "dataset: an id on the Hub, a dataset folder, or `demo`; `none` for text from "
            "files alone"
        },
    )
    dataset_config: str | None = field(
        default=None, metadata={"help": "configuration of the dataset, such as `de-en`"}
    )
    train_split: str = field(
        default="train", metadata={"help": "name of the dataset's training split"}
    )
    validation_split: str = field(
        default="validation", metadata={"help": "name of the dataset's validation split"}
    )
    test_split: str = field(default="test", metadata={"help": "name of the dataset's test split"})
    source_column: str = field(
        default="source",
        metadata={"help": "column or JSON key of the source sentence, or its language code"},
    )
    target_column: str = field(
        default="target",
        metadata={"help": "column or JSON key of the target sentence, or its language code"},
    )
    source_language: str | None = field(
        default=None, metadata={"help": "code of the source language for the model card: `en`"}
    )
    target_language: str | None = field(
        default=None, metadata={"help": "code of the target language for the model card: `de`"}
    )
    train_source: list[str] = field(
        default_factory=list,
        metadata={"help": "files of training sources, a sentence a line, plain or .gz"},
    )
    train_target: list[str] = field(
        default_factory=list,
        metadata={"help": "files of training targets, line by line as in train_source"},
    )
    train_file: list[str] = field(
        default_factory=list,
        metadata={"help": "files of training pairs, .tsv or .jsonl, plain or .gz"},
    )
    guided_alignment: list[str] = field(
        default_factory=list,
        metadata={
            "help": "files of word alignments that a head learns, as `0-0 1-2`, line by line as in "
            "train_source"
        },
    )
    validation_source: list[str] = field(
        default_factory=list,
        metadata={"help": "files of validation sources, a sentence a line, plain or .gz"},
    )
    validation_target: list[str] = field(
        default_factory=list,
        metadata={"help": "files of validation targets, line by line as in validation_source"},
    )
    validation_file: list[str] = field(
        default_factory=list,
        metadata={"help": "files of validation pairs, .tsv or .jsonl, plain or .gz"},
    )
    test_source: list[str] = field(
        default_factory=list,
        metadata={"help": "files of test sources, a sentence a line, plain or .gz"},
    )
    test_target: list[str] = field(
        default_factory=list,
        metadata={"help": "files of test targets, line by line as in test_source"},
    )
    test_file: list[str] = field(
        default_factory=list,
        metadata={"help": "files of test pairs, .tsv or .jsonl, plain or .gz"},
    )
    general_source: list[str] = field(
        default_factory=list,
        metadata={
            "help": "files of sources of a general test set, by which a model that is trained "
            "further shows what it forgets"
        },
    )
    general_target: list[str] = field(
        default_factory=list,
        metadata={"help": "files of their targets, line by line as in general_source"},
    )
    general_file: list[str] = field(
        default_factory=list,
        metadata={"help": "files of pairs of a general test set, .tsv or .jsonl, plain or .gz"},
    )
    treebank: str | None = field(
        default=None,
        metadata={
            "help": "folder of a treebank with a folder for each section, as the Penn Treebank's "
            "`wsj` has them"
        },
    )
    words_in_trees: bool = field(
        default=False,
        metadata={
            "help": "parsing: write each word before its tag in the sequence of a tree, which a "
            "small model learns sooner"
        },
    )
    numbers_in_trees: bool = field(
        default=False,
        metadata={
            "help": "parsing: number the words of a sentence; in the sequence of a tree, write "
            "number and word before each tag, and brackets with their depth"
        },
    )
    words_behind_numbers: bool = field(
        default=True,
        metadata={
            "help": "parsing: with numbers_in_trees, write each word behind its number; without, "
            "numbers stand for words, and nothing is copied"
        },
    )
    numbers_from_end: bool = field(
        default=False,
        metadata={
            "help": "parsing: with numbers_in_trees, count words from the end of the sentence, to "
            "-1) for the last one: none is left out"
        },
    )
    guided_alignment_of_trees: bool = field(
        default=False,
        metadata={
            "help": "parsing: let a head of the decoder learn which word of the sentence comes "
            "next, as guided_alignment lets it learn word alignments"
        },
    )
    train_trees: list[str] = field(
        default_factory=list,
        metadata={
            "help": "parse trees to train on: sections of the treebank, such as `02-21`, or files "
            "(.mrg or a tree a line, plain or .gz), or folders of .mrg files"
        },
    )
    validation_trees: list[str] = field(
        default_factory=list,
        metadata={"help": "parse trees to validate on, named as in train_trees"},
    )
    test_trees: list[str] = field(
        default_factory=list,
        metadata={"help": "parse trees to test on, named as in train_trees"},
    )
    swap_sides: bool = field(
        default=False,
        metadata={
            "help": "learn the other direction: all sources become targets and all targets "
            "sources, and so do their languages"
        },
    )
    split_digits: bool = field(
        default=False, metadata={"help": "give every digit a piece of its own in the vocabulary"}
    )
    segmented: bool = field(
        default=False,
        metadata={"help": "the text is cut into pieces already, as by subword-nmt (`@@ `)"},
    )
    tokenizer: str | None = field(
        default=None,
        metadata={"help": "tokenizer, a folder or an id on the Hub; one is learned unless given"},
    )
    max_length: int = field(
        default=256,
        metadata={"help": "drop training pairs with a longer side, in tokens with `</s>`"},
    )
    max_length_ratio: float | None = field(
        default=None,
        metadata={
            "help": "drop training pairs whose longer side has more than so many times the tokens "
            "of the shorter one"
        },
    )
    drop_copies: bool = field(
        default=False, metadata={"help": "drop training pairs whose target is their source"}
    )
    drop_duplicates: bool = field(
        default=False, metadata={"help": "drop training pairs that repeat an earlier pair"}
    )
    drop_undecodable: bool = field(
        default=False,
        metadata={"help": "drop and count lines that are not UTF-8, which are an error otherwise"},
    )
    corpora: list[str] = field(
        default_factory=list,
        metadata={
            "help": "several training corpora: mappings of `name`, `weight`, `source_tag` and the "
            "place of the text (dataset, train_source and train_target, train_file, or "
            "train_trees); JSON on the command line"
        },
    )
    streaming: bool = field(
        default=False,
        metadata={"help": "read and encode training text during training; needs max_steps"},
    )
    shuffle_buffer_pairs: int = field(
        default=50000,
        metadata={
            "help": "pairs that a streaming process reads ahead, sorts by length, and batches in "
            "random order"
        },
    )
    tokenizer_sample_pairs: int | None = field(
        default=None,
        metadata={
            "help": "number of pairs that the vocabulary is learned from; all unless given, the "
            "first 1,000,000 with streaming"
        },
    )
    stages: list[str] = field(
        default_factory=list,
        metadata={
            "help": "stages of the training: mappings of `updates` and `weights`, a mapping of the "
            "names of corpora to their weights in it; JSON on the command line"
        },
    )
    bpe_dropout: float = field(
        default=0.0,
        metadata={
            "help": "probability that a merge is left out of a step when a training word is cut "
            "into pieces, anew in each epoch (Provilkov et al. 2020)"
        },
    )
    upper_case_noise: float = field(
        default=0.0,
        metadata={"help": "share of training pairs of which both sides are put in capitals"},
    )
    title_case_noise: float = field(
        default=0.0,
        metadata={"help": "share of training pairs of which each word gets a capital, both sides"},
    )
    lower_case_noise: float = field(
        default=0.0, metadata={"help": "share of training sources that are put in small letters"}
    )
    typo_noise: float = field(
        default=0.0, metadata={"help": "share of the words of training sources that get a typo"}
    )
    license: str | None = field(
        default=None, metadata={"help": "license of the trained model, for its card: `cc-by-4.0`"}
    )

    def __post_init__(self) -> None:
        if self.dataset == NO_DATASET:
            self.dataset = None
        check_ranges(self)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of the languages that the model translates from and into."""
        languages = self.source_language, self.target_language
        return languages[::-1] if self.swap_sides else languages

    @property
    def form_of_trees(self) -> dict[str, bool]:
        """What stands before each tag in the sequence of a tree: its word, its number, or both."""
        has_numbers = self.numbers_in_trees
        has_words = self.words_behind_numbers if has_numbers else self.words_in_trees
        from_end = self.numbers_from_end
        return {"has_words": has_words, "has_numbers": has_numbers, "from_end": from_end}

    @property
    def aligned_by(self) -> str | None:
        """The first setting by which training pairs have links; `None` if there is none."""
        return self._first_set("guided_alignment", "guided_alignment_of_trees")

    @property
    def redrawn_by(self) -> str | None:
        """The first setting by which pairs are drawn anew in each epoch; `None` if there is none.

        Such pairs are streamed to the trainer, be they read while training or before.
        """
        return self._first_set("bpe_dropout", *NOISE, "stages")

    @property
    def streamed_by(self) -> str | None:
        """The first setting by which pairs are streamed to the trainer; `None` if none are."""
        return "streaming" if self.streaming else self.redrawn_by

    def _first_set(self, *names: str) -> str | None:
        """The first of these that is set, for all training text or for one of `corpora`."""
        for name in names:
            key = re.compile(rf'"{name}"\s*:')  # of a mapping that is not read yet
            if getattr(self, name) or any(map(key.search, self.corpora)):
                return name
        return None


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
        default=None,
        metadata={"help": "trained model, with its tokenizer, whose weights training starts from"},
    )
    resume_from_checkpoint: str | None = field(
        default=None,
        metadata={
            "help": "checkpoint to go on from: `auto` for the newest whole one in output_dir, if "
            "there is one, or its path",
            "const": True,  # as `auto`
        },
    )
    source_tokens: int = field(
        default=25000,
        metadata={"help": "most padded source tokens of an update, over all processes"},
    )
    target_tokens: int = field(
        default=25000,
        metadata={"help": "most padded target tokens of an update, over all processes"},
    )
    device_tokens: int | None = field(
        default=None,
        metadata={
            "help": "most padded tokens a side that a device can hold at once; batches are "
            "accumulated until an update has its tokens. No limit unless given"
        },
    )
    eval_batch_tokens: int = field(
        default=4096, metadata={"help": "most padded tokens a side of an evaluation batch"}
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
            "help": "what push_to_hub pushes: `end` the averaged model alone, `every_save` also "
            "the model of each checkpoint"
        },
    )
    run_name: str | None = field(
        default=None,
        metadata={"help": "name of the run in trackio; output_dir unless given"},
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={
            "help": "evaluations in a row without a new best metric_for_best_model after which "
            "training ends"
        },
    )
    trackio_static_space_id: str | Literal[False] | None = field(
        default=False,
        metadata={
            "help": "Space of the Hub that shows trackio's curves after a push to the Hub; none is "
            "made unless it is named here"
        },
    )
    include_num_input_tokens_seen: str | bool = field(
        default="no",
        metadata={
            "help": "log the number of input tokens so far",
            "choices": ("no", "all", "non_padding"),
        },
    )
    logging_nan_inf_filter: bool = field(
        default=False,
        metadata={
            "help": "leave NaN and infinite losses out of the logged mean, for which every update "
            "waits for the device"
        },
    )
    guided_alignment_weight: float = field(
        default=0.05,  # Garg et al. 2019
        metadata={"help": "factor of the loss of the alignments"},
    )
    guided_alignment_layer: int | None = field(
        default=None,
        metadata={
            "help": "layer of the decoder that learns alignments, counted from 0; that of the "
            "trained model, or the last but one, unless given"
        },
    )
    guided_alignment_head: int | None = field(
        default=None,
        metadata={
            "help": "its head that learns them, counted from 0; that of the trained model, or the "
            "first, unless given"
        },
    )
    r_drop: float | None = field(
        default=None,
        metadata={
            "help": "alpha of R-Drop: each batch passes twice, with other dropout, and so much of "
            "the divergence of the passes goes into the loss; 5 in its paper's translations"
        },
    )
    r_drop_after: int = field(
        default=0,
        metadata={
            "help": "updates before R-Drop begins; until then each batch passes once, in half the "
            "time"
        },
    )
    distillation_teacher: str | None = field(
        default=None,
        metadata={
            "help": "trained model whose distribution over the pieces is learned beside the "
            "targets, a folder or an id on the Hub; its tokenizer is used"
        },
    )
    distillation_weight: float = field(
        default=0.5,  # Kim and Rush 2016
        metadata={
            "help": "the teacher's share of the target distribution, the labels have the rest"
        },
    )
    distillation_top_k: int = field(
        default=8,  # Tan et al. 2019
        metadata={"help": "pieces of the teacher's distribution that are kept, the likeliest ones"},
    )
    task: str = field(
        default=TRANSLATION,
        metadata={
            "help": f"`{TRANSLATION}` of text, scored by BLEU, or `{PARSING}` of sentences to "
            "trees (section 6.3), scored by EVALB's F1",
            "choices": (TRANSLATION, PARSING),
        },
    )
    constrained_search: bool = field(
        default=False,
        metadata={"help": "parsing: let evaluations search among trees alone"},
    )
    lora_rank: int | None = field(
        default=None,
        metadata={
            "help": "train an adapter by LoRA: two matrices of this rank beside each of "
            "lora_targets, and nothing else of model_name_or_path"
        },
    )
    lora_alpha: float | None = field(
        default=None,
        metadata={
            "help": "factor of the adapter, which is divided by lora_rank; twice the rank unless "
            "given"
        },
    )
    lora_targets: list[str] = field(
        default_factory=list,
        metadata={
            "help": "projections that are adapted: query_proj, key_proj, value_proj, output_proj "
            "of attention, inner, outer of the feed-forward networks; all unless given"
        },
    )
    lora_dropout: float = field(
        default=0.0, metadata={"help": "dropout rate of the adapter's input"}
    )
    load_in_8bit: bool = field(
        default=False,
        metadata={
            "help": "hold the matrices that the adapter leaves alone in 8 bits (bitsandbytes)"
        },
    )
    average_last: int = field(
        default=5,
        metadata={"help": "number of last checkpoints that are averaged at the end; 1 for none"},
    )
    num_beams: int = field(default=4, metadata={"help": "beam size of the final evaluation"})
    length_penalty: float = field(
        default=0.6, metadata={"help": "length penalty of the final evaluation, alpha"}
    )
    length_penalty_type: str = field(
        default=WU,
        metadata={
            "help": f"form of the length penalty: `{WU}` is ((5 + n) / 6)^alpha, `{POWER}` n^alpha",
            "choices": (WU, POWER),
        },
    )
    max_extra_tokens: int = field(
        default=50,
        metadata={"help": "tokens that a translation may have more than its source, at most"},
    )
    bleu_tokenize: str = field(
        default="13a",
        metadata={"help": "sacrebleu's tokenizer for BLEU; `none` for text that is tokenised"},
    )
    bleu_lowercase: bool = field(
        default=False, metadata={"help": "lower-case texts before BLEU and chrF++ compare them"}
    )
    compound_split_bleu: str | None = field(
        default=None,
        metadata={
            "help": "score compound-split BLEU too, as the paper's authors did, with this "
            "tokenizer: `moses-de`, or `none` for text that is tokenised"
        },
    )
    threads: int | None = field(
        default=None,
        metadata={
            "help": "CPU threads of a process; unless given OMP_NUM_THREADS, those of a checkpoint "
            "that is resumed, or as many as there are cores and as pay for the model's size"
        },
    )
    dry_run: bool = field(
        default=False, metadata={"help": "show what the run would take, and train nothing"}
    )
    dry_run_updates: int = field(
        default=20,
        metadata={"help": "updates that a dry run measures, for a minute at most; 0 for none"},
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_accelerator(self.accelerator_config)
        choose_metric(self)
        choose_device(self)
        super().__post_init__()
        check_library(self)
        check_reports(self)
        check_best(self)
        check_kept(self)
        check_bleu(self)
        check_lora(self)
        if self.constrained_search and self.task != PARSING:
            raise ValueError(
                f"constrained_search=True searches for trees; set task to {PARSING}, or leave "
                f"constrained_search out."
            )
        self._name_run()
        if self.device_tokens is not None:
            self._work_out_accumulation(self.device_tokens)
        TokenBudget.of(self).check()

    def _name_run(self) -> None:
        # Nameless, a killed run would go on as another one in trackio, and its scores as a third.
        self.run_name = self.run_name or self.output_dir
        if str(self.trackio_static_space_id).lower() in ("false", "no", "none"):
            self.trackio_static_space_id = False

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


# Every field that a recipe or the command line may set.
FIELDS: Mapping[str, dataclasses.Field[Any]] = {
    spec.name: spec
    for part in (ModelArguments, DataArguments, VaswaniTrainingArguments)
    for spec in dataclasses.fields(part)
    if spec.init
}
KINDS: Mapping[str, Kind] = {
    name: Kind.of(hint, FIELDS[name].metadata)
    for part in (ModelArguments, DataArguments, VaswaniTrainingArguments)
    for name, hint in get_type_hints(part).items()
    if name in FIELDS
}
