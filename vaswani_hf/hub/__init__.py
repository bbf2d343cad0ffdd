# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How does a model travel? Its folder and card, to the Hub and back, and the check of what came."""

from typing import TYPE_CHECKING

from ..imports import imported_at_use


if TYPE_CHECKING:
    from .card import write_model_card
    from .download import fetch
    from .errors import HubError
    from .folder import export
    from .upload import Pushed, push


__all__ = ["HubError", "Pushed", "export", "fetch", "push", "write_model_card"]

__getattr__, __dir__ = imported_at_use(
    __name__,
    {
        "HubError": "errors",
        "Pushed": "upload",
        "export": "folder",
        "fetch": "download",
        "push": "upload",
        "write_model_card": "card",
    },
)
