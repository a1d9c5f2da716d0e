"""Validation of the options and arguments of library calls."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Option, OptionError, OptionField, check

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

PathLike = str | Path


def resolve_options(kind: type[T], options: T | None, chosen: Mapping[str, object]) -> T:
    """Return `options`, or the default ones, with the `chosen` fields replaced; raises `UsageError`."""
    return make_options(kind, chosen) if options is None else _validated(lambda: replace(options, **chosen))


def make_options(kind: type[T], values: Mapping[str, object], named: Callable[[str], str] = str) -> T:
    """Return options with these values; raises `UsageError`, which calls an option `named(field)`."""
    declared: type = kind
    if unknown := [name for name in values if name not in OptionField.of(declared)]:
        raise UsageError(f"unknown option {unknown[0]}: expected {', '.join(OptionField.of(declared))}")
    return _validated(lambda: kind(**values), named)


def _validated(make: Callable[[], T], named: Callable[[str], str] = str) -> T:
    try:
        made: Any = make()
        check(made)
    except OptionError as error:
        raise UsageError(f"{named(error.option)}: {error.reason}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    found: T = made
    return found


def check_integer(name: str, number: object, least: int) -> int:
    """Return an integer argument, which may be of any integral type; raises `UsageError`."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise UsageError(f"{name}: expected an integer, got {number!r}")
    found = int(number)
    if problem := Option(name, min=least).problem(found):
        raise UsageError(f"{name}: {problem}")
    return found


def check_text(name: str, value: object) -> str:
    """Return a string argument; raises `UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a string, got {value!r}")
    return value


def whole_numbers(ids: int | Iterable[int]) -> list[int]:
    """Return the ids of one pair or several as a list. Raises `UsageError` for anything that is not a whole number."""
    try:
        return [index(one) for one in (ids if isinstance(ids, Iterable) else [ids])]
    except TypeError as error:
        raise UsageError(f"ids must be pair numbers, got {ids!r}") from error
