# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a client is told when its request is not answered."""


class RequestError(Exception):
    """A request that is answered by a status and a sentence.

    Args:
        status: of HTTP, 400 or above.
        message: what the client is told.
        retry_after_seconds: when to ask again; `None` for a request that will not do any better.
        closes: whether the connection ends, because the rest of the request is not read.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after_seconds: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = {}
        if retry_after_seconds is not None:
            self.headers["Retry-After"] = str(retry_after_seconds)
        if closes:
            self.headers["Connection"] = "close"
