"""Bodies of requests, as they come, at once, or as lists of lines: of bounded size, in bounded memory."""

from collections.abc import AsyncIterator
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from hierogram.daemon.corpora.lines import LineSplitter
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.web.protocol.problems import ProblemError

_BLOCK = 1 << 16
_LINES_A_CHUNK = 2_000
_BYTES_A_CHUNK = 4 << 20


class ClientGoneError(DaemonError):
    """The client went away in the middle of its request."""


def _too_large(most_bytes: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {most_bytes} bytes: send it in parts",
        {"Connection": "close"},
    )


async def blocks(request: Request, most_bytes: int) -> AsyncIterator[bytes]:
    """The body as it comes; the protocol sees to it that it comes in time.

    Raises `ProblemError` with 413 where it is or says that it is larger than `most_bytes`, with 408 where it comes too
    slowly, with 503 where the daemon ends, and `ClientGoneError`.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    size = 0
    try:
        async for block in request.stream():
            size += len(block)
            if size > most_bytes:
                raise _too_large(most_bytes)
            yield block
    except ClientDisconnect as error:
        raise ClientGoneError(f"the client went away after {size} bytes") from error


async def whole(request: Request, most_bytes: int) -> bytes:
    """The body at once; raises as `blocks` does, but `ProblemError` where the client went away."""
    content = bytearray()
    try:
        async for block in blocks(request, most_bytes):
            content += block
    except ClientGoneError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from error
    return bytes(content)


async def line_chunks(request: Request, most_bytes: int) -> AsyncIterator[list[bytes]]:
    """The body's lines, some thousand or some megabytes at a time; raises as `blocks` does."""
    splitter = LineSplitter()
    gathered = bytearray()
    lines: list[bytes] = []
    size = 0
    async for block in blocks(request, most_bytes):
        gathered += block
        if len(gathered) < _BLOCK:
            continue
        found = splitter.feed(bytes(gathered))
        gathered.clear()
        lines += found
        size += sum(map(len, found))
        if len(lines) >= _LINES_A_CHUNK or size >= _BYTES_A_CHUNK:
            yield lines
            lines, size = [], 0
    lines += splitter.feed(bytes(gathered)) + splitter.end()
    for first in range(0, len(lines), _LINES_A_CHUNK):
        yield lines[first : first + _LINES_A_CHUNK]
