# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How does text become padded batches? Files, corpora, cleaning, ids, noise, batches, streams."""
