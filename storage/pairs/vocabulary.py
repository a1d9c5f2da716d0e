"""Words of pairs: ids and counts, and search for words with other spellings."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice, product

from sqlalchemy import ColumnElement, Connection, select

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, GrammarKind
from hierogram.storage.database.transactions import WriteTransaction, rows_with, staged_vocabulary, staged_words
from hierogram.storage.records.parts import is_part
from hierogram.storage.schema.tables import vocabulary

SideWord = tuple[str, str]
"""Side of a word (empty for any side), and the word."""

WordCounts = Mapping[str, Mapping[str, int]]
"""Word counts by side (`source` or `target`), then by token."""


def count_pair_words(grammar_kind: GrammarKind, sources: Sequence[str], targets: Sequence[str]) -> WordCounts:
    """Count the space-separated tokens of pairs by side, for the sides that consist of words."""
    texts = {SOURCE: sources, TARGET: targets}
    counts = {side: Counter(" ".join(texts[side]).split(" ")) for side in grammar_kind.pair_words}
    for words in counts.values():
        # Empty texts, or no texts, give empty tokens.
        del words[""]
    return counts


def count_words(transaction: WriteTransaction, words: WordCounts, sign: int = 1) -> None:
    """Add word counts to the vocabulary (subtract if `sign` is -1). Words with count 0 keep their ids."""
    increments: list[tuple[int, int]] = []
    for side, counts in words.items():
        ids = _find_ids(transaction, side, list(counts))
        increments += [(word_id, sign * counts[token]) for token, word_id in ids.items()]
        # Add frequent words first, so that rarer words usually have higher ids.
        new = sorted((-count, token) for token, count in counts.items() if token not in ids)
        _add_words(transaction, side, {token: -count for count, token in new})
    transaction.loader.stage(staged_vocabulary, sorted(increments))
    all_in_use = transaction.state.source_types + transaction.state.target_types == transaction.state.last_word_id
    # Count newly used words before the update, and newly unused words after it.
    unused = _count_unused(transaction) if sign > 0 and not all_in_use else {}
    transaction.execute(
        "UPDATE vocabulary SET count = vocabulary.count + s.count FROM staged_vocabulary AS s WHERE id = s.word_id"
    )
    for side, number in (unused if sign > 0 else _count_unused(transaction)).items():
        transaction.state.add(f"{side}_types", sign * number)


def _count_unused(transaction: WriteTransaction) -> dict[str, int]:
    rows = transaction.execute(
        "SELECT side, count(*) FROM staged_vocabulary JOIN vocabulary ON id = word_id"
        " WHERE vocabulary.count = 0 GROUP BY side"
    )
    return dict(rows.all())


def find_or_add_ids(transaction: WriteTransaction, side: str, tokens: Iterable[str]) -> Mapping[str, int]:
    """Return the ids of words by token. Words missing from the vocabulary are added with count 0."""
    distinct = list(dict.fromkeys(tokens))
    ids = _find_ids(transaction, side, distinct)
    return ids | _add_words(transaction, side, {token: 0 for token in distinct if token not in ids})


def _find_ids(transaction: WriteTransaction, side: str, tokens: Sequence[str]) -> dict[str, int]:
    """Return the ids of known words by token. Uses and extends the cache of ids."""
    caches = (transaction.seen_words, transaction.new_words)
    ids = {token: words[side][token] for words in caches for token in tokens if token in words[side]}
    cached = sum(len(words[side]) for words in caches for side in (SOURCE, TARGET))
    # Skip the query if all words of the store are cached, because then all other words are new.
    if len(ids) < len(tokens) and cached < transaction.state.last_word_id:
        uncached = [token for token in tokens if token not in ids]
        transaction.loader.stage(staged_words, ((n, side, token) for n, token in enumerate(uncached)))
        rows = transaction.execute(
            "SELECT s.n, vocabulary.id FROM staged_words AS s"
            " JOIN vocabulary ON vocabulary.token = s.token AND vocabulary.side = s.side"
        )
        stored_ids = {uncached[n]: word_id for n, word_id in rows}
        ids |= stored_ids
        transaction.new_words[side].update(stored_ids)
    return ids


def _add_words(transaction: WriteTransaction, side: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Insert new words with their counts, and assign ids in the given order. Returns the ids by token."""
    state = transaction.state
    first = state.last_word_id + 1
    ids = {token: word_id for word_id, token in enumerate(counts, first)}
    transaction.loader.insert(
        vocabulary,
        ((word_id, side, token, count, fold(token)) for word_id, (token, count) in enumerate(counts.items(), first)),
    )
    state.last_word_id += len(ids)
    state.add(f"{side}_types", sum(count > 0 for count in counts.values()))
    transaction.new_words[side].update(ids)
    return ids


MAX_FOLDED_LENGTH = 128
"""Maximum length of a folded form in characters. Longer words are compared by this prefix."""

MAX_READINGS = 8
"""Maximum number of readings of a phrase, without the phrase itself."""
_MAX_SPELLINGS = 16
_MAX_COMBINATIONS = 64
_MAX_READ_PER_FORM = 200
_MAX_READ_PER_PREFIX = 4_000
_MIN_STEM_LENGTH = 2
_MIN_SIMILARITY = 0.75
MAX_SIMILAR = 8
_KEPT_MARKS = frozenset({0, 7, 8, 9})
"""Combining classes that are not accents: letters and vowel signs, nuktas, kana marks, viramas."""


def fold(token: str) -> str:
    """Return the first `MAX_FOLDED_LENGTH` characters of the word, case-folded, without accents, in NFC.

    Accents are removed after a compatibility decomposition [Unicode Standard Annex 15]. Case is removed by case folding
    [Unicode Standard, section 3.13]. `Λόγος`, `λογος` and a decomposed `λόγος` have the same form. The form is empty
    only if the word is empty.
    """
    if token.isascii():
        return token[:MAX_FOLDED_LENGTH].lower()
    letters = unicodedata.normalize("NFKD", token[:MAX_FOLDED_LENGTH])
    letters = unicodedata.normalize("NFKD", letters.casefold())
    base_letters = "".join(letter for letter in letters if unicodedata.combining(letter) in _KEPT_MARKS)
    return (unicodedata.normalize("NFC", base_letters) or token)[:MAX_FOLDED_LENGTH]


@dataclass(frozen=True, slots=True)
class VocabularyWord:
    """Word of the vocabulary. Its count is 0 if all pairs with the word were withdrawn."""

    token: str
    id: int
    count: int


def find_words(connection: Connection, tokens: Iterable[str]) -> dict[str, dict[str, VocabularyWord]]:
    """Return the words with these tokens by side, then by token. Omits words missing from the vocabulary."""
    words: dict[str, dict[str, VocabularyWord]] = {SOURCE: {}, TARGET: {}}
    table = vocabulary.c
    statement = select(table.side, table.token, table.id, table.count)
    for side, token, word_id, count in rows_with(connection, statement, table.token, tokens):
        words[side][token] = VocabularyWord(token, word_id, count)
    return words


def spellings(connection: Connection, side: str, token: str) -> list[VocabularyWord]:
    """Return words that equal `token` except for accents and case: the word itself, then by frequency."""
    words = _words(connection, side, vocabulary.c.folded == fold(token), _MAX_READ_PER_FORM)
    return sorted(words, key=lambda word: (word.token != token, -word.count, word.token))[:_MAX_SPELLINGS]


def readings(choices: Mapping[SideWord, Sequence[str]]) -> list[dict[SideWord, str]]:
    """Return up to `MAX_READINGS` readings: combinations of spellings of words, likeliest first.

    `choices` are the spellings of each word, likeliest first. The words themselves are not a reading. If a word has no
    spelling, the result is empty. Only a few spellings of each word of a long phrase are tried.
    """
    # Limit the spellings of each word, so that a long phrase has few combinations.
    max_choices = max(1, int(_MAX_COMBINATIONS ** (1 / max(len(choices), 1)) + 1e-9))
    combinations = product(*(range(min(max_choices, len(candidates))) for candidates in choices.values()))
    ranked = sorted(combinations, key=lambda ranks: (sum(ranks), ranks))
    spelled = ({word: choices[word][rank] for word, rank in zip(choices, ranks, strict=True)} for ranks in ranked)
    differing = (reading for reading in spelled if any(word != spelling for (_, word), spelling in reading.items()))
    return list(islice(differing, MAX_READINGS))


def similar_words(connection: Connection, side: str, token: str) -> list[str]:
    """Return up to `MAX_SIMILAR` other words: spellings, then words with this prefix, then similar words."""
    form = fold(token)
    words: dict[str, VocabularyWord] = {word.token: word for word in spellings(connection, side, token)}
    beginning = _words_with_prefix(connection, side, form)
    words |= {word.token: word for word in beginning[:MAX_SIMILAR]}
    stem = form[:_MIN_STEM_LENGTH] if len(form) > _MIN_STEM_LENGTH else ""
    if stem and len(words) < MAX_SIMILAR:
        forms: dict[str, list[VocabularyWord]] = {}
        for word in _words_with_prefix(connection, side, stem):
            forms.setdefault(fold(word.token), []).append(word)
        for close in get_close_matches(form, forms, MAX_SIMILAR, _MIN_SIMILARITY):
            words |= {word.token: word for word in forms[close]}
    words.pop(token, None)
    return [word for word in words if not is_part(word)][:MAX_SIMILAR]


def _words_with_prefix(connection: Connection, side: str, form: str) -> list[VocabularyWord]:
    """Return some words whose folded form has the prefix `form`, most frequent first."""
    # U+10FFFF sorts after all letters.
    column = vocabulary.c.folded
    words = _words(connection, side, (column >= form) & (column < form + "\U0010ffff"), _MAX_READ_PER_PREFIX)
    return sorted(words, key=lambda word: (-word.count, word.token))


def _words(connection: Connection, side: str, condition: ColumnElement[bool], limit: int) -> list[VocabularyWord]:
    columns = vocabulary.c.token, vocabulary.c.id, vocabulary.c.count
    statement = select(*columns).where(vocabulary.c.side == side, condition)
    rows = connection.execute(statement.order_by(vocabulary.c.folded).limit(limit))
    return [VocabularyWord(*row) for row in rows if row[2]]
