# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""The routes: LibreTranslate's API, as far as a server without language detection has it."""

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import __version__
from .errors import RequestError
from .keys import check_key
from .limits import Limits
from .metrics import Metrics
from .pairs import AUTO, Pairs
from .queue import Job, TranslationQueue
from .reading import FORMS, JSON, DetectCall, TranslateCall, read_call, texts_of


logger = logging.getLogger(__name__)
CLIENT_GONE = 499  # in counts and the log alone: nobody is there to read it
PATHS = (
    *("/translate", "/detect", "/languages", "/health", "/metrics", "/frontend/settings"),
    "/spec",
)
# We do not look at a text to tell its language: we know only what there is to choose from.
NOT_DETECTED = 0.0


class Detected(BaseModel):
    """A language that a text may be in; `confidence` is a percentage."""

    confidence: float
    language: str


class Translated(BaseModel):
    """The answer of `POST /translate`; for a list of texts each field is a list of as many."""

    translatedText: str | list[str]  # noqa: N815 (LibreTranslate's name)
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Failed(BaseModel):
    """The answer to what is not answered."""

    error: str


def make_app(
    pairs: Pairs,
    queue: TranslationQueue,
    limits: Limits,
    metrics: Metrics,
    *,
    keys: Sequence[str] | None = None,
    log_text: bool = False,
) -> FastAPI:
    """The application that a server of ASGI runs.

    Args:
        pairs: what it translates between.
        queue: translates; it has been started.
        limits: what it takes on.
        metrics: those that the queue has too.
        keys: of which a client must give one; `None` where it needs none.
        log_text: whether texts and translations go to the log, where nothing of them goes else.
    """
    described = pairs.described()
    failures: dict[int | str, dict[str, Any]] = {
        status: {"model": Failed} for status in (400, 403, 408, 413, 429, 500, 503, 504)
    }
    app = FastAPI(
        title="vaswani_hf",
        description="Translation by LibreTranslate's API",
        version=__version__,
        openapi_url="/spec",
        docs_url=None,  # a page that loads its script from elsewhere
        redoc_url=None,
    )
    app.add_middleware(Observer, metrics=metrics)
    # A browser's extensions and pages ask from other origins, as LibreTranslate lets them.
    app.add_middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["GET", "POST"], allow_headers=["*"]
    )

    @app.exception_handler(RequestError)
    def refuse(request: Request, error: RequestError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, error.status, error.headers)

    @app.exception_handler(HTTPException)
    def refuse_path(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(ClientDisconnect)
    def note(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_GONE)

    @app.post(
        "/translate",
        openapi_extra=_body_of(TranslateCall),
        response_model=Translated,
        responses=failures,
    )
    async def translate(request: Request) -> Response:
        """Translate a text, or a list of texts, of any number of sentences each."""
        call = await read_call(request, TranslateCall, limits)
        check_key(keys, call.api_key)
        served = pairs.find(call.source, call.target)
        texts = texts_of(call)
        most = served.translator.num_beams - 1  # other hypotheses that the search has
        num_alternatives = min(max(call.alternatives, 0), most)
        job = queue.add(served, texts, 1 + num_alternatives, call.format)
        found = await _answer(request, job, queue, limits.timeout_seconds)
        metrics.count_texts(served.languages, sum(map(len, texts)))
        fields: dict[str, list[Any]] = {"translatedText": [ranked[0] for ranked in found]}
        if call.alternatives > 0:
            fields["alternatives"] = [ranked[1:] for ranked in found]
        if call.source == AUTO:
            language = served.languages.source
            detected = {"confidence": NOT_DETECTED, "language": language}
            fields["detectedLanguage"] = [detected] * len(texts)
        if log_text:
            exchange = {"pair": str(served.languages), "q": texts, **fields}
            logger.info("%s", json.dumps(exchange, ensure_ascii=False))
        if isinstance(call.q, list):
            return JSONResponse(fields)
        return JSONResponse({name: value for name, (value,) in fields.items()})

    @app.post(
        "/detect",
        openapi_extra=_body_of(DetectCall),
        response_model=list[Detected],
        responses=failures,
    )
    async def detect(request: Request) -> Response:
        """The languages that a text may be in: those that are translated from, unweighted."""
        call = await read_call(request, DetectCall, limits)
        check_key(keys, call.api_key)
        return JSONResponse(
            [{"confidence": NOT_DETECTED, "language": code} for code in pairs.sources]
        )

    @app.get("/languages")
    async def languages() -> Response:
        """The languages, and those that each is translated into."""
        return JSONResponse(described)

    @app.get("/health")
    async def health() -> Response:
        """Whether requests are taken."""
        if queue.is_closing:
            raise RequestError(503, "The server is stopping", closes=True)
        return JSONResponse({"status": "ok"})

    @app.get("/metrics")
    async def show_metrics() -> Response:
        """Counts, for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/frontend/settings")
    async def settings() -> Response:
        """What a page for typing texts needs to know."""
        named = {entry["code"]: entry["name"] for entry in described}
        first = pairs.languages[0]
        return JSONResponse(
            {
                "charLimit": limits.max_characters,
                "frontendTimeout": 500,  # milliseconds after the last key, as LibreTranslate has it
                "apiKeys": keys is not None,
                "keyRequired": keys is not None,
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {
                    side: {"code": code, "name": named[code]}
                    for side, code in first._asdict().items()
                },
            }
        )

    return app


async def _answer(
    request: Request, job: Job, queue: TranslationQueue, timeout_seconds: float
) -> list[list[str]]:
    """Wait for the translations, as long as the client does.

    Raises:
        RequestError: if they take too long, or there are none.
        ClientDisconnect: if the client has gone.
    """
    answer = asyncio.ensure_future(asyncio.wrap_future(job.found))
    gone = asyncio.create_task(_wait_until_gone(request))
    try:
        await asyncio.wait(
            (answer, gone), timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED
        )
        if answer.done():
            return answer.result()
        if gone.done():
            raise ClientDisconnect
        raise RequestError(504, f"The translation took more than {timeout_seconds:g} seconds")
    finally:
        gone.cancel()
        if not answer.done():
            queue.drop(job)


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _body_of(call: type[BaseModel]) -> dict[str, Any]:
    """The description of a body that is JSON or a form."""
    schema = {"schema": call.model_json_schema()}
    return {"requestBody": {"required": True, "content": dict.fromkeys((JSON, *FORMS), schema)}}


class Observer:
    """Counts and logs each request, and answers one that fails by our own mistake.

    Args:
        app: whose requests these are.
        metrics: that count.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.monotonic(), 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, note_status)
        except Exception as error:
            # Without the error's message, which may hold a text.
            places = "".join(traceback.format_tb(error.__traceback__))
            logger.error("A request failed: %s\n%s", type(error).__name__, places)
            if not status:
                await JSONResponse({"error": "Internal Server Error"}, 500)(
                    scope, receive, note_status
                )
        seconds = time.monotonic() - start
        # Of other paths and of the query nothing is told: clients can put texts there.
        path = scope["path"] if scope["path"] in PATHS else "other"
        self.metrics.count_request(path, status, seconds)
        logger.info("%s %s %d %.3f s", scope["method"], path, status, seconds)
