"""The vocabulary: words by side, how often they occur in stored pairs, and their ids."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, select, update

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, Notation
from hierogram.storage.database.loading import staged_increments, staged_words
from hierogram.storage.database.transactions import Writing
from hierogram.storage.pairs.spellings import folded
from hierogram.storage.schema.tables import vocabulary

WordCounts = dict[str, dict[str, int]]
"""How often words occur: side, then token, to count."""


def words_of_pairs(notation: Notation, sources: Sequence[str], targets: Sequence[str]) -> WordCounts:
    """How often each word occurs in pairs' texts, by side; only of the sides that are words."""
    # Whoever only looks needs no numpy.
    from hierogram.storage.pairs.tokens import count_tokens

    texts = {SOURCE: sources, TARGET: targets}
    return {side: count_tokens(texts[side]) for side in notation.pair_words}


def count_words(writing: Writing, words: WordCounts, sign: int = 1) -> None:
    """Adds what `words_of_pairs` found to the vocabulary's counts, or takes it off (`sign` -1).

    A word that no pair has any more keeps its id, but is none of the store's types until one has it again.
    """
    increments: list[tuple[int, int]] = []
    for side, counts in words.items():
        ids = _known_ids(writing, side, list(counts))
        increments += [(word_id, sign * counts[token]) for token, word_id in ids.items()]
        # Frequent words first: so words of the higher ids are the rarer ones, as a rule.
        new = sorted((-count, token) for token, count in counts.items() if token not in ids)
        _add_words(writing, side, {token: -count for count, token in new})
    writing.loader.stage(staged_increments, sorted(increments))
    all_in_use = writing.state.source_types + writing.state.target_types == writing.state.last_word_id
    unused = _unused(writing) if sign > 0 and not all_in_use else {}
    writing.connection.execute(
        update(vocabulary)
        .values(count=vocabulary.c.count + staged_increments.c.count)
        .where(vocabulary.c.id == staged_increments.c.word_id)
    )
    for side, number in (unused if sign > 0 else _unused(writing)).items():
        _count_types(writing, side, sign * number)


def _unused(writing: Writing) -> dict[str, int]:
    """How many of the words of `staged_increments` have count 0, by side."""
    rows = writing.connection.execute(
        select(vocabulary.c.side, func.count().label("number"))
        .join(staged_increments, staged_increments.c.word_id == vocabulary.c.id)
        .where(vocabulary.c.count == 0)
        .group_by(vocabulary.c.side)
    )
    return {row.side: row.number for row in rows}


def _count_types(writing: Writing, side: str, number: int) -> None:
    if side == SOURCE:
        writing.state.source_types += number
    else:
        writing.state.target_types += number


def word_ids(writing: Writing, side: str, tokens: Iterable[str]) -> Mapping[str, int]:
    """The ids of the words by token; those that are new are added, with count 0."""
    wanted = list(dict.fromkeys(tokens))
    ids = _known_ids(writing, side, wanted)
    return ids | _add_words(writing, side, {token: 0 for token in wanted if token not in ids})


def _known_ids(writing: Writing, side: str, tokens: Sequence[str]) -> dict[str, int]:
    """The ids of those words that the vocabulary holds, from memory if this or an earlier transaction met them."""
    ids: dict[str, int] = {}
    for known in (writing.met_words[side], writing.new_words[side]):
        found_here = zip(tokens, map(known.get, tokens), strict=True)
        ids |= {token: word_id for token, word_id in found_here if word_id is not None}
    if len(ids) < len(tokens) and not writing.knows_all_words():
        unmet = [token for token in tokens if token not in ids]
        writing.loader.stage(staged_words, ((n, side, token) for n, token in enumerate(unmet)))
        rows = writing.connection.execute(
            select(staged_words.c.n, vocabulary.c.id).join(
                vocabulary,
                (vocabulary.c.token == staged_words.c.token) & (vocabulary.c.side == staged_words.c.side),
            )
        )
        found = {unmet[n]: word_id for n, word_id in rows}
        ids |= found
        writing.new_words[side].update(found)
    return ids


def _add_words(writing: Writing, side: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Adds words that the vocabulary lacks, and gives them ids in their order."""
    state = writing.state
    first = state.last_word_id + 1
    ids = {token: word_id for word_id, token in enumerate(counts, first)}
    writing.loader.insert(
        vocabulary,
        ("id", "side", "token", "count", "folded"),
        ((word_id, side, token, count, folded(token)) for word_id, (token, count) in enumerate(counts.items(), first)),
    )
    state.last_word_id += len(ids)
    _count_types(writing, side, sum(count > 0 for count in counts.values()))
    writing.new_words[side].update(ids)
    return ids
