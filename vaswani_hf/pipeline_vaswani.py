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
"""`pipeline("vaswani-translation", model=...)` of transformers.

Arguments of `generate()` are given to the pipeline or to a call: they go there as they are.
"""

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer, Pipeline, PreTrainedConfig
from transformers.utils import ModelOutput, has_file


TARGET_TOKENIZER = "target_tokenizer"  # the subfolder, where the target has one of its own


class VaswaniTranslationPipeline(Pipeline):
    """Translates sentences; a blank one stays empty.

    Args:
        target_tokenizer: makes text of target ids; unless given, the one in the subfolder
            `target_tokenizer` of the model's folder or repository, or else `tokenizer`.
        local_files_only: whether that is looked for in the cache alone.
        arguments: as for every pipeline of the library, such as `model`, `tokenizer` and `device`;
            `return_tensors`, and arguments of `generate()`, which a call may set otherwise.
    """

    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False
    _load_tokenizer = True

    def __init__(
        self, *, target_tokenizer: Any = None, local_files_only: bool = False, **arguments: Any
    ) -> None:
        super().__init__(**arguments)
        self.model.eval()
        if target_tokenizer is None:
            target_tokenizer = _target_tokenizer_beside(self.model, local_files_only)
        self.target_tokenizer = self.tokenizer if target_tokenizer is None else target_tokenizer

    def __call__(self, inputs: Any, **arguments: Any) -> Any:
        """Translate a sentence, a list of them, or any number one by one.

        Args:
            inputs: a sentence; or a list; or a dataset, such as `KeyDataset(dataset, "source")`, or
                an iterator.
            arguments: `batch_size` sentences are translated together; `return_tensors` asks for
                target ids without the start and padding instead of texts; all others are
                `generate()`'s.

        Returns:
            For a sentence its translations, `[{"translation_text": ...}]`, of which there are
            `num_return_sequences`; the key is `translation_token_ids` with `return_tensors`, and
            there is a `score` beside it where `generate()` is asked for them by
            `return_dict_in_generate` and `output_scores`. For a list, a list of translations, or of
            lists if there are several of each. For others an iterator, which reads no further than
            it must.

        Raises:
            ValueError: if a sentence is no text, has more tokens than the model has positions, or
                `generate()` knows no such argument.
        """
        if isinstance(inputs, str) or not isinstance(inputs, Sequence):
            if isinstance(inputs, Iterator):  # the library knows generators only
                inputs = (sentence for sentence in inputs)
            return super().__call__(inputs, **arguments)
        found = super().__call__(list(inputs), **arguments) if inputs else []
        return [one[0] for one in found] if all(len(one) == 1 for one in found) else found

    def save_pretrained(self, save_directory: str | PathLike[str], **options: Any) -> None:
        """Save model and tokenizers; the code too if the model came with it.

        The library's method would save the code of the pipeline without that of the model.

        Args:
            save_directory: where to.
            options: as for the model's own method.
        """
        self.model.save_pretrained(save_directory, **options)
        self.tokenizer.save_pretrained(save_directory, **options)
        if self.target_tokenizer is not self.tokenizer:
            self.target_tokenizer.save_pretrained(Path(save_directory) / TARGET_TOKENIZER)

    def _sanitize_parameters(
        self, return_tensors: bool | None = None, **generate_arguments: Any
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Called by the library: arguments of `preprocess`, `_forward` and `postprocess`."""
        result = {} if return_tensors is None else {"return_tensors": return_tensors}
        return {}, generate_arguments, result

    def preprocess(self, input_: Any, **arguments: Any) -> dict[str, Tensor]:
        """The source ids `(1, S)` of a sentence, and whether it is blank, `(1,)`."""
        if not isinstance(input_, str):
            raise ValueError(
                f"A sentence must be a str, got {type(input_).__name__}: {input_!r:.80}; of a "
                f'dataset with columns, take one by KeyDataset(dataset, "source").'
            )
        encoded = self.tokenizer(input_, return_tensors="pt", verbose=False)
        return {
            "input_ids": encoded["input_ids"],
            "attention_mask": encoded["attention_mask"],
            "is_blank": torch.tensor([not input_.strip()]),
        }

    def _forward(self, input_tensors: dict[str, Tensor], **arguments: Any) -> dict[str, Tensor]:
        """Target ids `(B, R, T)` of R translations a sentence, and their scores `(B, R)` if any."""
        is_blank = input_tensors.pop("is_blank")
        found = self.model.generate(**input_tensors, **arguments)
        outputs = found if isinstance(found, ModelOutput) else {"sequences": found}
        result = {"ids": outputs["sequences"].unflatten(0, (len(is_blank), -1))}
        if outputs.get("sequences_scores") is not None:
            result["scores"] = outputs["sequences_scores"].unflatten(0, (len(is_blank), -1))
        return result | {"is_blank": is_blank}

    def postprocess(
        self, model_outputs: dict[str, Tensor], return_tensors: bool = False
    ) -> list[dict[str, Any]]:
        """The translations of one sentence, the best first."""
        is_blank = bool(model_outputs["is_blank"][0])
        records: list[dict[str, Any]] = []
        for row in model_outputs["ids"][0]:
            ids = row[:0] if is_blank else self._without_padding(row)
            text = self.target_tokenizer.decode(ids, skip_special_tokens=True)
            records.append(
                {"translation_token_ids": ids} if return_tensors else {"translation_text": text}
            )
        for place, score in enumerate(model_outputs.get("scores", torch.empty(1, 0))[0].tolist()):
            records[place]["score"] = score
        return records

    def _without_padding(self, row: Tensor) -> Tensor:
        """What `generate()` has found, without the start and what stands behind the end."""
        ids, config = row[1:], self.model.generation_config
        if config.eos_token_id is not None:
            ends = torch.isin(ids, torch.tensor(config.eos_token_id)).nonzero()
            if len(ends):
                return ids[: int(ends[0]) + 1]
        # Of one that was cut off before its batch-mates.
        is_padding = (ids == self.model.config.pad_token_id).int()
        return ids[: len(ids) - int(is_padding.flip(0).cumprod(0).sum())]


def _target_tokenizer_beside(model: Any, local_files_only: bool) -> Any:
    """The target's tokenizer in a model's folder or repository; `None` if it has none."""
    name, file = model.name_or_path, f"{TARGET_TOKENIZER}/tokenizer_config.json"
    commit = getattr(model.config, "_commit_hash", None)  # of a model from the Hub
    where = {"revision": commit, "local_files_only": local_files_only}
    if not (Path(name) / file).is_file():
        has_two_vocabularies = not getattr(model.config, "share_embeddings", True)
        if commit is None or not has_two_vocabularies or not has_file(name, file, **where):
            return None
    # An empty config keeps the library from looking for one in the subfolder.
    return AutoTokenizer.from_pretrained(
        name, subfolder=TARGET_TOKENIZER, config=PreTrainedConfig(), **where
    )


__all__ = ["VaswaniTranslationPipeline"]
