"""Declared options as plain values: what a stored job, a file of configuration and a request hold."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hierogram.storage.options import declared

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

DEFAULT_STORE = "sqlite:///hierogram.db"
"""The store that commands and the daemon work on where none is named."""


def as_plain(options: "DataclassInstance") -> dict[str, Any]:
    """Return the options as JSON has them, without those that are as by default."""
    found = declared(type(options))
    return {
        name: _plain(value)
        for name, value in asdict(options).items()
        if found[name].default is MISSING or value != found[name].default
    }


def all_plain(options: "DataclassInstance") -> dict[str, Any]:
    """Return all options as JSON has them."""
    return {name: _plain(value) for name, value in asdict(options).items()}


def from_plain(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the options of plain values; the inverse of `as_plain`.

    Raises `pydantic.ValidationError` where a name is unknown or a value does not fit.
    """
    # Slow to load.
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_python(values)


def constraints(kind: type["DataclassInstance"], name: str) -> dict[str, Any]:
    """Return what pydantic and FastAPI are to know of an option: its help and its bounds."""
    option = declared(kind)[name].option
    bounds = {"ge": option.least, "le": option.most, "gt": option.above, "lt": option.below}
    return {"description": option.text(), **{bound: value for bound, value in bounds.items() if value is not None}}


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case Path():
            return str(value)
        case tuple():
            return [_plain(part) for part in value]
    return value
