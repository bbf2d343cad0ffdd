# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From checkpoints of fairseq's `TransformerModel`, which most published reproductions were.

| What | fairseq | Here |
|---|---|---|
| sinusoids | wavelengths of tensor2tensor, all sines before all cosines | learned positions |
| first position | row `<pad>` + 1 of the table | row 0 |
| attention | biases; in old files one matrix for queries, keys, values | biases, three matrices |
| decoder start | `</s>` | `decoder_start_token_id` |
| a piece that the dictionary lacks | `<unk>` | the same, see `tokenizer_of_codes` |
"""

from .conversion import from_fairseq, vaswani_from_fairseq


__all__ = ["from_fairseq", "vaswani_from_fairseq"]
