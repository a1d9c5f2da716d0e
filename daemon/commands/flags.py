"""Declared options as flags of a command: a dataclass among a command's parameters gives a flag for each field.

Fields for experts have no flag of their own: all of a command's are set by `--set name=value`.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer

from hierogram.daemon.commands.common import ChosenStore, StoreUrl, was_given
from hierogram.daemon.exceptions import UsageError
from hierogram.storage.options import Declared, OptionError, check, declared

T = TypeVar("T")


EXPERTS, SET = "_experts", "--set"
"""The parameter that sets options for experts, and its flag."""
_TRUTHS = {"true": True, "false": False}


class Without(NamedTuple):
    """Leaves fields of a dataclass to their defaults: `Annotated[TranslateOptions, Without(("markup",))]`."""

    names: tuple[str, ...]


def with_options(command: Callable[..., T]) -> Callable[..., T]:
    """Return the command with flags in the place of each parameter whose type is a dataclass of declared options.

    The command gets the dataclass, made from the flags and checked. A wrong value is a `UsageError` that names the
    flag.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    fields: dict[str, tuple[str, Declared]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind, left_out = _group(hints[parameter.name])
        if kind is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[parameter.name] = kind
        # Positional ones first.
        for name, field in sorted(declared(kind).items(), key=lambda item: not item[1].option.positional):
            if name in left_out:
                continue
            assert name not in hints, f"{command.__name__}: {name} is there twice"
            fields[name] = parameter.name, field
            if not field.option.expert:
                parameters.append(_parameter(field))
    experts = {name: field for name, (_, field) in fields.items() if field.option.expert}
    if experts:
        parameters.append(_expert_parameter(experts))

    @wraps(command)
    def run(**given: Any) -> T:
        values: dict[str, dict[str, Any]] = {group: {} for group in groups}
        chosen = _chosen(given.pop(EXPERTS, None) or (), experts)
        if "context" in given:
            given["context"].meta[EXPERTS] = frozenset(chosen)
        for name, (group, field) in fields.items():
            if name not in experts:
                values[group][name] = _typed(field, given.pop(name))
            elif name in chosen:
                values[group][name] = chosen[name]
        return command(**given, **{group: _made(kind, values[group]) for group, kind in groups.items()})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def with_store(command: Callable[..., T]) -> Callable[..., T]:
    """Return the command with the option `--store`, which may stand after its name as well as before it.

    A command that takes the context works on a store; one that does not comes back as it is.
    """
    signature = inspect.signature(command)
    if "context" not in signature.parameters:
        return command
    store = inspect.Parameter("store", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=StoreUrl)

    @wraps(command)
    def run(context: typer.Context, store: str | None, **given: Any) -> T:
        if store is not None:
            context.find_root().obj = ChosenStore(store, given=True)
        return command(context=context, **given)

    hints = get_type_hints(command, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
    ]
    run.__signature__ = inspect.Signature([*parameters, store])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*parameters, store)}
    return run


def _group(hint: Any) -> tuple[type | None, tuple[str, ...]]:
    """Return the dataclass of options that a parameter's type is, and the names of fields that it leaves out."""
    left_out: tuple[str, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        left_out = tuple(name for note in notes if isinstance(note, Without) for name in note.names)
    return (hint if isinstance(hint, type) and is_dataclass(hint) else None), left_out


def given(context: typer.Context, options: type) -> set[str]:
    """Return the names of the options of a dataclass that stand on the command line."""
    experts = context.meta.get(EXPERTS, ())
    return {name for name in declared(options) if name in experts or was_given(context, name)}


def _expert_parameter(experts: Mapping[str, Declared]) -> inspect.Parameter:
    info = typer.Option(
        SET,
        metavar="NAME=VALUE",
        help=_expert_help(experts),
        show_default=False,
    )
    return inspect.Parameter(
        EXPERTS, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[list[str] | None, info]
    )


def _expert_help(names: Iterable[str]) -> str:
    return f"A setting for experts; may be given again. There are {', '.join(names)}; NAME=? says what one is."


def expert_help(options: type, names: Collection[str]) -> str:
    """Return the help of `--set` for those options for experts that are among the names."""
    return _expert_help(name for name, field in declared(options).items() if field.option.expert and name in names)


def _chosen(texts: Iterable[str], experts: Mapping[str, Declared]) -> dict[str, Any]:
    """Return the values of `name=value` texts; raises `UsageError`."""
    chosen = {}
    for text in texts:
        name, _, value = text.partition("=")
        name = name.replace("-", "_")
        field = experts.get(name)
        if field is None:
            raise UsageError(f"{SET} {text}: there is no such setting; there are {', '.join(experts)}")
        if value in ("", "?"):
            default = "" if field.default in (None, ()) else f" [default: {_plain(field)}]"
            raise UsageError(f"{SET} {name}={field.option.metavar or 'VALUE'}: {field.option.text()}{default}")
        chosen[name] = _parsed(field, value)
    return chosen


def _parsed(field: Declared, text: str) -> Any:
    """Return the value of an expert's option; raises `UsageError`."""
    kinds = get_args(field.type) or (field.type,)
    if bool in kinds:
        if text not in _TRUTHS:
            raise UsageError(f"{flag_of(field)}: {text!r} is neither true nor false")
        return _TRUTHS[text]
    for kind, noun in ((int, "a whole number"), (float, "a number")):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError as error:
                raise UsageError(f"{flag_of(field)}: {text!r} is not {noun}") from error
    return _typed(field, text)


def flag_of(field: Declared) -> str:
    """Return what the option is called on the command line."""
    if field.option.expert:
        return f"{SET} {field.name}"
    if field.option.positional:
        return field.option.metavar or field.name.upper()
    return next(iter(field.option.flags), _long(field.name))


def _long(name: str) -> str:
    return "--" + name.replace("_", "-")


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
    """Return whether the option takes several texts, which are separated by commas on the command line."""
    return any(getattr(kind, "__origin__", None) is tuple for kind in (field.type, *get_args(field.type)))


def _kind(field: Declared) -> Any:
    if _is_list(field):
        return str if field.required else str | None
    return field.type


def _plain(field: Declared) -> Any:
    """Return the default as the command line has it."""
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
