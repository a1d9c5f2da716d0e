"""Declarations of options: dataclass fields with type, default, and an `Option` with help and bounds.

    @dataclass(frozen=True)
    class Limits:
        words: Annotated[int, Option("Longest side, in words.", min=1)] = 200

The command line, stored jobs, the configuration and stores derive names, types, bounds and defaults from these fields.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema


MAX_NUMBER = (1 << 63) - 1
"""Upper bound of integer options without a smaller bound. Databases cannot store larger integers."""


class OptionError(ValueError):
    """An option has an invalid value. `option` is its name, `reason` the problem."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Option:
    """Declaration of an option.

    `help` is the help text. A number, and each number in a tuple, must be >= `min`, <= `max`, > `above` and < `below`.
    A string, and each string in a tuple, must be one of `values`, which may map each value to its meaning. None is
    always valid. `shown` replaces the default in help texts. `metavar` names the value in help texts. `flags` are the
    names on the command line if they differ from `--the-name`. A `positional` option is an argument without a name.
    """

    help: str
    min: float | None = None
    max: float | None = None
    above: float | None = None
    below: float | None = None
    values: Collection[str] | None = None
    shown: str | None = None
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    positional: bool = False

    def text(self) -> str:
        """Return the help text, followed by `values` with their meanings, if any."""
        if self.values is None:
            return self.help
        meanings = self.values if isinstance(self.values, Mapping) else {}
        listed = (f"{value} ({meanings[value]})" if meanings.get(value) else value for value in self.values)
        return f"{self.help.removesuffix('.')}: {', '.join(listed)}."

    def problem(self, value: object) -> str | None:
        """Return the reason why a value of the option's type is invalid, or None."""
        if value is None:
            return None
        items = value if isinstance(value, tuple | list) else (value,)
        return next(filter(None, map(self._problem_of_one, items)), None)

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> "CoreSchema":
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self._valid, handler(source))

    def _valid(self, value: Any) -> Any:
        if problem := self.problem(value):
            raise ValueError(problem)
        return value

    def _problem_of_one(self, value: object) -> str | None:
        if self.values is not None:
            return None if value in self.values else f"must be one of {', '.join(self.values)}, got {value!r}"
        if not isinstance(value, int | float):
            return None
        below = "finite" if self.below == inf else f"< {self.below}"
        # Compare in this direction, so that every bound rejects NaN, which satisfies no comparison.
        for valid, bound in (
            (self.min is None or value >= self.min, f">= {self.min}"),
            (self.max is None or value <= self.max, f"<= {self.max}"),
            (self.above is None or value > self.above, f"> {self.above}"),
            (self.below is None or value < self.below, below),
            (isinstance(value, float) or value <= MAX_NUMBER, f"<= {MAX_NUMBER}"),
        ):
            if not valid:
                return f"must be {bound}, got {value}"
        return None


class Options:
    """Base of dataclasses of options, for which pydantic rejects unknown fields."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True)
class OptionField:
    """Field of a dataclass of options. `type` is its type without `Annotated`."""

    name: str
    type: Any
    default: Any
    option: Option

    @staticmethod
    @cache
    def of(options: type) -> "dict[str, OptionField]":
        """Return the fields of a dataclass that have an `Option`, by name, in order."""
        hints = get_type_hints(options, include_extras=True)
        option_fields = {}
        for field in fields(options):
            hint = hints[field.name]
            if get_origin(hint) is Annotated:
                kind, *notes = get_args(hint)
                for note in notes:
                    if isinstance(note, Option):
                        option_fields[field.name] = OptionField(field.name, kind, field.default, note)
        return option_fields

    @property
    def required(self) -> bool:
        """True if the option has no default."""
        return self.default is MISSING

    def constraints(self) -> dict[str, Any]:
        """Return the help and the bounds as arguments of the `Field` of pydantic or the `Query` of FastAPI."""
        option = self.option
        bounds = {"ge": option.min, "le": option.max, "gt": option.above, "lt": option.below}
        return {"description": option.text(), **{bound: value for bound, value in bounds.items() if value is not None}}


def check(options: "DataclassInstance") -> None:
    """Raise `OptionError` if the value of an option is out of bounds or not one of the allowed values."""
    for name, field in OptionField.of(type(options)).items():
        reason = field.option.problem(getattr(options, name))
        if reason:
            raise OptionError(name, reason)


T = TypeVar("T")

DEFAULT_STORE = "sqlite:///hierogram.db"


def as_plain(options: "DataclassInstance", *, with_defaults: bool = False) -> dict[str, Any]:
    """Return the options as JSON values by name, without default values unless `with_defaults`."""
    dump = _adapter(type(options)).dump_python
    # Disable warnings, because a field of type tuple may contain a list.
    plain: dict[str, Any] = dump(options, mode="json", exclude_defaults=not with_defaults, warnings=False)
    return plain


def from_plain(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the options from JSON values, the inverse of `as_plain`. Raises `pydantic.ValidationError`."""
    return _adapter(kind).validate_python(values)


def _adapter(kind: type[T]) -> "TypeAdapter[T]":
    # Import pydantic only here, because it loads slowly.
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
