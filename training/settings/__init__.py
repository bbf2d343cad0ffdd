# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What is a run told? Fields, recipes, the command line, and the rules between them."""
