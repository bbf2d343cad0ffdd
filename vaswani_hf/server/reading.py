# Copyright 2026 The vaswani_hf authors. Licensed under the Apache License, Version 2.0.
"""What a request asks for, from its body and its query."""

import asyncio
import json
from typing import Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, Field, ValidationError

from .errors import RequestError
from .limits import Limits


FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
JSON = "application/json"
# Of a body that is too large so many times the limit is read, and not kept: a client that is still
# sending when the connection ends would not see the answer.
READ_IN_VAIN = 16

Text = str | list[str]


class DetectCall(BaseModel):
    """The fields of `POST /detect`."""

    q: Text = Field(description="A text, or several")
    api_key: str | None = None


class TranslateCall(DetectCall):
    """The fields of `POST /translate`."""

    source: str = Field(max_length=20, description='Code of the language of q, or "auto"')
    target: str = Field(max_length=20, description="Code of the language to translate into")
    format: Literal["text", "html"] = Field(
        "text", description="Tags of html stay where their words went"
    )
    alternatives: int = Field(0, description="Further translations of q, as many as there are")


Call = TypeVar("Call", bound=DetectCall)


async def read_call(request: Request, kind: type[Call], limits: Limits) -> Call:
    """The fields of a request: JSON, or a form; those of its query are taken too.

    Raises:
        RequestError: if it is too large or too slow, or not what it should be.
        ClientDisconnect: if the client has gone.
    """
    fields: dict[str, Any] = _of_items(request.query_params.multi_items())
    body = await _read_body(request, limits)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == JSON:
        fields |= _of_json(body)
    elif content_type in FORMS:
        fields |= await _of_form(request, body)
    call = _checked(kind, fields)
    _check_texts(texts_of(call), limits)
    return call


def texts_of(call: DetectCall) -> list[str]:
    return [call.q] if isinstance(call.q, str) else call.q


async def _read_body(request: Request, limits: Limits) -> bytes:
    most = limits.max_body_bytes
    message = f"The body of a request may have {most} bytes"
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:18]) > READ_IN_VAIN * most:
        raise RequestError(413, message, closes=True)
    body, num_bytes = bytearray(), 0
    try:
        async with asyncio.timeout(limits.read_timeout_seconds):
            async for chunk in request.stream():
                num_bytes += len(chunk)
                if num_bytes <= most:
                    body += chunk
                elif num_bytes > READ_IN_VAIN * most:
                    raise RequestError(413, message, closes=True)
    except TimeoutError:
        seconds = limits.read_timeout_seconds
        raise RequestError(
            408, f"The body of the request did not come within {seconds:g} seconds", closes=True
        ) from None
    if num_bytes > most:
        raise RequestError(413, message)
    return bytes(body)


def _of_json(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, "Invalid JSON format") from None
    if not isinstance(fields, dict):
        raise RequestError(400, "Invalid JSON format: an object is needed")
    return {name: value for name, value in fields.items() if value is not None}


async def _of_form(request: Request, body: bytes) -> dict[str, Any]:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    form = Request(request.scope, receive).form(max_files=0, max_part_size=len(body) + 1)
    try:
        async with form as found:
            return _of_items(found.multi_items())
    except ValueError:  # of python-multipart, which older versions of Starlette let through
        raise RequestError(400, "Invalid form") from None


def _of_items(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a form; several `q` are a list."""
    fields = dict(items)
    texts = [value for name, value in items if name == "q"]
    if len(texts) > 1:
        fields["q"] = texts
    return fields


def _checked(kind: type[Call], fields: dict[str, Any]) -> Call:
    for name, field in kind.model_fields.items():
        if field.is_required() and not fields.get(name):
            raise RequestError(400, f"Invalid request: missing {name} parameter")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise RequestError(
            400, f"Invalid request: {first['loc'][0]} parameter: {first['msg']}"
        ) from None


def _check_texts(texts: list[str], limits: Limits) -> None:
    most, num_characters = limits.max_characters, sum(map(len, texts))
    if num_characters > most:
        raise RequestError(
            413, f"A request may have {most} characters of text, this has {num_characters}"
        )
    if len(texts) > limits.max_sentences:
        raise RequestError(
            413, f"A request may have {limits.max_sentences} sentences, this has {len(texts)} texts"
        )
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RequestError(
                400, "Invalid request: q parameter has half of a surrogate pair"
            ) from None
