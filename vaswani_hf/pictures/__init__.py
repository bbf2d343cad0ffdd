# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What can be plotted? Curves of runs, equation 3, section 3.5. Needs the extra `[plot]`."""

from .drawing import save_picture
from .positions import plot_positions
from .runs import plot_training, read_log
from .schedule import plot_learning_rate


__all__ = ["plot_learning_rate", "plot_positions", "plot_training", "read_log", "save_picture"]
