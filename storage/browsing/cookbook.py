"""Questions to start from, as docs/sql.md has them: in `cookbook.sql`, each under a line with its title."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Recipe(NamedTuple):
    """A question in words, and in SQL that both databases understand."""

    title: str
    sql: str


@cache
def cookbook() -> tuple[Recipe, ...]:
    """All questions, in their order."""
    text = files("hierogram.storage.browsing").joinpath("cookbook.sql").read_text(encoding="utf-8")
    found = []
    for part in text.split("-- ")[1:]:
        title, _, sql = part.partition("\n")
        found.append(Recipe(title.strip(), sql.strip()))
    return tuple(found)


EXAMPLES = {
    "'la maison'": ":source", "'the house'": ":target", "'maison'": ":word", "'house'": ":other_word",
    "pair_id = 1": "pair_id = :pair",
}  # fmt: skip
"""What the questions ask for, for example, and the parameters that may take its place."""


def with_parameters(sql: str) -> str:
    """The question with parameters in the places of its examples."""
    for example, parameter in EXAMPLES.items():
        sql = sql.replace(example, parameter)
    return sql
