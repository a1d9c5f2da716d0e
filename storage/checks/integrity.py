"""Integrity checks between the tables of a store, without decoding derivations, in bounded memory."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, TextClause, text

from hierogram.samplers.grammar.columns import split_blobs
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.checks.spill import SLICES, Spill, open_spill, slice_ranges
from hierogram.storage.database.transactions import largest_id, read_grammar_kind, read_settings, read_state
from hierogram.storage.exceptions import StoreError
from hierogram.storage.grammar.counts import IDS_PER_RANGE, stored_rules
from hierogram.storage.grammar.key_index import key_fingerprints, stored_runs
from hierogram.storage.grammar.word_index import RuleWords, distinct, is_indexed_by_words
from hierogram.storage.options import OptionError, check
from hierogram.storage.pairs.identities import wrong_identities
from hierogram.storage.pairs.pair_index import wrong_blocks
from hierogram.storage.pairs.vocabulary import find_words, fold
from hierogram.storage.records.columns import KeyRun, StoredRules
from hierogram.storage.records.pairs import SETTLED, UNSETTLED

_MAX_SHOWN = 5

_ROWS_PER_FETCH = 10_000
_WORDS_AT_ONCE = 200_000
_ENTRIES_AT_ONCE = 1 << 20


def _orphans(reference: str, parent: str, shown: str = "pair_id") -> str:
    """Return the query of rows whose `reference` has no `parent` row, both given as table.column."""
    table, parent_table = (column.partition(".")[0] for column in (reference, parent))
    return (
        f"SELECT {table}.{shown} FROM {table}"
        f" WHERE NOT EXISTS (SELECT 1 FROM {parent_table} WHERE {parent} = {reference})"
    )


RECOUNTS = {
    ("corpora", "pairs"): """
        SELECT c.id, count(p.id) AS number
          FROM corpora AS c LEFT JOIN sentence_pairs AS p ON p.corpus_id = c.id GROUP BY c.id""",
    ("ingest_batches", "accepted"): """
        SELECT b.id, coalesce(p.pairs, 0) + coalesce(w.pairs, 0) AS number
          FROM ingest_batches AS b
          LEFT JOIN (SELECT batch_id, count(*) AS pairs FROM sentence_pairs GROUP BY batch_id) AS p
            ON p.batch_id = b.id
          LEFT JOIN (SELECT batch_id, count(*) AS pairs FROM withdrawals
                      WHERE done_at IS NOT NULL GROUP BY batch_id) AS w
            ON w.batch_id = b.id""",
    ("ingest_batches", "rejected"): """
        SELECT batch_id AS id, sum(last_line - line + 1) AS number FROM rejected_lines GROUP BY batch_id""",
}
"""Queries of the correct numbers by table and column. For `rejected`, the number is a lower bound."""


def differing_counts(table: str, column: str) -> str:
    """Return the SQL after FROM for rows with a wrong number. `f.number` is the correct number."""
    wrong = "<" if column == "rejected" else "<>"
    return f"({RECOUNTS[table, column]}) AS f WHERE f.id = {table}.id AND {table}.{column} {wrong} f.number"


# Queries of inconsistent rows by problem. The first column identifies a row.
_PROBLEM_QUERIES = {
    "pairs without a corpus": _orphans("sentence_pairs.corpus_id", "corpora.id", "id"),
    "pairs without an ingest batch, or in a different corpus than their batch": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE NOT EXISTS (SELECT 1 FROM ingest_batches AS b
                            WHERE b.id = p.batch_id AND b.corpus_id = p.corpus_id)""",
    "derivations without a pair": _orphans("derivations.pair_id", "sentence_pairs.id"),
    "pairs whose state and derivation disagree (only waiting and unaligned pairs have no derivation)": """
        SELECT p.id FROM sentence_pairs AS p LEFT JOIN derivations AS d ON d.pair_id = p.id
         WHERE (p.state IN ('waiting', 'unaligned')) <> (d.pair_id IS NULL)""",
    "pairs whose state and alignment disagree (only unaligned pairs have no alignment)": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE (p.state = 'unaligned') <> (p.aligned_by = 'none')
            OR (p.aligned_by = 'none' AND p.alignment <> '')""",
    "pairs that the aligner has aligned, but that have no row in the table pair_links": (
        _orphans("sentence_pairs.id", "pair_links.pair_id", "id") + " AND aligned_by = 'aligner'"
    ),
    "links without a pair, or of a pair without an alignment": """
        SELECT l.pair_id FROM pair_links AS l LEFT JOIN sentence_pairs AS p ON p.id = l.pair_id
         WHERE p.id IS NULL OR p.state = 'unaligned'""",
    "human links out of range, or of pairs missing from the table link_corrections": """
        SELECT h.pair_id FROM human_links AS h
          LEFT JOIN sentence_pairs AS p ON p.id = h.pair_id LEFT JOIN link_corrections AS c ON c.pair_id = h.pair_id
         WHERE p.id IS NULL OR c.pair_id IS NULL OR h.source < 0 OR h.source >= p.source_length
            OR h.target < 0 OR h.target >= p.target_length""",
    "superfluous rows in the table link_corrections, without human links or pending changes": """
        SELECT c.pair_id FROM link_corrections AS c
         WHERE c.applied_version > c.version OR (c.applied_version = c.version
           AND NOT EXISTS (SELECT 1 FROM human_links AS h WHERE h.pair_id = c.pair_id))""",
    "pairs whose alignment contradicts their human links": """
        SELECT h.pair_id FROM human_links AS h
          JOIN link_corrections AS c ON c.pair_id = h.pair_id JOIN sentence_pairs AS p ON p.id = h.pair_id
         WHERE c.applied_version = c.version AND h.fixed <> (' ' || p.alignment || ' '
          LIKE '% ' || CAST(h.source AS TEXT) || '-' || CAST(h.target AS TEXT) || ' %')""",
    "rules without uses, or with negative uses": """
        SELECT id FROM rules
         WHERE count < 0 OR expected_uses < 0 OR minimal_uses < 0 OR count + expected_uses + minimal_uses = 0""",
    "ingest batches without a corpus": _orphans("ingest_batches.corpus_id", "corpora.id", "id"),
    "ingest batches whose number of accepted pairs differs from stored plus withdrawn pairs": (
        f"SELECT ingest_batches.id FROM ingest_batches, {differing_counts('ingest_batches', 'accepted')}"
    ),
    "withdrawn pairs that are still stored, or pending withdrawals of missing pairs": """
        SELECT w.pair_id FROM withdrawals AS w LEFT JOIN sentence_pairs AS p ON p.id = w.pair_id
         WHERE (w.done_at IS NULL) <> (p.id IS NOT NULL)""",
    "pairs with a derivation but without a row in the table pair_positions, or the reverse": _orphans(
        "derivations.pair_id", "pair_positions.pair_id"
    )
    + " UNION ALL "
    + _orphans("pair_positions.pair_id", "derivations.pair_id"),
    "scores of missing pairs": _orphans("pair_scores.pair_id", "sentence_pairs.id"),
    "schedule restarts of missing pairs": _orphans("schedule_restarts.pair_id", "sentence_pairs.id"),
    "ingest batches that count fewer rejected lines than the table rejected_lines contains": (
        f"SELECT ingest_batches.id FROM ingest_batches, {differing_counts('ingest_batches', 'rejected')}"
    ),
    "corpora whose total differs from the number of their stored pairs": (
        f"SELECT corpora.name FROM corpora, {differing_counts('corpora', 'pairs')}"
    ),
}

_TOTALS = {
    **{state: f"SELECT count(*) FROM sentence_pairs WHERE state = '{state}'" for state in (*UNSETTLED, SETTLED)},
    **{f"{s}_types": f"SELECT count(*) FROM vocabulary WHERE side = '{s}' AND count > 0" for s in (SOURCE, TARGET)},
    "rules_in_use": "SELECT count(*) FROM rules WHERE count > 0",
    "rules_expected": "SELECT count(*) FROM rules WHERE expected_uses > 0",
    "rules_stored": "SELECT count(*) FROM rules",
    "rule_tokens": "SELECT coalesce(sum(count), 0) FROM rules",
    "expected_tokens": "SELECT coalesce(sum(expected_uses), 0) FROM rules",
    "rejected_lines": "SELECT coalesce(sum(last_line - line + 1), 0) FROM rejected_lines",
    "sweeps": "SELECT count(*) FROM sweeps",
}

_LAST_IDS = {"last_pair_id": "sentence_pairs", "last_rule_id": "rules", "last_word_id": "vocabulary"}


def table_problems(connection: Connection, on_rules: Callable[[StoredRules], None] = lambda _: None) -> list[str]:
    """Return the inconsistencies between the tables. `on_rules` receives all rules by range of ids."""
    return [*_row_problems(connection), *_total_problems(connection), *_index_problems(connection, on_rules)]


def _row_problems(connection: Connection) -> Iterator[str]:
    for problem, query in _PROBLEM_QUERIES.items():
        number = connection.execute(text(f"SELECT count(*) FROM ({query}) AS wrong_rows")).scalar_one()
        if number:
            first = connection.execute(text(f"{query} ORDER BY 1 LIMIT {_MAX_SHOWN}")).scalars()
            yield _format_problem(problem, number, first)
    try:
        check(read_settings(connection))
    except OptionError as error:
        yield f"table settings: {error}"
    except StoreError as error:
        yield str(error)


def counted_totals(connection: Connection) -> dict[str, float]:
    """Return the totals of `store_state` by name, recomputed from the tables."""
    totals = {name: connection.execute(text(query)).scalar_one() for name, query in _TOTALS.items()}
    return {name: (float if name == "expected_tokens" else int)(number) for name, number in totals.items()}


def largest_ids(connection: Connection) -> dict[str, int]:
    """Return the largest id in use of each table, by column name in `store_state`."""
    return {name: largest_id(connection, table) for name, table in _LAST_IDS.items()}


def _total_problems(connection: Connection) -> Iterator[str]:
    state = asdict(read_state(connection))
    for name, number in counted_totals(connection).items():
        if state[name] != number:
            yield f"store_state.{name} is {state[name]}, but should be {number}"
    for name, number in largest_ids(connection).items():
        if state[name] < number:
            yield f"store_state.{name} is {state[name]}, but id {number} is in use"


_WORD = np.dtype([("id", np.int64), ("count", np.int64)])
"""Count of a word, whose side and token are the text: stored, or counted in pairs (`id` is 0)."""
_ENTRY = np.dtype([("fingerprint", np.uint32), ("rule", np.int64)])
"""Entry of the index of rules by key. The id of a deleted rule is negative."""
_MAX_OFFSET = (1 << 31) - 1


class WrongWords(NamedTuple):
    """Differences between the vocabulary and the tokens of pairs, each list sorted.

    `miscounted` are (id, description, correct count), `missing` are (side, token, count), and `misfolded` are (id,
    description, correct form).
    """

    miscounted: list[tuple[int, str, int]]
    missing: list[tuple[str, str, int]]
    misfolded: list[tuple[int, str, str]]


def vocabulary_differences(connection: Connection) -> WrongWords:
    """Compare the vocabulary's counts with the tokens of pairs, and its folded forms with its words."""
    wrong = WrongWords([], [], [])
    with open_spill(_WORD, 1) as words:
        for side in read_grammar_kind(connection).pair_words:
            _spill_counted_words(connection, side, words)
        stored_rows = connection.execute(_streamed("SELECT id, side, token, count, folded FROM vocabulary ORDER BY id"))
        for rows in stored_rows.partitions(_WORDS_AT_ONCE):
            forms = [fold(row.token) for row in rows]
            wrong.misfolded.extend(
                (row.id, f"{row.token} ({row.side})", form)
                for row, form in zip(rows, forms, strict=True)
                if row.folded != form
            )
            numbers = np.array([(word_id, count) for word_id, _, _, count, _ in rows], _WORD)
            words.add_by_text(numbers, [f"{row.side} {row.token}" for row in rows])
        for first, last in slice_ranges([words], _WORDS_AT_ONCE):
            numbers, [keys] = words.read(first, last)
            stored: dict[bytes, tuple[int, int]] = {}
            counted = Counter[bytes]()
            for key, (word_id, count) in zip(split_blobs(keys), numbers.tolist(), strict=True):
                if word_id:
                    stored[key] = word_id, count
                else:
                    counted[key] += count
            for key, (word_id, count) in stored.items():
                correct_count = counted.pop(key, 0)
                if correct_count != count:
                    side, token = _split_key(key)
                    wrong.miscounted.append((word_id, f"{token} ({side})", correct_count))
            wrong.missing.extend((*_split_key(key), count) for key, count in counted.items())
    wrong.miscounted.sort()
    wrong.missing.sort()
    return wrong


def _spill_counted_words(connection: Connection, side: str, words: Spill) -> None:
    counted = Counter[str]()
    for texts in connection.scalars(_streamed(f"SELECT {side} FROM sentence_pairs ORDER BY id")).partitions():
        counted.update(" ".join(texts).split(" "))
        if len(counted) > _WORDS_AT_ONCE:
            _spill_counts(words, side, counted)
            counted.clear()
    _spill_counts(words, side, counted)


def _spill_counts(words: Spill, side: str, counted: Counter[str]) -> None:
    # Empty texts give empty tokens.
    counted.pop("", None)
    numbers = np.array([(0, count) for count in counted.values()], _WORD)
    words.add_by_text(numbers, [f"{side} {token}" for token in counted])


def _split_key(key: bytes) -> tuple[str, str]:
    side, _, token = key.decode().partition(" ")
    return side, token


class WrongIndexes(NamedTuple):
    """Ids of rules with wrong index entries, ascending.

    Rules of `stale_words` have word entries but do not exist, rules of `wrong_words` have wrong word entries, rules of
    `missing_keys` are missing from the key index, and rules of `stale_keys` do not exist or have other keys there.
    """

    stale_words: list[int]
    wrong_words: list[int]
    missing_keys: list[int]
    stale_keys: list[int]


def rule_index_differences(
    connection: Connection, on_rules: Callable[[StoredRules], None] = lambda _: None
) -> WrongIndexes:
    """Compare the word index and the key index of rules with the rules. `on_rules` receives all rules."""
    # Compare ranges of ids of equal width, one for each slice. Larger ids in an index are in the last slice.
    last_stored = largest_id(connection, "rules")
    last_rule = max(last_stored, largest_id(connection, "rule_words", "rule_id"))
    width = max(IDS_PER_RANGE, -(-(last_rule + 1) // SLICES))
    wrong = WrongIndexes([], [], [], [])
    with open_spill(np.dtype(np.int64)) as word_entries, open_spill(_ENTRY) as key_entries:
        largest_word = _spill_word_entries(connection, word_entries, last_rule.bit_length(), width)
        for run in stored_runs(connection):
            _spill_run(key_entries, run, width)
        # Give words missing from the vocabulary an id without entries, so that rules with these words are reported.
        unknown = 1 + max(largest_id(connection, "vocabulary"), largest_word)
        for number in range(SLICES):
            first = number * width
            if first > last_stored and not word_entries.sizes[number] and not key_entries.sizes[number]:
                continue
            stored = stored_rules(connection, first - 1, min(first + width - 1, last_stored))
            on_rules(stored)
            words = RuleWords(read_grammar_kind(connection), partial(_look_up_words, connection, unknown), last_rule)
            word_differences = _word_index_differences(words, stored, word_entries.read(number, number + 1)[0])
            key_differences = _key_index_differences(stored, key_entries.read(number, number + 1)[0], first)
            for rule_ids, found in zip(wrong, (*word_differences, *key_differences), strict=True):
                rule_ids += found
    return wrong


def _look_up_words(connection: Connection, unknown: int, side: str, tokens: Iterable[str]) -> dict[str, int]:
    """Return the ids of words by token. Words missing from the vocabulary get the id `unknown`."""
    ids_by_token = dict.fromkeys(tokens, unknown)
    words = find_words(connection, ids_by_token)[side]
    return ids_by_token | {token: word.id for token, word in words.items()}


def _spill_word_entries(connection: Connection, word_entries: Spill, bits: int, width: int) -> int:
    """Spill the packed word entries by slices of `width` rule ids. Returns the largest word id."""
    numbers = iter(connection.scalars(_streamed(f"SELECT word_id << {bits} | rule_id FROM rule_words")))
    largest = 0
    while len(chunk := np.fromiter(islice(numbers, _ENTRIES_AT_ONCE), np.int64)):
        _spill_by_rule(word_entries, chunk, chunk & ((1 << bits) - 1), width)
        largest = max(largest, int(chunk.max()) >> bits)
    return largest


def _spill_run(key_entries: Spill, run: KeyRun, width: int) -> None:
    for first in range(0, len(run.rule_ids), _ENTRIES_AT_ONCE):
        ids = run.rule_ids[first : first + _ENTRIES_AT_ONCE]
        rows = np.empty(len(ids), _ENTRY)
        rows["fingerprint"], rows["rule"] = run.fingerprints[first : first + _ENTRIES_AT_ONCE], ids
        _spill_by_rule(key_entries, rows, np.abs(ids), width)


def _spill_by_rule(entries: Spill, rows: NDArray[Any], rule_ids: NDArray[np.int64], width: int) -> None:
    slices = np.minimum(rule_ids // width, SLICES - 1)
    order = np.argsort(slices, kind="stable")
    entries.add(slices[order], rows[order])


def _word_index_differences(
    words: RuleWords, stored: StoredRules, entries: NDArray[np.int64]
) -> tuple[list[int], list[int]]:
    """Return `stale_words` and `wrong_words` of a range of rules, given the stored entries."""
    # Also check rules that no longer need entries: a rule keeps its entries when its expected uses decrease.
    by_words = is_indexed_by_words(stored.rules.count, stored.rules.expected_uses)
    checked = np.flatnonzero(by_words | np.isin(stored.ids, words.rule_ids(entries)))
    sides = {SOURCE: stored.rules.source.at(checked), TARGET: stored.rules.target.at(checked)}
    correct_entries = words.make_entries(sides, stored.ids[checked])
    differing = distinct(words.rule_ids(np.setxor1d(correct_entries, entries, assume_unique=True)))
    is_stored = np.isin(differing, stored.ids)
    return differing[~is_stored].tolist(), differing[is_stored].tolist()


def _key_index_differences(stored: StoredRules, entries: NDArray[Any], first: int) -> tuple[list[int], list[int]]:
    """Return `missing_keys` and `stale_keys` of a range of rules, given the stored entries."""
    # Pack the offset of the rule id in the range and the fingerprint into a number. Limit wrong ids, which may not fit.
    packed = np.minimum(np.abs(entries["rule"]) - first, _MAX_OFFSET) << 32 | entries["fingerprint"]
    added, deleted = distinct(packed[entries["rule"] > 0]), packed[entries["rule"] < 0]
    indexed = added[~np.isin(added, deleted)]
    correct = (stored.ids - first) << 32 | key_fingerprints(stored.rules.keys)
    differing = np.setxor1d(correct, indexed, assume_unique=True)
    is_missing = np.isin(differing, correct)
    rule_ids = (differing >> 32) + first
    return rule_ids[is_missing].tolist(), rule_ids[~is_missing].tolist()


def _index_problems(connection: Connection, on_rules: Callable[[StoredRules], None]) -> Iterator[str]:
    words = vocabulary_differences(connection)
    wrong = rule_index_differences(connection, on_rules)
    problems: dict[str, Sequence[object]] = {
        "words whose count differs from their occurrences in the pairs": [word for _, word, _ in words.miscounted],
        "words of pairs missing from the vocabulary": [f"{token} ({side})" for side, token, _ in words.missing],
        "words with a wrong folded form": [word for _, word, _ in words.misfolded],
        "pairs whose identity does not match their content or external id": wrong_identities(connection),
        "deleted rules that are still in the word index": wrong.stale_words,
        "rules indexed under wrong words": wrong.wrong_words,
        "blocks of pairs indexed under wrong words": wrong_blocks(connection),
        "rules missing from the key index": wrong.missing_keys,
        "key index entries of deleted rules, or with wrong keys": wrong.stale_keys,
    }
    for problem, names in problems.items():
        if names:
            yield _format_problem(problem, len(names), names[:_MAX_SHOWN])


def _format_problem(problem: str, number: int, first: Iterable[object]) -> str:
    return f"{number} {problem}: {', '.join(map(str, first))}{', …' if number > _MAX_SHOWN else ''}"


def _streamed(query: str) -> TextClause:
    return text(query).execution_options(yield_per=_ROWS_PER_FETCH)
