# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""Text for a terminal, whatever its encoding."""

import sys


def escape_unprintable() -> None:
    r"""Let standard output and error write what their encoding lacks as `\xe4`, and not fail."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # one that was put in their place may have none
            stream.reconfigure(errors="backslashreplace")
