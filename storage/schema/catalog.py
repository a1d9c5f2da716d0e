"""Descriptions of tables, views and columns, from `catalog.toml`."""

import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

CATALOG = "catalog"
"""View of the descriptions in a store."""


@dataclass(frozen=True)
class Relation:
    """Description of a table or view. An `internal` one may change with any version."""

    name: str
    about: str
    columns: dict[str, str]
    internal: bool


@cache
def relations() -> tuple[Relation, ...]:
    """Return the descriptions of all relations, those for users first."""
    content = tomllib.loads(files("hierogram.storage.schema").joinpath("catalog.toml").read_text(encoding="utf-8"))
    return tuple(
        Relation(name, columns.pop("about"), columns, columns.pop("internal", False))
        for name, columns in content.items()
    )


def catalog_view() -> str:
    """Return the SELECT of the view `catalog`: one row for each relation and column."""
    rows = [
        f"({_literal(relation.name)}, {_literal(column)}, {_literal(text)}, {int(not relation.internal)})"
        for relation in relations()
        for column, text in {"": relation.about, **relation.columns}.items()
    ]
    body = ",\n".join(rows)
    return (
        "WITH described(relation, column_name, description, stable) AS (VALUES\n"
        f"{body}\n) SELECT relation, column_name, description, stable FROM described"
    )


def comments(views: Collection[str]) -> list[str]:
    """Return the COMMENT ON statements of Postgres. `views` are the names of the views."""
    statements = []
    for relation in relations():
        kind = "VIEW" if relation.name in views else "TABLE"
        statements.append(f"COMMENT ON {kind} {relation.name} IS {_literal(relation.about)}")
        statements += [
            f'COMMENT ON COLUMN {relation.name}."{column}" IS {_literal(text)}'
            for column, text in relation.columns.items()
        ]
    return statements


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
