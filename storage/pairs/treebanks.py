"""What a store of a tree grammar knows of its trees: how they were transformed, and which words have no class."""

import json

from sqlalchemy import Connection, insert, select

from hierogram.storage.schema.tables import settings as table

_NAME = "treebank"


def read_treebank(connection: Connection) -> dict[str, object] | None:
    """What was settled with the first trees; None before."""
    value = connection.execute(select(table.c.value).where(table.c.name == _NAME)).scalar_one_or_none()
    return None if value is None else json.loads(value)


def settle_treebank(connection: Connection, treebank: dict[str, object]) -> dict[str, object]:
    """Settles it, where nothing is settled; returns what holds."""
    settled = read_treebank(connection)
    if settled is None:
        connection.execute(insert(table).values(name=_NAME, value=json.dumps(treebank, ensure_ascii=False)))
        settled = treebank
    return settled
