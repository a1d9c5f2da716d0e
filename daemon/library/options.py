"""Options of the library's calls: the dataclasses that commands have, as a whole or field by field."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Declared, Option, OptionError, check

T = TypeVar("T")

PathLike = str | Path


def options_of(kind: type[T], options: T | None, chosen: Mapping[str, Any], named: Callable[[str], str] = str) -> T:
    """Return the options, or those by default, with the fields that are chosen.

    Raises `UsageError`, which calls an option what `named` makes of its name.
    """
    declaring: type = kind
    known = Declared.of(declaring)
    if strange := [name for name in chosen if name not in known]:
        raise UsageError(f"{strange[0]}: there is no such option; there are {', '.join(known)}")
    try:
        made: Any = kind(**chosen) if options is None else replace(options, **chosen)  # type: ignore[type-var]
        check(made)
    except OptionError as error:
        raise UsageError(f"{named(error.option)}: {error.reason}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    found: T = made
    return found


def whole_number(name: str, number: object, least: int) -> int:
    """Return an argument that is a whole number of any type; raises `UsageError`."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise UsageError(f"{name}: give a whole number, not {number!r}")
    found = int(number)
    if problem := Option(name, least=least).problem(found):
        raise UsageError(f"{name}: {problem}")
    return found


def a_text(name: str, value: object) -> str:
    """Return an argument that is a text; raises `UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{name}: give a text, not {value!r}")
    return value
