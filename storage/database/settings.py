"""The settings of a store: written once when it is made."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, get_type_hints

from sqlalchemy import Connection, insert, select, update

from hierogram.samplers.grammar.kinds import Notation, notation_of
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import Settings
from hierogram.storage.schema.tables import settings as table


def write_settings(connection: Connection, settings: Settings) -> None:
    """Writes the settings of a new store, one row each, values as JSON."""
    connection.execute(
        insert(table),
        [{"name": name, "value": json.dumps(value)} for name, value in asdict(settings).items()],
    )


def read_settings(connection: Connection) -> Settings:
    """The settings; raises `StoreError` where a row is missing, unknown or of the wrong type."""
    stored = dict(connection.execute(select(table.c.name, table.c.value)).all())
    return decode_settings(stored)


def decode_settings(stored: Mapping[str, str]) -> Settings:
    """The settings that the rows (name, JSON value) hold."""
    readers: dict[Any, Callable[[Mapping[str, str], str], Any]] = {
        str: _text,
        float: _real,
        int: _whole,
        bool: _truth,
        tuple[str, ...]: _texts,
    }
    return Settings(**{name: readers[kind](stored, name) for name, kind in _kinds().items()})


@cache
def _kinds() -> dict[str, Any]:
    """The type of each setting."""
    return get_type_hints(Settings)


def _text(stored: Mapping[str, str], name: str) -> str:
    value = _value(stored, name)
    if not isinstance(value, str):
        raise StoreError(f"table settings: {name} is {value!r}, but has to be a text")
    return value


def _texts(stored: Mapping[str, str], name: str) -> tuple[str, ...]:
    value = _value(stored, name)
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise StoreError(f"table settings: {name} is {value!r}, but has to be a list of texts")
    return tuple(value)


def _truth(stored: Mapping[str, str], name: str) -> bool:
    value = _value(stored, name)
    if not isinstance(value, bool):
        raise StoreError(f"table settings: {name} is {value!r}, but has to be true or false")
    return value


def _real(stored: Mapping[str, str], name: str) -> float:
    value = _value(stored, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise StoreError(f"table settings: {name} is {value!r}, but has to be a number")
    return float(value)


def _whole(stored: Mapping[str, str], name: str) -> int:
    value = _value(stored, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise StoreError(f"table settings: {name} is {value!r}, but has to be a whole number")
    return value


def _value(stored: Mapping[str, str], name: str) -> object:
    if name not in stored:
        raise StoreError(f"table settings: {name} is missing: it was there when the store was made")
    try:
        value: object = json.loads(stored[name])
    except ValueError as error:
        raise StoreError(f"table settings: {name} is not JSON: {stored[name]!r}") from error
    return value


def set_key_salt(connection: Connection, salt: int) -> None:
    """Records the salt of the rule keys."""
    connection.execute(update(table).where(table.c.name == "key_salt").values(value=json.dumps(salt)))


def read_notation(connection: Connection) -> Notation:
    """The kind of grammar that the store holds; raises `UnknownKindError` where this version knows no such kind."""
    stored = dict(connection.execute(select(table.c.name, table.c.value).where(table.c.name == "grammar")).all())
    return notation_of(_text(stored, "grammar"))
