"""Example queries of docs/sql.md. In `cookbook.sql`, a comment with the title precedes each query."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Recipe(NamedTuple):
    """A question, and its SQL for both databases."""

    title: str
    sql: str


@cache
def cookbook() -> tuple[Recipe, ...]:
    """Return all queries in order."""
    text = files("hierogram.storage.browsing").joinpath("cookbook.sql").read_text(encoding="utf-8")
    queries = []
    for part in text.split("-- ")[1:]:
        title, _, sql = part.partition("\n")
        queries.append(Recipe(title.strip(), sql.strip()))
    return tuple(queries)
