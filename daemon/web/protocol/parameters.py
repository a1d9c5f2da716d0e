"""Query parameters that a route does not know are refused: a misspelled name would change what is done, in silence."""

from collections import Counter
from difflib import get_close_matches
from http import HTTPStatus
from urllib.parse import parse_qsl

from fastapi import Request

from hierogram.daemon.web.protocol.document import query_parameters
from hierogram.daemon.web.protocol.problems import ProblemError

_SHOWN_CHARACTERS = 100
_NEAR = 0.5
"""How alike two names are, as `difflib` measures it, where one may be meant for the other."""


async def refuse_unknown(request: Request) -> None:
    """Raises `ProblemError` (400) where the query holds a name that the route does not know, or one too often."""
    path = getattr(request.scope["route"], "path_format", request.url.path)
    known = query_parameters(request.app.openapi(), request.method, path)
    query = request.scope["query_string"]
    try:
        given = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query is not UTF-8, written with % and two digits") from error
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, f"the query cannot be read: {error}") from error
    for name, times in Counter(name for name, _ in given).items():
        if name not in known:
            raise unknown_parameter(name, list(known))
        if times > 1 and not known[name]:
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, f"{name!r} comes {times} times, but may come once", parameter=name
            )


def unknown_parameter(name: str, known: list[str]) -> ProblemError:
    """The problem of a name that an address does not know, with the nearest that it does."""
    near = get_close_matches(name[:_SHOWN_CHARACTERS].lower(), known, 1, _NEAR)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif known:
        hint = f"there are {', '.join(map(repr, known))}"
    else:
        hint = "this address takes none"
    shown = name[:_SHOWN_CHARACTERS]
    return ProblemError(
        HTTPStatus.BAD_REQUEST,
        f"there is no query parameter {shown!r}: {hint}",
        parameter=shown,
        nearest=near[0] if near else None,
    )
