"""What tables and indexes are to be on Postgres, said without SQLAlchemy's Postgres.

SQLAlchemy imports a dialect as soon as an option of it is named, and with Postgres' comes all that there is for any of
its drivers: in every process, also where the store is a file.
"""

from typing import TypeVar

from sqlalchemy import Index, Table

Item = TypeVar("Item", Table, Index)

_waiting: list[tuple[Table | Index, str, object]] = []


def on_postgres(item: Item, option: str, value: object) -> Item:
    """The item itself, which has the dialect's option as soon as there is an engine for Postgres."""
    _waiting.append((item, f"postgresql_{option}", value))
    return item


def give_postgres_options() -> None:
    """Give tables and indexes their options; whoever makes an engine for Postgres begins with this."""
    while _waiting:
        item, option, value = _waiting.pop()
        item.dialect_kwargs[option] = value
