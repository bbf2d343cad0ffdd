# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What can be seen? Attention, positions, the schedule, beams, the loss, heads, trees, runs.

Needs the extra `[plot]`. Functions return figures of matplotlib, without its pyplot.
"""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .attention import Attention, attention_of
    from .attention_figures import plot_attention
    from .beams import BeamTree, beams_of, plot_beams
    from .drawing import save_picture
    from .heads import HeadReport, HeadScore, measure_heads, plot_heads
    from .loss import Calibration, ConfidenceBin, measure_calibration, plot_loss
    from .page import attention_page
    from .positions import plot_positions
    from .runs import plot_training, read_log
    from .schedule import plot_learning_rate
    from .trees import plot_tree


__all__ = [
    "Attention",
    "BeamTree",
    "Calibration",
    "ConfidenceBin",
    "HeadReport",
    "HeadScore",
    "attention_of",
    "attention_page",
    "beams_of",
    "measure_calibration",
    "measure_heads",
    "plot_attention",
    "plot_beams",
    "plot_heads",
    "plot_learning_rate",
    "plot_loss",
    "plot_positions",
    "plot_training",
    "plot_tree",
    "read_log",
    "save_picture",
]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "Attention": "attention",
        "BeamTree": "beams",
        "Calibration": "loss",
        "ConfidenceBin": "loss",
        "HeadReport": "heads",
        "HeadScore": "heads",
        "attention_of": "attention",
        "attention_page": "page",
        "beams_of": "beams",
        "measure_calibration": "loss",
        "measure_heads": "heads",
        "plot_attention": "attention_figures",
        "plot_beams": "beams",
        "plot_heads": "heads",
        "plot_learning_rate": "schedule",
        "plot_loss": "loss",
        "plot_positions": "positions",
        "plot_training": "runs",
        "plot_tree": "trees",
        "read_log": "runs",
        "save_picture": "drawing",
    },
)
