# Copyright 2026 The vaswani_hf authors.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
# in compliance with the License. You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License
# is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
# or implied. See the License for the specific language governing permissions and limitations.
"""The hyper-parameters of the Transformer of "Attention Is All You Need", checked."""

import shutil
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, cast

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import PreTrainedConfig
from transformers.dynamic_module_utils import get_relative_import_files
from transformers.utils import TRANSFORMERS_DYNAMIC_MODULE_NAME


TRANSLATION_TASK = (
    "vaswani-translation"  # our name for `pipeline()`; the library blocks `translation`
)


@strict
class VaswaniConfig(PreTrainedConfig):
    """The hyper-parameters of one Transformer (Table 3); the defaults are the base model.

    A value of the wrong type raises the library's `StrictDataclassFieldValidationError`, a value
    that no Transformer can have a `ValueError`; both name the field. Checked when a config is made,
    loaded and saved; at saving, the library wraps the error in its
    `StrictDataclassClassValidationError`.

    Args:
        vocab_size: number of pieces, of source and target unless `target_vocab_size` differs.
        target_vocab_size: number of target pieces; `None` for `vocab_size`. May differ from it only
            where `share_embeddings` is off.
        d_model: width of the residual stream, of the embeddings and of the positions (section 3.1).
        d_ff: inner width of the feed-forward networks (section 3.3).
        num_heads: number of attention heads, h (section 3.2.2).
        encoder_layers: number of encoder layers, N (section 3.1).
        decoder_layers: number of decoder layers, N (section 3.1).
        d_k: width of a head's queries and keys; `None` for `d_model / num_heads` (Table 3, row B).
        d_v: width of a head's values; `None` for `d_model / num_heads`.
        dropout: share of sub-layer outputs and of embedding sums that is dropped (section 5.4).
        attention_dropout: share of attention weights that is dropped (section 6.3 tunes it).
        activation_dropout: share of the feed-forward networks' inner activations that is dropped.
        activation_function: between the two feed-forward layers (equation 2): `"relu"`, or what an
            imported checkpoint has.
        layer_norm_eps: added to the variance in layer normalization (tensor2tensor's value).
        attention_bias: whether the four attention projections have biases, as in many imported
            checkpoints; the paper's formulas have none.
        output_bias: whether the pre-softmax layer has a bias, as in imported Marian checkpoints.
        final_norm: whether each stack ends in one more layer normalization, as in imported
            `torch.nn.Transformer` checkpoints; the paper's do not.
        scale_embedding: whether embeddings are multiplied by sqrt(d_model) (section 3.4); some
            imported checkpoints do without.
        position_encoding: `"sinusoidal"` (section 3.5) or `"learned"` (Table 3, row E).
        max_position_embeddings: number of learned positions, a hard limit; or the number of
            sinusoidal positions computed beforehand, which grows on demand.
        share_embeddings: whether source and target share one embedding matrix (section 3.4).
        tie_word_embeddings: whether the target embedding is also the pre-softmax matrix (section
            3.4).
        label_smoothing: mass spread evenly over all pieces in the training loss, epsilon_ls
            (section 5.4).
        alignment_layer: decoder layer of the head that was trained to align words, counted from 0;
            `None` where none was.
        alignment_head: that head in its layer, counted from 0.
        use_cache: whether decoding keeps the keys and values of earlier positions.
        is_encoder_decoder: always `True`; the library reads it.
        pad_token_id: id of the padding piece, of source and target.
        eos_token_id: id of `</s>`, which ends every target, and every source unless the source has
            a vocabulary of its own.
        bos_token_id: unused by this model; here for checkpoints that have one.
        decoder_start_token_id: id that stands before the first target piece; `None` for
            `pad_token_id`.

    Raises:
        ValueError: if a value is out of range or two values contradict each other.
    """

    model_type = "vaswani"
    keys_to_ignore_at_inference = ["past_key_values"]
    attribute_map = {
        "hidden_size": "d_model",
        "intermediate_size": "d_ff",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "encoder_layers",
        "head_dim": "d_k",
    }

    vocab_size: int = 37000  # section 5.1
    target_vocab_size: int | None = None
    d_model: int = 512  # trf-ignore: TRF023, the paper's name is the field
    d_ff: int = 2048  # trf-ignore: TRF023, the paper's name is the field
    num_heads: int = 8  # trf-ignore: TRF023, the paper's name is the field
    encoder_layers: int = 6
    decoder_layers: int = 6
    d_k: int | None = None
    d_v: int | None = None
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    activation_function: Literal["relu", "gelu", "silu", "swish"] = "relu"
    layer_norm_eps: float | int = 1e-6
    attention_bias: bool = False
    output_bias: bool = False
    final_norm: bool = False
    scale_embedding: bool = True
    position_encoding: Literal["sinusoidal", "learned"] = "sinusoidal"
    max_position_embeddings: int = 1024
    share_embeddings: bool = True
    tie_word_embeddings: bool = True
    label_smoothing: float | int = 0.1
    alignment_layer: int | None = None
    alignment_head: int | None = None
    use_cache: bool = True
    is_encoder_decoder: bool = True
    pad_token_id: int = 1
    eos_token_id: int | list[int] | None = 2
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None

    @classmethod
    def base(cls, **overrides: Any) -> Self:
        """The base model of Table 3; `overrides` are fields to set otherwise."""
        return cls(**overrides)

    @classmethod
    def big(cls, **overrides: Any) -> Self:
        """The big model of Table 3; `overrides` are fields to set otherwise."""
        big = {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}  # Table 3, big
        named = {cls.attribute_map.get(name, name): value for name, value in overrides.items()}
        return cls(**{**big, **named})

    def __post_init__(self, **kwargs: Any) -> None:
        _refuse_contradicting_aliases(self, kwargs)
        super().__post_init__(**kwargs)  # sets the aliases, so the checks below see the real widths
        self._check_positive("d_model", "num_heads")
        self._check_even_width()
        for width in ("d_k", "d_v"):
            if getattr(self, width) is None:
                setattr(self, width, self._default_head_width(width))
        if self.target_vocab_size is None:
            self.target_vocab_size = self.vocab_size
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.pad_token_id
        self.check()

    def __setattr__(self, key: str, value: Any) -> None:
        field = self.attribute_map.get(key, key)
        try:  # by the field's own name, so that its type is checked
            super().__setattr__(field, value)
        except StrictDataclassFieldValidationError as error:
            if field == key or not isinstance(error.__cause__, Exception):
                raise
            named = f"{key} ({field})"
            raise StrictDataclassFieldValidationError(named, error.__cause__) from error
        if field == "vocab_size" and self.share_embeddings:
            self.target_vocab_size = value  # one vocabulary has one size

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """A config from a dictionary of fields; `kwargs` override them; the result is checked."""
        result = super().from_dict(config_dict, **kwargs)
        config = result[0] if isinstance(result, tuple) else result
        config.check()
        return result

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: Any, **kwargs: Any
    ) -> None:
        """Write `config.json`, and beside it the code that it names, if it names any.

        A model from the Hub names some by `auto_map` and `custom_pipelines`, and would else load
        only where this package is installed. A pipeline whose code is not at hand is left out.
        """
        here, there = Path(__file__).parent, Path(save_directory)
        entries = self.__dict__
        pipelines = {
            task: entry
            for task, entry in entries.get("custom_pipelines", {}).items()
            if any((folder / _file_of(entry["impl"])).is_file() for folder in (here, there))
        }
        if pipelines:
            entries["custom_pipelines"] = pipelines
        else:
            entries.pop("custom_pipelines", None)
        super().save_pretrained(save_directory, *args, **kwargs)
        auto_map = getattr(self, "auto_map", None) or {}
        classes = [*auto_map.values(), *(entry["impl"] for entry in pipelines.values())]
        named = {_file_of(name) for name in classes}
        for path in sorted(here.glob("*.py")):
            if path.name in named:
                for file in (path, *map(Path, get_relative_import_files(path))):
                    shutil.copyfile(file, there / file.name)

    @property
    def custom_pipelines(self) -> dict[str, Any]:
        """Pipelines whose code is in the model's folder, by task, as the library asks for them.

        Ours is no such one where the package brings it: the library would run the folder's code
        instead, or refuse to.
        """
        entries = self.__dict__.get("custom_pipelines", {})
        if __name__.startswith(f"{TRANSFORMERS_DYNAMIC_MODULE_NAME}."):
            return entries
        return {task: entry for task, entry in entries.items() if task != TRANSLATION_TASK}

    @custom_pipelines.setter
    def custom_pipelines(self, entries: dict[str, Any]) -> None:
        self.__dict__["custom_pipelines"] = entries

    @property
    def head_widths(self) -> tuple[int, int]:
        """`d_k` and `d_v`, as numbers."""
        return cast(int, self.d_k), cast(int, self.d_v)

    @property
    def num_target_pieces(self) -> int:
        """`target_vocab_size`, as a number."""
        return cast(int, self.target_vocab_size)

    def validate_architecture(self) -> None:
        """Called by the library when a config is made and saved."""
        super().validate_architecture()
        self.check()

    def check(self) -> None:
        """Raise a `ValueError` that names the first field whose value no Transformer can have."""
        self._check_positive(
            *("vocab_size", "target_vocab_size", "d_model", "d_ff", "num_heads"),
            *("encoder_layers", "decoder_layers", "d_k", "d_v", "max_position_embeddings"),
        )
        for rate in ("dropout", "attention_dropout", "activation_dropout", "label_smoothing"):
            if not 0 <= getattr(self, rate) < 1:
                raise ValueError(
                    f"{rate} must be at least 0 and below 1, got {rate}={getattr(self, rate)}; "
                    f"0 switches it off."
                )
        if not self.layer_norm_eps > 0:
            raise ValueError(
                f"layer_norm_eps must be above 0, got layer_norm_eps={self.layer_norm_eps}."
            )
        self._check_even_width()
        if self.share_embeddings and self.target_vocab_size != self.vocab_size:
            raise ValueError(
                f"share_embeddings=True needs one vocabulary, got vocab_size={self.vocab_size} and "
                f"target_vocab_size={self.target_vocab_size}; leave target_vocab_size out or set "
                f"share_embeddings=False."
            )
        if not self.is_encoder_decoder:
            raise ValueError(
                "is_encoder_decoder must be True: the model has an encoder and a decoder."
            )
        self._check_token_ids()
        self._check_alignment()

    def _check_positive(self, *fields: str) -> None:
        for field in fields:
            value = getattr(self, field)
            if value is None or value < 1:
                raise ValueError(f"{self._named(field)} must be at least 1, got {field}={value}.")

    def _check_even_width(self) -> None:
        if self.position_encoding == "sinusoidal" and self.d_model % 2:
            raise ValueError(
                f"{self._named('d_model')} must be even for sinusoidal positions, got "
                f'd_model={self.d_model}; choose an even width or position_encoding="learned".'
            )

    def _check_token_ids(self) -> None:
        target = self.target_vocab_size or self.vocab_size
        ends = self.eos_token_id if isinstance(self.eos_token_id, list) else [self.eos_token_id]
        for field, token, size in [
            ("pad_token_id", self.pad_token_id, min(self.vocab_size, target)),
            *(("eos_token_id", end, target) for end in ends),
            ("bos_token_id", self.bos_token_id, target),
            ("decoder_start_token_id", self.decoder_start_token_id, target),
        ]:
            if token is not None and not 0 <= token < size:
                raise ValueError(
                    f"{field} must be an id of the vocabulary, 0 to {size - 1}, got "
                    f"{field}={token}."
                )

    def _check_alignment(self) -> None:
        named = {"alignment_layer": self.decoder_layers, "alignment_head": self.num_heads}
        for field, count in named.items():
            place = getattr(self, field)
            if place is not None and not 0 <= place < count:
                raise ValueError(f"{field} must be from 0 to {count - 1}, got {field}={place}.")
        if (self.alignment_layer is None) != (self.alignment_head is None):
            raise ValueError(
                f"alignment_layer and alignment_head name one head together, got alignment_layer="
                f"{self.alignment_layer} and alignment_head={self.alignment_head}."
            )

    def _default_head_width(self, width: str) -> int:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"{self._named('d_model')} must be a multiple of {self._named('num_heads')}, got "
                f"d_model={self.d_model} and num_heads={self.num_heads}; change one of them or set "
                f"d_k and d_v ({width} is missing)."
            )
        return self.d_model // self.num_heads

    def _named(self, field: str) -> str:
        """The field with its Hugging Face alias, so that a message shows whichever was written."""
        aliases = [alias for alias, name in self.attribute_map.items() if name == field]
        return f"{field} ({aliases[0]})" if aliases else field


def _file_of(reference: Any) -> str:
    """The file of a class in a model's folder, which is written `module.Class`."""
    return str(reference).partition(".")[0] + ".py"


def _refuse_contradicting_aliases(config: VaswaniConfig, kwargs: dict[str, Any]) -> None:
    defaults = type(config).__dataclass_fields__
    for alias in kwargs.keys() & config.attribute_map.keys():
        field = config.attribute_map[alias]
        value = getattr(config, field)
        if value not in (defaults[field].default, kwargs[alias]):
            raise ValueError(
                f"{alias}={kwargs[alias]} and {field}={value} name the same width; give one of "
                f"them."
            )


__all__ = ["TRANSLATION_TASK", "VaswaniConfig"]
