# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Which settings of a recipe are best? What is varied, judged and drawn."""
