"""The generated files follow the declared options, and there are not too many options."""

from hierogram.daemon.cli.main import app
from hierogram.storage.options import OptionField
from hierogram.tools.lab.option_reference import (
    KEYWORDS,
    LIBRARY,
    PAGE,
    ROOT,
    commands,
    distinct_options,
    keywords,
    page,
    tables,
)

MAX_OPTIONS = 200


def test_the_generated_keywords_and_options_page_are_current() -> None:
    generate = "run `python -m hierogram.tools.lab.option_reference`"
    for folder in KEYWORDS:
        assert (ROOT / folder / "keywords.py").read_text(encoding="utf-8") == keywords(folder), generate
    assert PAGE.read_text(encoding="utf-8") == page(), generate


def test_the_number_of_options_is_limited_and_each_is_documented() -> None:
    found = distinct_options()
    assert sum(map(len, found.values())) <= MAX_OPTIONS, found
    listed = sum(map(len, tables().values()))
    assert listed >= sum(len(names) for group, names in found.items() if group != "every command")
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
