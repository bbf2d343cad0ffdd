# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What does a run leave? Evaluation, averages, results, publishing; and the plan of a dry run."""
