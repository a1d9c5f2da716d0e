"""Declare options: by a dataclass, whose fields say their type, their default, and an `Option` with the rest.

    @dataclass(frozen=True)
    class Limits:
        words: Annotated[int, Option("Longest side, in words.", least=1)] = 200

The command line, stored jobs, the configuration and stores take their names, types, bounds and defaults from it.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from enum import Enum
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


LARGEST_NUMBER = (1 << 63) - 1
"""Whole numbers are at most this large wherever none says less: databases hold no larger ones."""


class OptionError(ValueError):
    """An option has a value that it cannot have; `option` is its name, `reason` says why."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Option:
    """Declare an option beside its type and its default.

    `help` is one sentence. Numbers are at least `least` and at most `most`, above `above` and below `below`; so is each
    of several. A text is one of `values`; where these are a mapping from texts, it says what each means. `shown` says
    what the default is, where its value does not. `metavar` stands for the value in help. `flags` are the names on the
    command line, where they are other than `--the-name`; a `positional` option has none. Nor has an option for experts
    (`expert`), which commands take as `--set name=value`.
    """

    help: str
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    values: Collection[str] | None = None
    shown: str | None = None
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    positional: bool = False
    expert: bool = False

    def text(self) -> str:
        """The help, with the values that there are."""
        if self.values is None:
            return self.help
        meanings = self.values if isinstance(self.values, Mapping) else {}
        shown = (f"{value} ({meanings[value]})" if meanings.get(value) else value for value in self.values)
        return f"{self.help.removesuffix('.')}: {', '.join(shown)}."

    def problem(self, value: object) -> str | None:
        """Why the option cannot have the value, which is of its type; None where it can."""
        if value is None:
            return None
        for one in value if isinstance(value, tuple | list) else (value,):
            if reason := self._problem_of_one(one):
                return reason
        return None

    def _problem_of_one(self, value: object) -> str | None:
        if self.values is not None:
            return None if value in self.values else f"{value!r} is not there; there are {', '.join(self.values)}"
        if not isinstance(value, int | float):
            return None
        below = "finite" if self.below == inf else f"below {self.below}"
        # Written so that a value that is no number meets none of them.
        for met, said in (
            (self.least is None or value >= self.least, f"has to be at least {self.least}"),
            (self.most is None or value <= self.most, f"has to be at most {self.most}"),
            (self.above is None or value > self.above, f"has to be above {self.above}"),
            (self.below is None or value < self.below, f"has to be {below}"),
            (isinstance(value, float) or value <= LARGEST_NUMBER, f"has to be at most {LARGEST_NUMBER}"),
        ):
            if not met:
                return f"{value} {said}"
        return None


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a dataclass of options: its name, its type without the declaration, its default, the declaration."""

    name: str
    type: Any
    default: Any
    option: Option

    @staticmethod
    @cache
    def of(options: type) -> "dict[str, Declared]":
        """Return a dataclass's fields by their names, in their order; those without an `Option` are left out."""
        hints = get_type_hints(options, include_extras=True)
        found = {}
        for field in fields(options):
            hint = hints[field.name]
            if get_origin(hint) is Annotated:
                kind, *notes = get_args(hint)
                for note in notes:
                    if isinstance(note, Option):
                        found[field.name] = Declared(field.name, kind, field.default, note)
        return found

    @property
    def required(self) -> bool:
        """Return whether there is no default."""
        return self.default is MISSING

    def constraints(self) -> dict[str, Any]:
        """Return what pydantic and FastAPI are to know of it: its help and its bounds."""
        option = self.option
        bounds = {"ge": option.least, "le": option.most, "gt": option.above, "lt": option.below}
        return {"description": option.text(), **{bound: value for bound, value in bounds.items() if value is not None}}


def check(options: "DataclassInstance") -> None:
    """Raise `OptionError` where a value of the dataclass is out of its bounds, or not among its values."""
    for name, field in Declared.of(type(options)).items():
        reason = field.option.problem(getattr(options, name))
        if reason:
            raise OptionError(name, reason)


T = TypeVar("T")

DEFAULT_STORE = "sqlite:///hierogram.db"
"""The store that commands and the daemon work on where none is named."""


def as_plain(options: "DataclassInstance") -> dict[str, Any]:
    """Return the options as JSON has them, without those that are as by default."""
    found = Declared.of(type(options))
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


def _plain(value: Any) -> Any:
    match value:
        case Enum():
            return value.value
        case Path():
            return str(value)
        case tuple():
            return [_plain(part) for part in value]
    return value
