"""Declared options as flags of a command: a dataclass among a command's parameters gives a flag for each field."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer

from hierogram.daemon.commands.common import was_given
from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Declared, OptionError, check, declared

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Flag:
    """A parameter of the command line, with the dataclass and the field that it fills."""

    group: str
    field: Declared
    parameter: inspect.Parameter


def with_options(command: Callable[..., T]) -> Callable[..., T]:
    """The command with flags in the place of each parameter whose type is a dataclass of declared options.

    The command gets the dataclass, made from the flags and checked. What cannot be is a `UsageError` that names the
    flag.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    flags: dict[str, _Flag] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if not (isinstance(hint, type) and is_dataclass(hint)):
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = hint
        for flag in _flags(parameter.name, hint):
            assert flag.parameter.name not in hints, f"{command.__name__}: {flag.parameter.name} is there twice"
            flags[flag.parameter.name] = flag
            parameters.append(flag.parameter)

    @wraps(command)
    def run(**given: Any) -> T:
        values: dict[str, dict[str, Any]] = {group: {} for group in groups}
        for name, flag in flags.items():
            values[flag.group][flag.field.name] = _typed(flag.field, given.pop(name))
        return command(**given, **{group: _made(kind, values[group]) for group, kind in groups.items()})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def given(context: typer.Context, options: type) -> set[str]:
    """The names of the options of a dataclass that stand on the command line."""
    return {name for name in declared(options) if was_given(context, name)}


def flag_of(field: Declared) -> str:
    """What the option is called on the command line."""
    if field.option.positional:
        return field.option.metavar or field.name.upper()
    return next(iter(field.option.flags), _long(field.name))


def _long(name: str) -> str:
    return "--" + name.replace("_", "-")


def _flags(group: str, options: type) -> Iterator[_Flag]:
    """The parameters of a dataclass's fields, positional ones first."""
    for _, field in sorted(declared(options).items(), key=lambda item: not item[1].option.positional):
        yield _Flag(group, field, _parameter(field))


def _parameter(field: Declared) -> inspect.Parameter:
    option, kind = field.option, _kind(field)
    common: dict[str, Any] = {"help": option.text(), "metavar": option.metavar, **_bounds(field)}
    if option.shown is not None:
        common["show_default"] = option.shown
    if option.positional:
        info = typer.Argument(**common | {"metavar": flag_of(field)})
    else:
        flags = option.flags or (_long(field.name),)
        if kind is bool and field.default is True:
            flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}", *flags[1:])
        info = typer.Option(*flags, **common)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.required else _plain(field),
        annotation=Annotated[kind, info],
    )


def _bounds(field: Declared) -> dict[str, Any]:
    """Bounds for the command line, which shows them; whole numbers have whole bounds."""
    numbers = [kind for kind in (field.type, *get_args(field.type)) if kind in (int, float)]
    bounds = {"min": field.option.least, "max": field.option.most}
    return {name: numbers[0](value) for name, value in bounds.items() if numbers and value is not None}


def _is_list(field: Declared) -> bool:
    """Whether the option takes several texts, which are separated by commas on the command line."""
    return any(getattr(kind, "__origin__", None) is tuple for kind in (field.type, *get_args(field.type)))


def _kind(field: Declared) -> Any:
    if _is_list(field):
        return str if field.required else str | None
    return field.type


def _plain(field: Declared) -> Any:
    """The default as the command line has it."""
    if _is_list(field) and field.default is not None:
        return ",".join(field.default)
    return field.default


def _typed(field: Declared, value: Any) -> Any:
    if _is_list(field) and value is not None:
        return tuple(value.split(",")) if value else ()
    return value


def _made(kind: type, values: dict[str, Any]) -> Any:
    try:
        made = kind(**values)
        check(made)
    except OptionError as error:
        field = declared(kind).get(error.option)
        raise UsageError(f"{flag_of(field) if field else error.option}: {error.reason}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    return made
