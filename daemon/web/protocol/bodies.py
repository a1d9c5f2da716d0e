"""Request input: pair ids, and bodies of bounded size as blocks, bytes, lines or JSON objects."""

import json
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Annotated, TypeVar

from fastapi import Path, Request
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect

from hierogram.daemon.text.lines import LineSplitter
from hierogram.daemon.web.protocol.problems import ProblemError, Responses, wrong_values

MAX_ID = (1 << 63) - 1
PairId = Annotated[int, Path(ge=1, le=MAX_ID, description="Number of the pair.")]

_BLOCK_BYTES = 1 << 16
_LINES_PER_CHUNK = 2_000
_BYTES_PER_CHUNK = 4 << 20


def check_content(request: Request, kinds: Sequence[str], expected: str) -> None:
    """Raise `ProblemError` (415) for a content type not in `kinds`. The message ends with `expected`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"unsupported content type {kind or '(none)'}: {expected}"
        )


async def body_blocks(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the blocks of a body. Raises `ProblemError` if the body is too large or slow, or the client disconnects."""
    too_large = ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body exceeds {max_bytes} bytes: split it into several requests",
        {"Connection": "close"},
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise too_large
    size = 0
    try:
        async for block in request.stream():
            size += len(block)
            if size > max_bytes:
                raise too_large
            yield block
    except ClientDisconnect as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the client disconnected after {size} bytes") from error


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the whole body. Raises the errors of `body_blocks`."""
    content = bytearray()
    async for block in body_blocks(request, max_bytes):
        content += block
    return bytes(content)


async def line_chunks(request: Request, max_bytes: int) -> AsyncIterator[list[bytes]]:
    """Yield the lines of a body in lists of bounded size. Raises the errors of `body_blocks` and `LineSplitter`."""
    splitter = LineSplitter("the body")
    gathered = bytearray()
    lines: list[bytes] = []
    size = 0
    async for block in body_blocks(request, max_bytes):
        gathered += block
        if len(gathered) < _BLOCK_BYTES:
            continue
        complete_lines = splitter.feed(bytes(gathered))
        gathered.clear()
        lines += complete_lines
        size += sum(map(len, complete_lines))
        if len(lines) >= _LINES_PER_CHUNK or size >= _BYTES_PER_CHUNK:
            yield lines
            lines, size = [], 0
    lines += splitter.feed(bytes(gathered)) + splitter.end()
    for first in range(0, len(lines), _LINES_PER_CHUNK):
        yield lines[first : first + _LINES_PER_CHUNK]


JSON = "application/json"

BODY_PROBLEMS: Responses = {
    413: {"description": "The body is too large."},
    415: {"description": "The content type is not JSON."},
}


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
    """Parse a JSON body into a model. Raises `ProblemError` if the body is not valid JSON of the model.

    Also raises the errors of `check_content` and `body_blocks`.
    """
    check_content(request, [JSON], f"send JSON as `{JSON}`")
    content = await read_body(request, max_bytes)
    try:
        return model.model_validate(json.loads(content))
    except ValidationError as error:
        raise wrong_values(error.errors()) from error
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"the body is not JSON: {error}") from error
