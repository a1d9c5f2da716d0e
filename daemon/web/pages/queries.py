"""What the query of an address says: declared options, and a few texts; what a page does not know is refused."""

from collections import Counter
from http import HTTPStatus
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import parse_qsl

from starlette.requests import Request

from hierogram.daemon.web.protocol.parameters import unknown_parameter
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.storage.options import Declared, OptionError, check, declared

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LARGEST_ID = (1 << 63) - 1

_LONGEST = 60_000
"""Characters of a value; a request's head is not longer."""

Options = TypeVar("Options", bound="DataclassInstance")


def texts(request: Request, *known: str) -> dict[str, str]:
    """The query's values by their names, those that are not there or empty left out; raises `ProblemError`."""
    try:
        given = parse_qsl(
            request.scope["query_string"].decode("ascii"), errors="strict", max_num_fields=100
        )  # fmt: skip
    except ValueError as error:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "the query is not UTF-8, written with % and two digits") from error
    for name, times in Counter(name for name, _ in given).items():
        if name not in known:
            raise unknown_parameter(name, list(known))
        if times > 1:
            raise _wrong(name, f"comes {times} times, but may come once")
    for name, value in given:
        if "\0" in value or len(value) > _LONGEST:
            raise _wrong(name, f"is a text without NUL, of {_LONGEST:,} characters at most")
    return {name: value for name, value in given if value}


def options(request: Request, kind: type[Options], *more: str) -> tuple[Options, dict[str, str]]:
    """The declared options that the query names, and its other values; raises `ProblemError`."""
    fields = declared(kind)
    given = texts(request, *fields, *more)
    values = {name: _typed(fields[name], value) for name, value in given.items() if name in fields}
    made = kind(**values)
    try:
        check(made)
    except OptionError as error:
        raise _wrong(error.option, error.reason) from error
    return made, {name: value for name, value in given.items() if name not in fields}


def _typed(field: Declared, text: str) -> Any:
    kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
    if int not in kinds:
        return text
    number = whole_number(text)
    if number is None:
        raise _wrong(field.name, f"is a whole number, not {text[:40]!r}")
    return number


def whole_number(text: str) -> int | None:
    """The number that the digits write, None for other texts and for what no id is as large as."""
    digits = text.strip().lstrip("0") or text.strip()[-1:]
    # Python takes no longer texts for numbers, so the length comes first.
    if not digits.isascii() or not digits.isdecimal() or len(digits) > len(str(LARGEST_ID)):
        return None
    return int(digits) if int(digits) <= LARGEST_ID else None


def _wrong(name: str, reason: str) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{name}: {reason}", parameter=name)
