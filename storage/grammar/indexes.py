"""Indexes of rules, by key and by word.

The index by key is log-structured: sorted runs of fingerprints and rule ids. Keys are random numbers, so in a B-tree of
a large store each new key would change a different page. Here, a commit adds one run with its new rules. A run that is
not much larger than the runs after it is merged with them, so the number of runs is logarithmic in the size of the
store, and each entry is rewritten only a few times. A process reads each run once and looks keys up by binary search in
memory. A fingerprint has 32 bits, so matches must be verified by comparing keys. Deleting a rule adds a tombstone, an
entry with a negative rule id. A merge with the run of the original entry removes both.

The index by word has an entry for each word of each rule. A rule with several source words also has an anchor. This
negative number is a hash of two of the words and their distance. The two words are the words that were added to the
vocabulary last, because they are usually rare. A sentence has few word pairs, so all rules that match it are found by
the anchors of its word pairs, and by its single words.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select

from hierogram.samplers.grammar.kinds import SOURCE, TWO_SIDES, GrammarKind, WordSide
from hierogram.storage.database.transactions import WriteTransaction
from hierogram.storage.grammar.counts import rule_keys
from hierogram.storage.records.columns import KeyRun
from hierogram.storage.schema.tables import rule_key_runs

_RATIO = 4
"""A run is merged with the newer runs unless it is at least this many times as large."""

_MAX_RUN = 16_000_000
"""Maximum number of entries of a run. Larger runs would approach the databases' maximum value size."""

_RUNS_PER_POSITION = 1_000
"""Run ids per store position. Run ids encode the position of the commit, so they are never reused."""

_HALF = np.uint64(32)
_INDEX_MASK = np.uint64((1 << 32) - 1)


def key_fingerprints(keys: NDArray[np.int64] | NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the fingerprints uint32[n] of signed or unsigned keys [n, 2] (high, low)."""
    mixed = keys.view(np.uint64)[:, 0] ^ keys.view(np.uint64)[:, 1]
    return (mixed ^ mixed >> _HALF).astype(np.uint32)


def make_run(fingerprints: NDArray[np.uint32], rule_ids: NDArray[np.int64]) -> KeyRun:
    """Sort entries into a run."""
    order = _stable_argsort(fingerprints)
    return KeyRun(fingerprints[order], rule_ids[order])


def _stable_argsort(fingerprints: NDArray[np.uint32]) -> NDArray[np.int64]:
    # Pack fingerprint and index into one number, because sorting is several times as fast as argsort.
    numbers = fingerprints.astype(np.uint64) << _HALF | np.arange(len(fingerprints), dtype=np.uint64)
    return (np.sort(numbers) & _INDEX_MASK).astype(np.int64)


def find_matches(run: KeyRun, fingerprints: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all matches of fingerprints in a run, as indices into `fingerprints` and into the run."""
    first = np.searchsorted(run.fingerprints, fingerprints, "left")
    counts = np.zeros(len(fingerprints), np.int64)
    candidates = np.flatnonzero(first < len(run.fingerprints))
    candidates = candidates[run.fingerprints[first[candidates]] == fingerprints[candidates]]
    counts[candidates] = np.searchsorted(run.fingerprints, fingerprints[candidates], "right") - first[candidates]
    before = np.cumsum(counts) - counts
    indices = np.repeat(np.arange(len(fingerprints)), counts)
    return indices, np.arange(len(indices)) + np.repeat(first - before, counts)


def merge_runs(older: KeyRun, newer: KeyRun, *, is_oldest: bool) -> KeyRun:
    """Merge two runs. Tombstones cancel entries of `older`. Unmatched ones are kept unless `is_oldest`."""
    removed = np.flatnonzero(newer.rule_ids < 0)
    indices, rows = find_matches(older, newer.fingerprints[removed])
    is_same_rule = older.rule_ids[rows] == -newer.rule_ids[removed[indices]]
    kept_older = np.ones(len(older.rule_ids), np.bool_)
    kept_older[rows[is_same_rule]] = False
    kept_newer = np.ones(len(newer.rule_ids), np.bool_)
    kept_newer[removed if is_oldest else removed[indices[is_same_rule]]] = False
    fingerprints, rule_ids = older.fingerprints[kept_older], older.rule_ids[kept_older]
    added = newer.fingerprints[kept_newer]
    insert_at = np.searchsorted(fingerprints, added, "right")
    return KeyRun(np.insert(fingerprints, insert_at, added), np.insert(rule_ids, insert_at, newer.rule_ids[kept_newer]))


def encode_run(run: KeyRun) -> bytes:
    """Encode a run: all fingerprints, then all rule ids, little-endian."""
    return run.fingerprints.astype("<u4").tobytes() + run.rule_ids.astype("<i8").tobytes()


def decode_run(content: bytes) -> KeyRun:
    """Decode a run. This is the inverse of `encode_run`."""
    entries = len(content) // 12
    return KeyRun(
        np.frombuffer(content, "<u4", entries).astype(np.uint32),
        np.frombuffer(content, "<i8", entries, 4 * entries).astype(np.int64),
    )


def _runs(transaction: WriteTransaction) -> dict[int, KeyRun]:
    """Return the store's runs by id, oldest first. Reads only runs that are not cached."""
    columns, cached = rule_key_runs.c, transaction.key_runs
    ids = transaction.connection.scalars(select(columns.id).order_by(columns.id)).all()
    missing = [run_id for run_id in ids if run_id not in cached]
    if missing:
        rows = transaction.connection.execute(select(columns.id, columns.content).where(columns.id.in_(missing)))
        cached |= {row.id: decode_run(row.content) for row in rows}
    transaction.key_runs = {run_id: cached[run_id] for run_id in ids}
    return transaction.key_runs


def find_candidates(
    transaction: WriteTransaction, keys: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the key indices and rule ids of all possible matches of keys int64[n, 2], sorted by rule id.

    Includes every rule with one of the keys, and false matches: rules with an equal fingerprint, and deleted rules.
    """
    fingerprints = key_fingerprints(keys)
    # Search in ascending order, because successive searches then hit the processor's cache.
    ascending = _stable_argsort(fingerprints)
    fingerprints = fingerprints[ascending]
    indices, rule_ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for run in _runs(transaction).values():
        fingerprint_rows, run_rows = find_matches(run, fingerprints)
        indices.append(ascending[fingerprint_rows])
        rule_ids.append(run.rule_ids[run_rows])
    key_indices, ids = np.concatenate(indices), np.concatenate(rule_ids)
    order = np.argsort(ids, kind="stable")
    order = order[ids[order] > 0]
    return key_indices[order], ids[order]


def add_keys(transaction: WriteTransaction, keys: NDArray[np.int64], rule_ids: NDArray[np.int64]) -> None:
    """Add rules with keys int64[n, 2] to the index. Negative ids are tombstones of deleted rules."""
    if not len(rule_ids):
        return
    runs = _runs(transaction)
    new_run = make_run(key_fingerprints(keys), rule_ids)
    merged = []
    for run_id, run in sorted(runs.items(), reverse=True):
        entries = len(new_run.rule_ids)
        if len(run.rule_ids) >= _RATIO * entries or len(run.rule_ids) + entries > _MAX_RUN:
            break
        merged.append(run_id)
        new_run = merge_runs(run, new_run, is_oldest=len(merged) == len(runs))
    transaction.connection.execute(delete(rule_key_runs).where(rule_key_runs.c.id.in_(merged)))
    for run_id in merged:
        del transaction.key_runs[run_id]
    _write(transaction, new_run)


def rebuild_runs(transaction: WriteTransaction) -> None:
    """Rebuild the runs from the table `rules`."""
    transaction.connection.execute(delete(rule_key_runs))
    transaction.key_runs.clear()
    rule_ids, keys = rule_keys(transaction.connection)
    entries = make_run(key_fingerprints(keys), rule_ids)
    for first in range(0, len(entries.rule_ids), _MAX_RUN):
        last = first + _MAX_RUN
        _write(transaction, KeyRun(entries.fingerprints[first:last], entries.rule_ids[first:last]))


def stored_runs(connection: Connection) -> Iterator[KeyRun]:
    """Yield the store's runs, oldest first. Only one run is in memory at a time."""
    statement = select(rule_key_runs.c.content).order_by(rule_key_runs.c.id)
    for content in connection.scalars(statement, execution_options={"yield_per": 1}):
        yield decode_run(content)


def _write(transaction: WriteTransaction, run: KeyRun) -> None:
    if not len(run.rule_ids):
        return
    # Give each run a higher id than all older runs, because runs are ordered by id.
    run_id = max((transaction.state.position + 1) * _RUNS_PER_POSITION, 1 + max(transaction.key_runs, default=0))
    transaction.connection.execute(
        insert(rule_key_runs).values(id=run_id, entries=len(run.rule_ids), content=encode_run(run))
    )
    transaction.key_runs[run_id] = run


_RULES_PER_BATCH = 50_000
"""Number of rules whose sides are split into words at once, to limit memory."""

_NO_WORD, _NOT_SEEN = 0, -1

WordIds = Callable[[str, Iterable[str]], Mapping[str, int]]
"""Function that returns the ids of tokens on a side of the vocabulary."""


def is_indexed_by_words(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the rules to index by word: rules with a count, or with at least 0.5 expected uses."""
    is_indexed: NDArray[np.bool_] = (counts > 0) | (expected >= 0.5)
    return is_indexed


_MIXERS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD)))
_ANCHOR_BITS = 28
_REST = np.uint64(64 - _ANCHOR_BITS)
_FARTHEST = 8
_FAR = 0


def hash_anchors(
    first: NDArray[np.int64], second: NDArray[np.int64], distances: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the anchors, from -2²⁸ to -1, of pairs of word ids.

    The first word precedes the second at the given distance in words. `_FAR` is an unknown distance or a distance above
    `_FARTHEST`. Anchors may collide, so matches must be verified.
    """
    first_mixer, second_mixer, third_mixer = _MIXERS
    before, after, gap = (column.astype(np.uint64) for column in (first, second, distances))
    mixed = (before * first_mixer + gap) * second_mixer + after * first_mixer
    mixed = (mixed ^ mixed >> _HALF) * third_mixer
    numbers: NDArray[np.int64] = -1 - (mixed >> _REST).astype(np.int64)
    return numbers


def sentence_anchors(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct anchors of a sentence of word ids. Unknown words have id 0."""
    positions = np.flatnonzero(words)
    before, after = np.triu_indices(len(positions), 1)
    first, second = positions[before], positions[after]
    distances = second - first
    near, gapped = distances <= _FARTHEST, distances > 1
    near_anchors = hash_anchors(words[first[near]], words[second[near]], distances[near])
    gapped_anchors = hash_anchors(words[first[gapped]], words[second[gapped]], np.full(int(gapped.sum()), _FAR))
    return distinct(np.concatenate((near_anchors, gapped_anchors)))


class RuleWords:
    """Index entries of rules with ids up to `last_rule_id`. Caches the word ids of symbols.

    An entry packs a word id and a rule id into one number. The low bits hold the rule id, and their number is the bit
    length of `last_rule_id`. Entries sort by word, then by rule.
    """

    def __init__(self, grammar_kind: GrammarKind, word_ids: WordIds, last_rule_id: int) -> None:
        self._places = [(word_side, dict[str, int]()) for word_side in grammar_kind.rule_words]
        self._anchored = TWO_SIDES in grammar_kind.capabilities
        self._word_ids = word_ids
        self._bits = last_rule_id.bit_length()

    def word_ids(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the word ids of entries."""
        return entries >> self._bits

    def rule_ids(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rule ids of entries."""
        ids: NDArray[np.int64] = entries & ((1 << self._bits) - 1)
        return ids

    def find(self, sides: Mapping[str, Sequence[str]], rule_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sorted entries of the words and anchors of rules. `sides` has the texts by side name."""
        entries = [np.zeros(0, np.int64)]
        for word_side, words_by_symbol in self._places:
            texts = sides[word_side.side]
            for first in range(0, len(rule_ids), _RULES_PER_BATCH):
                chunk = slice(first, first + _RULES_PER_BATCH)
                symbols, rows = self._symbols(word_side, words_by_symbol, texts[chunk])
                words = np.flatnonzero(symbols)
                entries.append(symbols[words] << self._bits | rule_ids[chunk][rows[words]])
                if self._anchored and word_side.side == SOURCE:
                    numbers, of_rows = _side_anchors(symbols, rows)
                    entries.append(numbers << self._bits | rule_ids[chunk][of_rows])
        return distinct(np.concatenate(entries))

    def _symbols(
        self, word_side: WordSide, words_by_symbol: dict[str, int], texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the word id (`_NO_WORD` for symbols that are not words) and the row of each symbol."""
        symbols = " ".join(texts).split(" ")
        words = np.fromiter(map(words_by_symbol.get, symbols, repeat(_NOT_SEEN)), np.int64, len(symbols))
        uncached = np.flatnonzero(words == _NOT_SEEN).tolist()
        if uncached:
            new_words = {symbol: word_side.parse_word(symbol) for symbol in dict.fromkeys(symbols[k] for k in uncached)}
            ids = self._word_ids(word_side.vocabulary, (token for token in new_words.values() if token is not None))
            words_by_symbol.update(
                (symbol, _NO_WORD if token is None else ids[token]) for symbol, token in new_words.items()
            )
            words[uncached] = [words_by_symbol[symbols[k]] for k in uncached]
        spaces = np.fromiter(map(str.count, texts, repeat(" ")), np.int64, len(texts))
        return words, np.repeat(np.arange(len(texts)), spaces + 1)


def _side_anchors(symbols: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the anchors of sides with at least two word tokens, and the rows of these sides.

    An anchor uses the first positions of the two distinct words that were added to the vocabulary last. If a side
    repeats a single word, the anchor uses the first two positions of this word.
    """
    positions = np.flatnonzero(symbols)
    positions = positions[np.lexsort((positions, -symbols[positions], rows[positions]))]
    before, after = positions[:-1], positions[1:]
    repeated = np.zeros(len(positions), np.bool_)
    repeated[1:] = (rows[before] == rows[after]) & (symbols[before] == symbols[after])
    # Sort the first positions of distinct words before other positions. The anchor uses the first two of this order.
    positions = positions[np.argsort(2 * rows[positions] + repeated, kind="stable")]
    is_start = np.diff(rows[positions], prepend=-1) > 0
    starts = np.flatnonzero(is_start[:-1] & ~is_start[1:])
    pairs = np.stack([positions[starts], positions[starts + 1]])
    first, second = pairs.min(axis=0), pairs.max(axis=0)
    gaps = np.cumsum(symbols == _NO_WORD)
    distances = second - first
    distances[(gaps[first] != gaps[second]) | (distances > _FARTHEST)] = _FAR
    return hash_anchors(symbols[first], symbols[second], distances), rows[first]


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sorted distinct numbers."""
    # Sort, because np.unique is slower: it uses a hash table.
    ordered: NDArray[np.int64] = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)].astype(np.bool_)]
