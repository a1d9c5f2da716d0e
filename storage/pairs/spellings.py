"""Words found by how they look: without accents and capital letters, by their beginning, or spelled almost so.

The vocabulary keeps a folded form of each word beside it, with an index, so that every look-up reads a bounded range.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice, product
from typing import Any

from sqlalchemy import Connection, Select, select

from hierogram.storage.schema.tables import vocabulary

LONGEST_FOLDED = 128
"""Characters of a folded form; words whose forms agree so far are taken for one."""

MOST_READINGS = 8
"""Readings of a phrase that are looked for beside the phrase itself, at most."""
_MOST_SPELLINGS = 16
_COMBINATIONS = 64
_READ_OF_A_FORM = 200
_READ_OF_A_RANGE = 4_000
_SHORTEST_STEM = 2
_LEAST_LIKENESS = 0.75
_KEPT_MARKS = frozenset({0, 7, 8, 9})
"""Canonical combining classes of marks that make another letter: vowel signs, nuktas, marks of kana, viramas."""


def folded(token: str) -> str:
    """Return the word in lower case and without accents, composed (NFC); never empty for a word that is not.

    Marks are dropped after a compatibility decomposition [Unicode Standard Annex 15], and capital letters by case
    folding [Unicode Standard, section 3.13]: `Λόγος`, `λογος` and a decomposed `λόγος` have one form.
    """
    if token.isascii():
        return token[:LONGEST_FOLDED].lower()
    letters = unicodedata.normalize("NFKD", token[:LONGEST_FOLDED])
    letters = unicodedata.normalize("NFKD", letters.casefold())
    kept = "".join(letter for letter in letters if unicodedata.combining(letter) in _KEPT_MARKS)
    return (unicodedata.normalize("NFC", kept) or token)[:LONGEST_FOLDED]


@dataclass(frozen=True, slots=True)
class Spelling:
    """A word of the vocabulary: its id, and how often it occurs in pairs."""

    token: str
    id: int
    count: int


def spellings(connection: Connection, side: str, token: str) -> list[Spelling]:
    """Return the words of a side that look like the word but for accents and capital letters, the most frequent first.

    The word itself is among them where the vocabulary has it; words that no pair has any more are left out.
    """
    found = _read(connection, _of_side(side).where(vocabulary.c.folded == folded(token)), _READ_OF_A_FORM)
    return sorted(found, key=lambda word: (word.token != token, -word.count, word.token))[:_MOST_SPELLINGS]


def readings(choices: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return what words may stand for, the likeliest first, but not the words as they are.

    `choices` are the words' spellings, the likeliest first; where a word has none there is no reading. Readings that
    take likelier spellings come first; of long phrases a few spellings of each word are tried.
    """
    # So many of each word that there are few combinations, however long the phrase.
    most = max(1, int(_COMBINATIONS ** (1 / max(len(choices), 1)) + 1e-9))
    every = product(*(range(min(most, len(some))) for some in choices.values()))
    ranked = sorted(every, key=lambda ranks: (sum(ranks), ranks))
    made = (
        {word: choices[word][rank] for word, rank in zip(choices, ranks, strict=True)} for ranks in ranked
    )  # fmt: skip
    return list(islice((reading for reading in made if any(a != b for a, b in reading.items())), MOST_READINGS))


def like_words(connection: Connection, side: str, token: str, limit: int) -> list[Spelling]:
    """Return words that look alike, begin with the word, or are spelled almost so, in this order; not the word itself.

    Of the words that begin alike a few thousand are read at most; those spelled almost so share their first letters.
    """
    form = folded(token)
    found: dict[str, Spelling] = {word.token: word for word in spellings(connection, side, token)}
    beginning = _beginning(connection, side, form)
    found |= {word.token: word for word in _frequent_first(beginning)[:limit]}
    stem = form[:_SHORTEST_STEM] if len(form) > _SHORTEST_STEM else ""
    if stem and len(found) < limit:
        forms: dict[str, list[Spelling]] = {}
        for word in _beginning(connection, side, stem):
            forms.setdefault(folded(word.token), []).append(word)
        for close in get_close_matches(form, forms, limit, _LEAST_LIKENESS):
            found |= {word.token: word for word in _frequent_first(forms[close])}
    found.pop(token, None)
    return list(found.values())[:limit]


def _beginning(connection: Connection, side: str, form: str) -> list[Spelling]:
    """Words whose folded form begins so; texts compare by their bytes, and no letter comes after the last one."""
    column = vocabulary.c.folded
    within = _of_side(side).where(column >= form, column < form + "\U0010ffff").order_by(column)
    return _read(connection, within, _READ_OF_A_RANGE)


def _frequent_first(words: Sequence[Spelling]) -> list[Spelling]:
    return sorted(words, key=lambda word: (-word.count, word.token))


def _of_side(side: str) -> Select[Any]:
    return select(vocabulary.c.token, vocabulary.c.id, vocabulary.c.count).where(vocabulary.c.side == side)


def _read(connection: Connection, statement: Select[Any], most: int) -> list[Spelling]:
    rows: list[tuple[Any, ...]] = [tuple(row) for row in connection.execute(statement.limit(most))]
    return [Spelling(token, word_id, count) for token, word_id, count in rows if count]
