"""Bodies of requests as lists of lines: in bounded memory, of bounded size, from clients that are not too slow."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from http import HTTPStatus

from starlette.requests import ClientDisconnect, Request

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.corpora.lines import LineSplitter
from hierogram.daemon.exceptions import DaemonError
from hierogram.daemon.web.protocol.problems import ProblemError, try_later

_LOOK_SECONDS = 0.25
_BLOCK = 1 << 16
_LINES_A_CHUNK = 2_000
_BYTES_A_CHUNK = 4 << 20


class ClientGoneError(DaemonError):
    """The client went away in the middle of its request."""


def ending_problem() -> ProblemError:
    """The daemon ends or reads its configuration again."""
    return try_later("the daemon is stopping: send the rest to the next one", 5)


def _too_large(configuration: HttpConfiguration) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is larger than {configuration.max_request_bytes} bytes: send it in parts, or see max_request_bytes",
        {"Connection": "close"},
    )


async def _blocks(
    request: Request, configuration: HttpConfiguration, ending: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The body as it comes; raises `ProblemError`, `ClientGoneError`."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > configuration.max_request_bytes:
        raise _too_large(configuration)
    stream = request.stream()
    size = 0
    waited = 0.0
    while True:
        coming = asyncio.ensure_future(anext(stream, b""))
        try:
            began = time.monotonic()
            silent = 0.0
            while not (await asyncio.wait([coming], timeout=_LOOK_SECONDS))[0]:
                silent = time.monotonic() - began
                if ending():
                    raise ending_problem()
                if silent > configuration.client_timeout:
                    raise _too_slow(f"nothing came for {silent:.0f} s")
            waited += time.monotonic() - began
            try:
                block = coming.result()
            except ClientDisconnect as error:
                raise ClientGoneError(f"the client went away after {size} bytes") from error
        finally:
            coming.cancel()
            with suppress(asyncio.CancelledError, ClientDisconnect, StopAsyncIteration):
                await coming
        if not block:
            return
        size += len(block)
        if size > configuration.max_request_bytes:
            raise _too_large(configuration)
        if waited > configuration.client_timeout and size < waited * configuration.min_bytes_per_second:
            raise _too_slow(f"{size} bytes came in {waited:.0f} s")
        yield block


def _too_slow(what: str) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_TIMEOUT, f"the client is too slow: {what}; see client_timeout", {"Connection": "close"}
    )


async def line_chunks(
    request: Request, configuration: HttpConfiguration, ending: Callable[[], bool]
) -> AsyncIterator[list[bytes]]:
    """The body's lines, some thousand or some megabytes at a time; raises `ProblemError`, `ClientGoneError`."""
    splitter = LineSplitter()
    gathered = bytearray()
    lines: list[bytes] = []
    size = 0
    async for block in _blocks(request, configuration, ending):
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
