"""Declared options as flags of a command: those of a dataclass among its parameters, and those of parameters alone.

Options for experts have no flag of their own: all of a command's are set by `--set name=value`.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer

from hierogram.daemon.cli.common import STORE_HELP, was_given
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import is_database
from hierogram.daemon.library.options import options_of
from hierogram.storage.options import DEFAULT_STORE, Declared, Option

T = TypeVar("T")


FILE = "FILE"
"""Metavar of paths that are files."""
EXPERTS, SET = "_experts", "--set"
"""The parameter that sets options for experts, and its flag."""
_TRUTHS = {"true": True, "false": False}


class Without(NamedTuple):
    """Leaves fields of a dataclass to their defaults: `Annotated[TranslateOptions, Without(("markup",))]`."""

    names: tuple[str, ...]


def with_options(command: Callable[..., T]) -> Callable[..., T]:
    """Return the command with a flag for each declared option, and with `--store` where it takes the context.

    An option is a parameter `Annotated[type, Option(…)]`, or a field of a parameter whose type is a dataclass of
    options: the command gets that dataclass, made from the flags and checked. A wrong value is a `UsageError` that
    names the flag. `--store` may stand after the command's name as well as before it.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    fields: dict[str, tuple[str | None, Declared]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint, group = hints[parameter.name], None
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        options = [note for note in notes if isinstance(note, Option)]
        found: Iterable[Declared]
        if options:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            found = [Declared(parameter.name, kind, default, options[0])]
        elif isinstance(kind, type) and is_dataclass(kind):
            group, groups[parameter.name] = parameter.name, kind
            left_out = {name for note in notes if isinstance(note, Without) for name in note.names}
            found = (field for name, field in Declared.of(kind).items() if name not in left_out)
        else:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        for field in found:
            assert field.name not in fields, f"{command.__name__}: {field.name} is there twice"
            fields[field.name] = group, field
            if not field.option.expert:
                parameters.append(_parameter(field))
    experts = {name: field for name, (_, field) in fields.items() if field.option.expert}
    if experts:
        # Looked at first, so that what one is can be asked without the command's arguments.
        info = typer.Option(
            SET, metavar="NAME=VALUE", help=expert_help(experts), show_default=False, is_eager=True,
            callback=lambda texts: texts if _chosen(texts or (), experts) else None,
        )  # fmt: skip
        parameters.append(_keyword(EXPERTS, Annotated[list[str] | None, info], None))
    if "context" in hints:
        info = typer.Option(
            metavar="URL", help=f"{STORE_HELP} [default: HIEROGRAM_STORE, else {DEFAULT_STORE}]", show_default=False
        )
        parameters.append(_keyword("store", Annotated[str | None, info], None))

    @wraps(command)
    def run(**given: Any) -> T:
        values: dict[str, dict[str, Any]] = {group: {} for group in groups}
        chosen = _chosen(given.pop(EXPERTS, None) or (), experts)
        if "context" in given:
            given["context"].meta[EXPERTS] = frozenset(chosen)
            if (store := given.pop("store")) is not None:
                given["context"].obj = store
        for name, (group, field) in fields.items():
            value = chosen.get(name, field.default) if name in experts else _typed(field, given.pop(name))
            if group is None:
                if problem := field.option.problem(value):
                    raise UsageError(f"{flag_of(field)}: {problem}")
                given[name] = value
            elif name not in experts or name in chosen:
                values[group][name] = value
        _check_output({name: (values[group] if group else given).get(name) for name, (group, _) in fields.items()})
        return command(**given, **{group: _made(kind, values[group]) for group, kind in groups.items()})

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


_OUTPUTS = ("output", "draws")
"""Options whose files are written."""
_REWRITTEN = frozenset({*_OUTPUTS, "weights"})
"""Options whose files may be written again."""


def _check_output(values: Mapping[str, Any]) -> None:
    """Raise `UsageError` where an output would take the place of a store, or of a file that is read."""
    files = [
        (name, Path(one))
        for name, value in values.items()
        for one in (value if isinstance(value, list | tuple) else [value])
        # Not by `Path`, which raises where a text is too long for a name.
        if isinstance(one, str | Path) and os.path.isfile(one)
    ]
    read = [path for name, path in files if name not in _REWRITTEN]
    for output in (path for name, path in files if name in _OUTPUTS):
        if is_database(output):
            raise UsageError(f"{output} is a database, as a store is: name another file to write")
        if any(map(output.samefile, read)):
            raise UsageError(f"{output} is read by this command: name another file to write")


def given(context: typer.Context, options: type) -> set[str]:
    """Return the names of the options of a dataclass that stand on the command line."""
    experts = context.meta.get(EXPERTS, ())
    return {name for name in Declared.of(options) if name in experts or was_given(context, name)}


def expert_help(names: Iterable[str]) -> str:
    """Return the help of `--set` for those options."""
    return f"A setting for experts; may be given again. There are {', '.join(names)}; NAME=? says what one is."


def flag_of(field: Declared) -> str:
    """Return what the option is called on the command line."""
    if field.option.expert:
        return f"{SET} {field.name}"
    if field.option.positional:
        return field.option.metavar or field.name.upper()
    return next(iter(field.option.flags), "--" + field.name.replace("_", "-"))


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
            default = "" if field.default in (None, ()) else f" [default: {_plain_default(field)}]"
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


def _parameter(field: Declared) -> inspect.Parameter:
    option, kind = field.option, field.type
    if _is_list(field):
        kind = str if field.required else str | None
    common: dict[str, Any] = {"help": option.text(), "metavar": option.metavar}
    numbers = [number for number in (kind, *get_args(kind)) if number in (int, float)]
    for bound, value in (("min", option.least), ("max", option.most)):
        if numbers and value is not None:
            # Whole numbers have whole bounds.
            common[bound] = numbers[0](value)
    if option.shown is not None:
        common["show_default"] = option.shown
    if _is_file(field):
        # A path no longer has the slash that only the name of a folder ends in.
        common["path_type"] = str
    if option.positional:
        info = typer.Argument(**common | {"metavar": flag_of(field)})
    else:
        flags = option.flags or (flag_of(field),)
        if kind is bool and field.default is True:
            flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}", *flags[1:])
        info = typer.Option(*flags, **common)
    default = inspect.Parameter.empty if field.required else _plain_default(field)
    return _keyword(field.name, Annotated[kind, info], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _is_list(field: Declared) -> bool:
    """Return whether the option takes several texts, which are separated by commas on the command line."""
    return any(get_origin(kind) is tuple for kind in (field.type, *get_args(field.type)))


def _is_file(field: Declared) -> bool:
    """Return whether the option is the path of a file."""
    return Path in (field.type, *get_args(field.type)) and field.option.metavar == FILE


def _plain_default(field: Declared) -> Any:
    """Return the default as the command line has it."""
    return ",".join(field.default) if _is_list(field) and field.default is not None else field.default


def _typed(field: Declared, value: Any) -> Any:
    if _is_list(field) and value is not None:
        return tuple(value.split(",")) if value else ()
    if _is_file(field) and isinstance(value, str):
        if value.endswith("/"):
            raise UsageError(f"{flag_of(field)}: {value} names a folder: name a file")
        return Path(value)
    return value


def _made(kind: type, values: dict[str, Any]) -> Any:
    known = Declared.of(kind)
    return options_of(kind, None, values, lambda name: flag_of(known[name]) if name in known else name)
