# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""How much a server takes on, so that nobody's request costs everybody's."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Limits:
    """What is above them is refused with an error, never cut.

    Attributes:
        max_body_bytes: of a request.
        max_characters: of all texts of a request.
        max_sentences: of all texts of a request.
        max_queue: requests that wait or are being translated.
        timeout_seconds: within which a request is answered, once it has been read.
        read_timeout_seconds: within which a client must send the head of a request, and then the
            body.

    Raises:
        ValueError: if one is not above 0.
    """

    max_body_bytes: int = 2**20
    max_characters: int = 100_000
    max_sentences: int = 2000
    max_queue: int = 512
    timeout_seconds: float = 60.0
    read_timeout_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{field.name} must be above 0, got {field.name}={value}.")
