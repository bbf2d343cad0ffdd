# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The server itself: a socket, connections that may not dawdle, and an end that loses nothing."""

import asyncio
import logging
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits
from .queue import TranslationQueue


logger = logging.getLogger(__name__)
IDLE_SECONDS = 5  # for which a connection is kept after an answer
# Connections beyond those that the queue has room for: to be told that it has none, and to be idle.
SPARE_CONNECTIONS = 256


class Connection(H11Protocol):
    """A connection that ends if the head of a request does not come in time.

    uvicorn itself waits for it without an end. Its own clock runs between an answer and the next
    byte; ours from there, or from the beginning, to the end of a head.
    """

    read_timeout_seconds: float
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wind()

    def _wind(self) -> None:
        if self._is_between_requests():
            if self._clock is None:
                self._clock = self.loop.call_later(self.read_timeout_seconds, self._end)
        elif self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _end(self) -> None:
        self._clock = None
        if self._is_between_requests():
            self.transport.close()

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class Server(uvicorn.Server):
    """Refuses new requests from the signal on; those that it has are answered."""

    def __init__(self, config: uvicorn.Config, queue: TranslationQueue) -> None:
        super().__init__(config)
        self.queue = queue

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            host, port = listening.getsockname()[:2]
            address = f"[{host}]" if ":" in host else host
            logger.info("Serving on http://%s:%d (Ctrl-C stops it)", address, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.queue.refuse()
        super().handle_exit(sig, frame)


def make_server(app: FastAPI, queue: TranslationQueue, limits: Limits) -> Server:
    """A server of the application; `serve` runs it on a socket.

    Args:
        app: of `make_app`.
        queue: that of the application.
        limits: likewise.
    """

    class TimedConnection(Connection):
        read_timeout_seconds = limits.read_timeout_seconds

    config = uvicorn.Config(
        app,
        http=TimedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it shows queries
        server_header=False,
        limit_concurrency=limits.max_queue + SPARE_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        # Each request ends by then on its own.
        timeout_graceful_shutdown=round(limits.timeout_seconds + limits.read_timeout_seconds) + 1,
    )
    return Server(config, queue)


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet; port 0 is any that is free.

    Raises:
        ValueError: if the address is none, or cannot be had.
    """
    if not 0 <= port < 2**16:
        raise ValueError(f"port must be between 0 and 65535, got {port=}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ValueError(f"{host} port {port} cannot be served ({error}); name another.") from None
    return bound


def serve(server: Server, bound: socket.socket) -> None:
    """Answer requests until a signal comes, and then those that are there."""
    server.queue.start()
    try:
        server.run(sockets=[bound])
    finally:
        server.queue.close()
