"""Validation of options and arguments of library calls."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Option, OptionError, OptionField, check
from hierogram.storage.records.operations import EVENT_KINDS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

PathLike = str | Path


def resolve_options(kind: type[T], options: T | None, overrides: Mapping[str, object]) -> T:
    """Return `options` (None: defaults) with fields replaced by `overrides`. Raises `UsageError`."""
    return make_options(kind, overrides) if options is None else _validated(lambda: replace(options, **overrides))


def make_options(kind: type[T], values: Mapping[str, object], display_name: Callable[[str], str] = str) -> T:
    """Create options. Raises `UsageError`, with the name of an invalid field converted by `display_name`."""
    declared = OptionField.of(kind)
    if unknown := [name for name in values if name not in declared]:
        raise UsageError(f"unknown option {unknown[0]}: expected {', '.join(declared)}")
    return _validated(lambda: kind(**values), display_name)


def _validated(make: Callable[[], T], display_name: Callable[[str], str] = str) -> T:
    try:
        options = make()
        check(options)
        return options
    except OptionError as error:
        raise UsageError(f"{display_name(error.option)}: {error.reason}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error


AFTER_EVENT = Option("Start after this event number.", min=0, shown="the oldest event")
KINDS = Option("Kinds of events, separated by commas", values=EVENT_KINDS, flags=("--kind",))


def check_integer(name: str, number: object, option: Option) -> int:
    """Convert an integer of any type to `int`. Raises `UsageError` for other or out-of-bounds values."""
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise UsageError(f"{name}: expected an integer, got {number!r}")
    integer = int(number)
    if problem := option.problem(integer):
        raise UsageError(f"{name}: {problem}")
    return integer


def check_text(name: str, value: object) -> str:
    """Return an argument that must be a string. Raises `UsageError` for other types."""
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a string, got {value!r}")
    return value


def list_ids(ids: int | Iterable[int]) -> list[int]:
    """Return one id or several as a list. Raises `UsageError` if an id is not an integer."""
    values = list(ids) if isinstance(ids, Iterable) else [ids]
    try:
        # Reject bytes, which are iterables of integers, and booleans, which are integers.
        if isinstance(ids, bytes | bytearray) or any(isinstance(value, bool) for value in values):
            raise TypeError
        return [index(value) for value in values]
    except TypeError as error:
        raise UsageError(f"ids must be integers, got {ids!r}") from error
