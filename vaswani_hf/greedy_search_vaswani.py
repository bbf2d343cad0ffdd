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
"""Greedy search where only ids are asked for; the library's own does the rest.

Shapes: `B` sentences, `V` vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from .decoding_vaswani import DecoderSteps, is_worth_dropping, processed


def greedy_search(
    steps: DecoderSteps,
    input_ids: Tensor,
    limits: Tensor,
    ends: Tensor,
    logits_processor: LogitsProcessorList,
    pad_token_id: int,
) -> Tensor:
    """Take the best piece at each step, as the library does; sentences that end leave the batch.

    Args:
        steps: the decoder's.
        input_ids: what each target starts with, `(B, length)`.
        limits: `(B,)`, tokens that each translation may have; of fewer than 1 one is made.
        ends: pieces that end a translation.
        logits_processor: changes logits, `(B, V)`; what has a method `keep_rows` is told of the
            places, `(rows,)`, that stay when others leave the batch.
        pad_token_id: what follows the last token.

    Returns:
        Ids `(B, longest)`, padded on the right.
    """
    longest = max(1, int(limits.max()))
    padding = input_ids.new_full((len(input_ids), longest), pad_token_id)
    ids = torch.cat((input_ids, padding), dim=1)
    is_done = torch.zeros(len(ids), dtype=torch.bool)
    running = torch.arange(len(ids))  # places in the batch as it was given
    begin = length = input_ids.shape[1]
    # Processors count on the rows, but for those that can be told which are left.
    told: list[Any] = [one for one in logits_processor if hasattr(one, "keep_rows")]
    drops_sentences = len(told) == len(logits_processor)
    while True:
        logits = steps.logits(ids[running, :length]).float()
        logits = processed(logits_processor, ids[running, :length], logits)
        pieces = logits.argmax(dim=-1)
        ids[running, length] = torch.where(is_done, pad_token_id, pieces)
        length += 1
        is_done = is_done | torch.isin(pieces, ends) | (limits[running] <= length - begin)
        if is_done.all():
            return ids[:, :length]
        if drops_sentences and is_worth_dropping(is_done):
            stays = (~is_done).nonzero().flatten()
            steps.keep(stays)
            for processor in told:
                processor.keep_rows(stays)
            running, is_done = running[stays], is_done[stays]


__all__ = ["greedy_search"]
