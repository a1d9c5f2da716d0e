"""The vocabulary: words by side, how often they occur in stored pairs, and which rules hold them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import select, update

from hierogram.storage.loading import staged_words
from hierogram.storage.schema import vocabulary
from hierogram.storage.transactions import Writing

SOURCE, TARGET = "source", "target"

Word = tuple[str, str]
"""A side and a token."""

_NONTERMINAL = re.compile(r"\[X,[1-9][0-9]*\]\Z")


def terminals(side: str) -> set[str]:
    """The distinct terminals of a rule's side, without the notation's escapes."""
    return {
        symbol[1:] if symbol[0] == "\\" else symbol
        for symbol in side.split(" ")
        if symbol and not (symbol[0] == "[" and _NONTERMINAL.match(symbol))
    }


def count_words(writing: Writing, sources: Sequence[str], targets: Sequence[str]) -> None:
    """Adds the tokens of new pairs' texts to the vocabulary's counts."""
    staged = [
        (side, token, count)
        for side, texts in ((SOURCE, sources), (TARGET, targets))
        for token, count in Counter(" ".join(texts).split(" ")).items()
        if token
    ]
    stage_words(writing, staged)
    matches = (vocabulary.c.token == staged_words.c.token) & (vocabulary.c.side == staged_words.c.side)
    writing.connection.execute(
        update(vocabulary).values(count=vocabulary.c.count + staged_words.c.count).where(matches)
    )


def word_ids(writing: Writing, words: Iterable[Word]) -> dict[Word, int]:
    """The ids of the words; those that are new are added, with count 0."""
    stage_words(writing, [(side, token, 0) for side, token in words])
    rows = writing.connection.execute(
        select(staged_words.c.side, staged_words.c.token, vocabulary.c.id).join(
            vocabulary,
            (vocabulary.c.token == staged_words.c.token) & (vocabulary.c.side == staged_words.c.side),
        )
    )
    return {(side, token): word_id for side, token, word_id in rows}


def stage_words(writing: Writing, words: Sequence[tuple[str, str, int]]) -> None:
    """Puts (side, token, count) into `staged_words`, and new words into the vocabulary, with count 0."""
    writing.loader.stage(staged_words, ((n, side, token, count) for n, (side, token, count) in enumerate(words)))
    missing = [
        n
        for (n,) in writing.connection.execute(
            select(staged_words.c.n)
            .outerjoin(
                vocabulary,
                (vocabulary.c.token == staged_words.c.token) & (vocabulary.c.side == staged_words.c.side),
            )
            .where(vocabulary.c.id.is_(None))
        )
    ]
    missing.sort()
    first = writing.state.last_word_id + 1
    writing.loader.insert(
        vocabulary,
        ("id", "side", "token", "count"),
        [(word_id, words[n][0], words[n][1], 0) for word_id, n in enumerate(missing, first)],
    )
    writing.state.last_word_id += len(missing)
    new_sources = sum(words[n][0] == SOURCE for n in missing)
    writing.state.source_types += new_sources
    writing.state.target_types += len(missing) - new_sources
