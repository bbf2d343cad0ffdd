# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""From and to the files of Marian NMT itself: `model.npz`, `decoder.yml`, vocabularies.

| Topic | Marian | Here |
|---|---|---|
| wavelengths of sinusoids | 10000^(i / (d_model / 2 - 1)) | 10000^(2i / d_model) (section 3.5) |
| order of sinusoids | all sines, then all cosines | interleaved (section 3.5) |
| decoder start | a vector of zeros, no piece | the row of `decoder_start_token_id` |
| padding | no piece | `pad_token_id` |
| biases | in all projections, mostly in the output too | `attention_bias`, `output_bias` |
| layer normalization epsilon | 1e-6, no setting | `layer_norm_eps` |
| length penalty | n^alpha | also the paper's (section 6.1) |

A model from Marian gets its sinusoids as learned positions, a piece `<pad>` whose row is zeros, and
so computes the same. The other way that is not always so: `to_marian_npz` measures the difference.
"""

from .conversion import (
    from_marian_npz,
    marian_npz_from_vaswani,
    to_marian_npz,
    vaswani_from_marian_npz,
)


__all__ = [
    "from_marian_npz",
    "marian_npz_from_vaswani",
    "to_marian_npz",
    "vaswani_from_marian_npz",
]
