"""Command-line flags, derived from dataclasses of options and annotated parameters."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer

from hierogram.daemon.cli.common import STORE_HELP, was_given
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.files import is_database
from hierogram.daemon.library.options import make_options
from hierogram.storage.options import DEFAULT_STORE, Option, OptionField

T = TypeVar("T")
_Keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)


class Exclude(NamedTuple):
    """Annotation that omits the flags of fields, as in `Annotated[RuleQuery, Exclude(("source",))]`."""

    names: tuple[str, ...]


def command_options(command: Callable[..., Any]) -> dict[str, tuple[str | None, OptionField]]:
    """Return a command's options by name, each with the parameter of its dataclass, or None."""
    hints, kinds = get_type_hints(command, include_extras=True), get_type_hints(command)
    fields: dict[str, tuple[str | None, OptionField]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        kind, notes = kinds[name], getattr(hints[name], "__metadata__", ())
        group, option_fields = None, []
        if options := [note for note in notes if isinstance(note, Option)]:
            default = MISSING if parameter.default is parameter.empty else parameter.default
            option_fields = [OptionField(name, kind, default, options[0])]
        elif isinstance(kind, type) and is_dataclass(kind):
            group = name
            excluded = {name for note in notes if isinstance(note, Exclude) for name in note.names}
            option_fields = [field for name, field in OptionField.of(kind).items() if name not in excluded]
        for field in option_fields:
            assert field.name not in fields, f"{command.__name__}: {field.name} is declared twice"
            fields[field.name] = group, field
    return fields


def with_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add a flag for each declared option of a command, and `--store` if a parameter is named `context`.

    An option is a parameter `Annotated[type, Option(…)]`, or a field of a parameter whose type is a dataclass of
    options. The command receives the validated dataclass. Raises `UsageError`, naming the flag, if a value is invalid.
    `--store` may be given before or after the name of the command.
    """
    hints, kinds = get_type_hints(command, include_extras=True), get_type_hints(command)
    fields = command_options(command)
    groups = {group: kinds[group] for group, _ in fields.values() if group is not None}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in fields or name in groups:
            parameters += [_typer_parameter(field) for group, field in fields.values() if name == (group or field.name)]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
    if "context" in hints:
        store_help = f"{STORE_HELP} [default: HIEROGRAM_STORE, else {DEFAULT_STORE}]"
        info = typer.Option(metavar="URL", help=store_help, show_default=False)
        parameters.append(_Keyword("store", default=None, annotation=Annotated[str | None, info]))

    @wraps(command)
    def run(**arguments: Any) -> T:
        values: dict[str, dict[str, Any]] = {group: {} for group in groups}
        if "context" in arguments and (store := arguments.pop("store")) is not None:
            arguments["context"].obj = store
        converted = {name: _convert_value(field, arguments.pop(name)) for name, (_, field) in fields.items()}
        for name, (group, field) in fields.items():
            (values[group] if group else arguments)[name] = converted[name]
            if not group and (problem := field.option.problem(converted[name])):
                raise UsageError(f"{option_flag(field)}: {problem}")
        _check_output(converted)
        flags = {name: option_flag(field) for name, (_, field) in fields.items()}
        for group, kind in groups.items():
            arguments[group] = make_options(kind, values[group], lambda name: flags.get(name, name))
        return command(**arguments)

    # Typer reads the options from the signature.
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


_OUTPUT_OPTIONS = ("output", "draws")
"""Names of options that name a file to write."""


def _check_output(values: Mapping[str, Any]) -> None:
    """Raise `UsageError` if an output would overwrite a database, or a file that the command reads."""
    files = [
        (name, Path(candidate))
        for name, value in values.items()
        for candidate in (value if isinstance(value, list | tuple) else [value])
        # Use `os.path.isfile`, because `Path.is_file` raises an error if the text is too long for a file name.
        if isinstance(candidate, str | Path) and os.path.isfile(candidate)
    ]
    # `tune` may replace the file of its starting weights.
    inputs = [path for name, path in files if name not in (*_OUTPUT_OPTIONS, "weights")]
    for output in (path for name, path in files if name in _OUTPUT_OPTIONS):
        if is_database(output):
            raise UsageError(f"{output} is a database: use another output file")
        if any(map(output.samefile, inputs)):
            raise UsageError(f"{output} is also an input of this command: use another output file")


def given_options(context: typer.Context, options: type) -> set[str]:
    """Return the names of a dataclass's options that were given on the command line."""
    return {name for name in OptionField.of(options) if was_given(context, name)}


def option_flag(field: OptionField) -> str:
    """Return the flag of an option, or the metavar of a positional option."""
    if field.option.positional:
        return field.option.metavar or field.name.upper()
    return next(iter(field.option.flags), default_flag(field.name))


def default_flag(name: str) -> str:
    """Return the flag of an option that declares none, such as `--dry-run` for `dry_run`."""
    return f"--{name.replace('_', '-')}"


def _typer_parameter(field: OptionField) -> inspect.Parameter:
    option, kind = field.option, field.type
    if _is_list(field):
        kind = str if field.required else str | None
    common: dict[str, Any] = {"help": option.text(), "metavar": option.metavar}
    numbers = [number for number in (kind, *get_args(kind)) if number in (int, float)]
    for bound, value in (("min", option.min), ("max", option.max)):
        if numbers and value is not None:
            # Typer requires integer bounds for an integer option.
            common[bound] = numbers[0](value)
    if option.shown is not None:
        common["show_default"] = option.shown
    if _is_file(field):
        # Pass a string, because `Path` drops the trailing slash that marks a folder.
        common["path_type"] = str
    if option.positional:
        info = typer.Argument(**common | {"metavar": option_flag(field)})
    else:
        flags = option.flags or (option_flag(field),)
        if kind is bool and field.default is True:
            flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}", *flags[1:])
        info = typer.Option(*flags, **common)
    default = field.default
    if field.required:
        default = inspect.Parameter.empty
    elif _is_list(field) and default is not None:
        default = ",".join(default)
    return _Keyword(field.name, default=default, annotation=Annotated[kind, info])


def _is_list(field: OptionField) -> bool:
    return any(get_origin(kind) is tuple for kind in (field.type, *get_args(field.type)))


def _is_file(field: OptionField) -> bool:
    return Path in (field.type, *get_args(field.type)) and field.option.metavar == "FILE"


def _convert_value(field: OptionField, value: Any) -> Any:
    if _is_list(field) and value is not None:
        return tuple(value.split(",")) if value else ()
    if _is_file(field) and isinstance(value, str):
        if value.endswith("/"):
            raise UsageError(f"{option_flag(field)}: {value} is a folder: expected a file")
        return Path(value)
    return value
