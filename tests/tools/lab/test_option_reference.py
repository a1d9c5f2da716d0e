"""The generated files follow the declared options, and there are not too many options."""

from typing import Any

from hierogram.daemon.cli.flags import command_options
from hierogram.daemon.cli.main import app
from hierogram.daemon.exports.options import ExportJob
from hierogram.storage.options import OptionField
from hierogram.tools.lab.option_reference import (
    KEYWORDS,
    LIBRARY,
    PAGE,
    ROOT,
    commands,
    keys,
    keywords,
    page,
    sections,
    tables,
    typer_parameters,
)

MAX_OPTIONS = 200


def distinct_options() -> dict[str, list[str]]:
    """Return the names of all options by command, class or section. Options with one declaration count once.

    Positional arguments are omitted.
    """
    seen: dict[int, Any] = {}
    declarations: dict[str, list[str]] = {
        "every command": ["store", "version", "install-completion", "show-completion", "HIEROGRAM_CACHE"]
    }

    def count(group: str, name: str, declaration: Any) -> None:
        if id(declaration) not in seen and not getattr(declaration, "positional", False):
            seen[id(declaration)] = declaration
            declarations.setdefault(group, []).append(name)

    for command, function in commands():
        for name, (_, field) in command_options(function).items():
            count(f"hierogram {command}", name, field.option)
        for name, declaration in typer_parameters(function):
            if type(declaration).__name__ == "OptionInfo":
                count(f"hierogram {command}", name, declaration)
    for kind in (ExportJob, *(options for options, _ in LIBRARY.values())):
        for name, field in OptionField.of(kind).items():
            count(kind.__name__, name, field.option)
    for section, options in sections():
        for name, row in keys(options):
            count(f"[{section}]", name, row.declaration)
    return declarations


def test_the_generated_keywords_and_options_page_are_current() -> None:
    generate = "run `python -m hierogram.tools.lab.option_reference`"
    for folder in KEYWORDS:
        assert (ROOT / folder / "keywords.py").read_text(encoding="utf-8") == keywords(folder), generate
    assert PAGE.read_text(encoding="utf-8") == page(), generate


def test_the_number_of_options_is_limited_and_each_is_documented() -> None:
    options = distinct_options()
    assert sum(map(len, options.values())) <= MAX_OPTIONS, options
    listed = sum(map(len, tables().values()))
    assert listed >= sum(len(names) for group, names in options.items() if group != "every command")
    assert all(row.meaning for rows in tables().values() for row in rows)


def test_each_command_has_its_own_defaults() -> None:
    rows = {group: {row.option: row.default for row in group_rows} for group, group_rows in tables().items()}
    limits = {group.split()[1]: defaults["`--limit`"] for group, defaults in rows.items() if "`--limit`" in defaults}
    assert limits == {"events": "1,000", "rules": "20", "sql": "", "diff": "10"}
    corpora = {group: defaults["`--corpus`"] for group, defaults in rows.items() if "`--corpus`" in defaults}
    assert {group.split()[1]: default for group, default in corpora.items()} == {
        "ingest": "default", "withdraw": "", "export": "all", "terms": "all",
    }  # fmt: skip
    assert rows["hierogram lm"]["`--output`, `-o`"] == "required"
    assert rows["Configuration file"] == {"`store`": "sqlite:///hierogram.db", "`timezone`": "UTC"}


def test_no_option_is_hidden() -> None:
    shown = {name for name, _ in commands()}
    assert shown == {info.name or info.callback.__name__ for info in app.registered_commands}
    for options, _ in LIBRARY.values():
        # Only settings, which a store keeps, and evidence options have fields that no caller sets.
        fields = set(options.__dataclass_fields__)
        assert set(OptionField.of(options)) == fields or options.__name__ in ("Settings", "EvidenceOptions")
