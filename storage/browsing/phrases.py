"""What people type to find rules: words in their order, and gaps, as in `ne _ pas`."""

from collections.abc import Mapping
from dataclasses import dataclass

from hierogram.samplers.grammar.rules import escape_terminal

GAP = "_"
"""Stands for one symbol or more: words, or a nonterminal. A word that looks like it is typed with a backslash."""

MOST_WORDS = 20


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in their order, with None where something stands between them."""

    parts: tuple[str | None, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words, each once, in the order in which they come first."""
        return tuple(dict.fromkeys(part for part in self.parts if part is not None))

    @property
    def is_word(self) -> bool:
        """Whether it is a single word."""
        return len(self.parts) == 1 and self.parts[0] is not None

    @property
    def has_gap(self) -> bool:
        """Whether something stands between its words."""
        return None in self.parts

    def read_as(self, words: Mapping[str, str]) -> "Phrase":
        """The phrase with other words in the places of its own."""
        return Phrase(tuple(None if part is None else words[part] for part in self.parts))

    def with_word(self, word: str, other: str) -> "Phrase":
        """The phrase with another word in the place of one."""
        return self.read_as({part: other if part == word else part for part in self.words})

    def typed(self) -> str:
        """The phrase as a person types it, so that `read_phrase` reads it again."""
        return " ".join(
            GAP if part is None else f"\\{part}" if part in (GAP, f"\\{GAP}") else part for part in self.parts
        )

    def side(self) -> str:
        """A phrase without gaps as the side of a rule."""
        return " ".join(escape_terminal(part) for part in self.parts if part is not None)

    def pattern(self, postgres: bool, *, whole: bool) -> str:
        """For a side with a space at each end: of LIKE (with ! before what is meant as it is) on Postgres, of GLOB on
        SQLite, whose LIKE does not tell capital letters from others.
        """
        anything = "%" if postgres else "*"
        pieces = [anything if part is None else _plain(escape_terminal(part), postgres) for part in self.parts]
        inside = f" {' '.join(pieces)} "
        return inside if whole else f"{anything}{inside}{anything}"

    def in_a_text(self, postgres: bool) -> str:
        """As `pattern` of a part, for a pair's text, where words stand as they are."""
        anything = "%" if postgres else "*"
        pieces = [anything if part is None else _plain(part, postgres) for part in self.parts]
        return f"{anything} {' '.join(pieces)} {anything}"


def read_phrase(typed: str) -> Phrase:
    """The phrase that somebody typed; gaps at its ends and repeated gaps are left out."""
    parts: list[str | None] = []
    for piece in typed.split()[: 2 * MOST_WORDS]:
        if piece != GAP:
            parts.append(piece[1:] if piece in (f"\\{GAP}", f"\\\\{GAP}") else piece)
        elif parts and parts[-1] is not None:
            parts.append(None)
    while parts and parts[-1] is None:
        parts.pop()
    return Phrase(tuple(parts))


def _plain(word: str, postgres: bool) -> str:
    special = "%_!" if postgres else "*?["
    return "".join((f"!{sign}" if postgres else f"[{sign}]") if sign in special else sign for sign in word)
