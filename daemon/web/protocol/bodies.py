"""Request input: queries, pair ids, forms, and bodies of bounded size."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect

from hierogram.daemon.text.lines import LineSplitter
from hierogram.daemon.web.protocol.access import COOKIE, Sessions, is_cross_site
from hierogram.daemon.web.protocol.problems import SHOWN_CHARACTERS, ProblemError, describe, wrong_values

MAX_ID = (1 << 63) - 1
PairId = Annotated[int, Path(ge=1, le=MAX_ID, description="Number of the pair.")]

_BLOCK_BYTES = 1 << 16
_LINES_PER_CHUNK = 2_000
_BYTES_PER_CHUNK = 4 << 20


def check_content(request: Request, kinds: Sequence[str], expected: str) -> None:
    """Raise `ProblemError` (415) for a content type not in `kinds`. The message ends with `expected`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        detail = f"unsupported content type {kind or '(none)'}: {expected}"
        raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


async def body_blocks(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the blocks of a body. Raises `ProblemError` if it is too large, too slow or incomplete."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    size = 0
    try:
        async for block in request.stream():
            size += len(block)
            if size > max_bytes:
                raise _too_large(max_bytes)
            yield block
    except ClientDisconnect as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the client disconnected after {size} bytes") from error


def _too_large(max_bytes: int) -> ProblemError:
    detail = f"the body exceeds {max_bytes} bytes: split it into several requests"
    return ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, {"Connection": "close"})


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the whole body. Raises the errors of `body_blocks`."""
    content = bytearray()
    async for block in body_blocks(request, max_bytes):
        content += block
    return bytes(content)


async def line_chunks(request: Request, max_bytes: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a body in chunks. Raises the errors of `body_blocks` and `LineSplitter`."""
    splitter = LineSplitter("the body")
    gathered = bytearray()
    lines: list[bytes] = []
    async for block in body_blocks(request, max_bytes):
        gathered += block
        if len(gathered) < _BLOCK_BYTES:
            continue
        lines += splitter.feed(bytes(gathered))
        gathered.clear()
        if len(lines) >= _LINES_PER_CHUNK or sum(map(len, lines)) >= _BYTES_PER_CHUNK:
            yield lines
            lines = []
    lines += splitter.feed(bytes(gathered)) + splitter.end()
    for first in range(0, len(lines), _LINES_PER_CHUNK):
        yield lines[first : first + _LINES_PER_CHUNK]


JSON = "application/json"

BODY_PROBLEMS = describe({413: "The body is too large.", 415: "The content type is not JSON."})


class StrictBody(BaseModel):
    """JSON object without unknown members and without conversions between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Body = TypeVar("_Body", bound=StrictBody)


def json_body(model: type[StrictBody]) -> dict[str, object]:
    """Return the `requestBody` section of the OpenAPI document for a JSON body."""
    schema = model.model_json_schema()
    # Inline the definitions, because `$defs` would be misplaced in the OpenAPI document.
    definitions = schema.pop("$defs", {})

    def resolved(value: object) -> object:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            return resolved(definitions[name]) if name else {key: resolved(item) for key, item in value.items()}
        return [resolved(item) for item in value] if isinstance(value, list) else value

    return {"requestBody": {"required": True, "content": {JSON: {"schema": resolved(schema)}}}}


async def read_json(request: Request, model: type[_Body], max_bytes: int) -> _Body:
    """Parse a JSON body. Raises `ProblemError` if it cannot be read or does not fit the model."""
    check_content(request, [JSON], f"send JSON as `{JSON}`")
    content = await read_body(request, max_bytes)
    try:
        return model.model_validate(json.loads(content))
    except ValidationError as error:
        raise wrong_values(error.errors()) from error
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"the body is not JSON: {error}") from error


_MAX_PARAMETERS = 100


def parse_query(request: Request, accepted: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Parse the query. `accepted` maps parameters to True if they are repeatable. Raises `ProblemError`."""
    try:
        query = request.scope["query_string"].decode("ascii")
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS)
    except UnicodeError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query must be percent-encoded UTF-8") from error
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {error}") from error
    for name, count in Counter(name for name, _ in pairs).items():
        if name not in accepted:
            hint = f"expected {', '.join(map(repr, accepted))}" if accepted else "this path has no parameters"
            name = name[:SHOWN_CHARACTERS]
            raise ProblemError(HTTPStatus.BAD_REQUEST, f"unknown query parameter {name!r}: {hint}", parameter=name)
        if count > 1 and not accepted[name]:
            detail = f"the query parameter {name!r} is given {count} times, but must be given once"
            raise ProblemError(HTTPStatus.BAD_REQUEST, detail, parameter=name)
    return pairs


async def check_query(request: Request) -> None:
    """Check the query against the parameters in the OpenAPI document. Raises `ProblemError`."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    operation = request.app.openapi()["paths"].get(path, {}).get(request.method.lower(), {})
    parameters = (parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query")
    parse_query(request, {parameter["name"]: parameter["schema"].get("type") == "array" for parameter in parameters})


_MAX_VALUE_LENGTH = 60_000
"""Maximum length of a query value, in characters. uvicorn rejects request heads above 64 KiB first."""


def query_values(request: Request, *names: str) -> dict[str, str]:
    """Return the non-empty query values by name. Raises `ProblemError` if a name or value is invalid."""
    parameters = parse_query(request, dict.fromkeys(names, False))
    for name, value in parameters:
        if "\0" in value or len(value) > _MAX_VALUE_LENGTH:
            raise invalid_value(name, f"must be a text of up to {_MAX_VALUE_LENGTH:,} characters without NUL")
    return {name: value for name, value in parameters if value}


def whole_number(text: str) -> int | None:
    """Parse a nonnegative integer. Returns None for other texts and for numbers above `MAX_ID`."""
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    # Check the length first, because Python refuses to convert very long digit strings.
    if not digits.isascii() or not digits.isdecimal() or len(digits) > len(str(MAX_ID)):
        return None
    return int(digits) if int(digits) <= MAX_ID else None


def invalid_value(name: str, reason: str) -> ProblemError:
    """Return the 422 problem for an invalid query value."""
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name}: {reason}", parameter=name)


_MAX_FORM_BYTES = 1 << 16
_FORM = "application/x-www-form-urlencoded"


async def form_values(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `ProblemError` for cross-site requests and invalid bodies."""
    if is_cross_site(request):
        raise ProblemError(HTTPStatus.FORBIDDEN, "requests from other sites are not allowed; nothing was changed")
    check_content(request, [_FORM], f"send the form as {_FORM}")
    body = await read_body(request, _MAX_FORM_BYTES)
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the form cannot be read: {error}") from error


async def confirmed_form(request: Request, sessions: Sessions) -> dict[str, str]:
    """Return the fields of a form. Raises `ProblemError`, also if its CSRF token is invalid."""
    values = await form_values(request)
    if not sessions.is_form_valid(values.get("form_token", ""), request.cookies.get(COOKIE), request.url.path):
        raise ProblemError(HTTPStatus.FORBIDDEN, "the form has expired: reload the page; nothing was changed")
    return values
