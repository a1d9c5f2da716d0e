"""Settings of a store, written once: when the store is created, or with its first text if the text sets them."""

import json
from dataclasses import asdict
from typing import Any, get_type_hints

from sqlalchemy import Connection, insert, select, update

from hierogram.samplers.grammar.kinds import GrammarKind, find_grammar_kind
from hierogram.storage.exceptions import StoreError, WriteConflictError
from hierogram.storage.records.settings import LearnedSettings, Settings
from hierogram.storage.schema.tables import settings as table


def write_settings(connection: Connection, settings: Settings) -> None:
    """Write the settings of a new store, one row each, with JSON values."""
    connection.execute(
        insert(table), [{"name": name, "value": json.dumps(value)} for name, value in asdict(settings).items()]
    )


def read_settings(connection: Connection) -> Settings:
    """Return the settings. Raises `StoreError` if a row is missing, is not JSON or has the wrong type."""
    stored = dict(connection.execute(select(table.c.name, table.c.value)).all())
    return Settings(**{name: _value(stored, name, value_type) for name, value_type in _FIELD_TYPES.items()})


_FIELD_TYPES: dict[str, Any] = get_type_hints(Settings)

_JSON_TYPES = {
    str: (str, "a string"),
    bool | None: (bool | None, "true, false or null"),
    float: (int | float, "a number"),
    int: (int, "a whole number"),
    tuple[str, ...]: (list, "a list of strings"),
}


def write_learned(connection: Connection, learned: LearnedSettings) -> None:
    """Write settings learned from the first text. Raises `WriteConflictError` if they are set to other values."""
    stored = read_settings(connection)
    # The first tokenized text sets `word_parts` and `orthographies` together, and `orthographies` is then not empty.
    is_unset = {"languages": not stored.languages, "tokenize": stored.tokenize is None}
    for name, value in learned.items():
        can_set = is_unset.get(name, not stored.orthographies)
        # Treat None like False, because a store keeps tokens until the first text with signs of running text.
        if not can_set and (value or None) != (getattr(stored, name) or None):
            raise WriteConflictError(f"another input has set {name} of the store: ingest this input again")
        if can_set and value is not None:
            connection.execute(update(table).where(table.c.name == name).values(value=json.dumps(value)))


def _value(stored: dict[str, str], name: str, value_type: Any) -> Any:
    if name not in stored:
        raise StoreError(
            f"table settings: {name} is missing: use the version of hierogram that created this store, or restore a "
            "backup"
        )
    try:
        value: Any = json.loads(stored[name])
    except ValueError as error:
        raise StoreError(f"table settings: {name} is not JSON: {stored[name]!r}: restore a backup") from error
    json_type, type_name = _JSON_TYPES[value_type]
    fits = isinstance(value, json_type) and (value_type == bool | None or not isinstance(value, bool))
    if not fits or (isinstance(value, list) and not all(isinstance(part, str) for part in value)):
        raise StoreError(f"table settings: {name} must be {type_name}, got {value!r}: restore a backup")
    return tuple(value) if isinstance(value, list) else float(value) if value_type is float else value


def read_grammar_kind(connection: Connection) -> GrammarKind:
    """Return the kind of the store's grammar. Raises `SamplerError` if this version does not support it."""
    stored = dict(connection.execute(select(table.c.name, table.c.value).where(table.c.name == "grammar")).all())
    return find_grammar_kind(_value(stored, "grammar", str))
