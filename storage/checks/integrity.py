"""The store's own checks: what must hold between its tables, whatever the derivations say."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

import numpy as np
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DatabaseError

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.connection import SQLITE
from hierogram.storage.database.settings import read_notation, read_settings
from hierogram.storage.database.transactions import read_state
from hierogram.storage.exceptions import StoreError
from hierogram.storage.grammar.key_runs import differences
from hierogram.storage.grammar.rule_words import RuleWords, distinct, found_by_words
from hierogram.storage.pairs.pair_words import wrong_blocks
from hierogram.storage.pairs.vocabulary import folded
from hierogram.storage.records.columns import StoredRules

_SHOWN = 5
"""How many offenders a line names."""

_ROWS_PER_FETCH = 10_000
_RULES_AT_ONCE = 200_000

# What is wrong with the rows that the query finds; the first column names them.
_OFFENDERS = {
    "pairs without their corpus": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE NOT EXISTS (SELECT 1 FROM corpora AS c WHERE c.id = p.corpus_id)""",
    "pairs without their ingest batch, or in another corpus than it": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE NOT EXISTS (SELECT 1 FROM ingest_batches AS b
                            WHERE b.id = p.batch_id AND b.corpus_id = p.corpus_id)""",
    "derivations without their pair": """
        SELECT d.pair_id FROM derivations AS d
         WHERE NOT EXISTS (SELECT 1 FROM sentence_pairs AS p WHERE p.id = d.pair_id)""",
    "pairs whose state and derivation disagree (a pair has one unless it is waiting or unaligned)": """
        SELECT p.id FROM sentence_pairs AS p LEFT JOIN derivations AS d ON d.pair_id = p.id
         WHERE (p.state IN ('waiting', 'unaligned')) <> (d.pair_id IS NULL)""",
    "pairs whose state and alignment disagree (a pair has one unless it is unaligned)": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE (p.state = 'unaligned') <> (p.aligned_by = 'nobody')
            OR (p.aligned_by = 'nobody' AND p.alignment <> '')""",
    "pairs that the aligner has aligned without links": """
        SELECT p.id FROM sentence_pairs AS p
         WHERE p.aligned_by = 'aligner' AND NOT EXISTS (SELECT 1 FROM pair_links AS l WHERE l.pair_id = p.id)""",
    "links without their pair, or of one without an alignment": """
        SELECT l.pair_id FROM pair_links AS l LEFT JOIN sentence_pairs AS p ON p.id = l.pair_id
         WHERE p.id IS NULL OR p.state = 'unaligned'""",
    "human links beyond their pair's words, or of pairs that are not noted as corrected": """
        SELECT h.pair_id FROM human_links AS h
          LEFT JOIN sentence_pairs AS p ON p.id = h.pair_id LEFT JOIN corrections AS c ON c.pair_id = h.pair_id
         WHERE p.id IS NULL OR c.pair_id IS NULL OR h.source < 0 OR h.source >= p.source_length
            OR h.target < 0 OR h.target >= p.target_length""",
    "pairs that are noted as corrected, with no human links and nothing left to do": """
        SELECT c.pair_id FROM corrections AS c
         WHERE c.done > c.asked OR (c.done = c.asked
           AND NOT EXISTS (SELECT 1 FROM human_links AS h WHERE h.pair_id = c.pair_id))""",
    "pairs whose alignment does not keep to their human links": """
        SELECT h.pair_id FROM human_links AS h
          JOIN corrections AS c ON c.pair_id = h.pair_id JOIN sentence_pairs AS p ON p.id = h.pair_id
         WHERE c.done = c.asked AND h.fixed <> (' ' || p.alignment || ' '
          LIKE '% ' || CAST(h.source AS TEXT) || '-' || CAST(h.target AS TEXT) || ' %')""",
    "rules without any count, or with a negative one": """
        SELECT id FROM rules
         WHERE count < 0 OR expected_uses < 0 OR minimal_uses < 0 OR count + expected_uses + minimal_uses = 0""",
    "ingest batches without their corpus": """
        SELECT b.id FROM ingest_batches AS b
         WHERE NOT EXISTS (SELECT 1 FROM corpora AS c WHERE c.id = b.corpus_id)""",
    "ingest batches whose accepted pairs are not those stored and withdrawn": """
        SELECT b.id FROM ingest_batches AS b
          LEFT JOIN (SELECT batch_id, count(*) AS pairs FROM sentence_pairs GROUP BY batch_id) AS p
            ON p.batch_id = b.id
          LEFT JOIN (SELECT batch_id, count(*) AS pairs FROM withdrawals
                      WHERE done_at IS NOT NULL GROUP BY batch_id) AS w
            ON w.batch_id = b.id
         WHERE b.accepted <> coalesce(p.pairs, 0) + coalesce(w.pairs, 0)""",
    "withdrawn pairs that are still there, or requests for pairs that are not": """
        SELECT w.pair_id FROM withdrawals AS w LEFT JOIN sentence_pairs AS p ON p.id = w.pair_id
         WHERE (w.done_at IS NULL) <> (p.id IS NOT NULL)""",
    "pairs whose derivation and time of resampling disagree (each has both or none)": """
        SELECT d.pair_id FROM derivations AS d
         WHERE NOT EXISTS (SELECT 1 FROM resampled AS v WHERE v.pair_id = d.pair_id)
        UNION ALL SELECT v.pair_id FROM resampled AS v
         WHERE NOT EXISTS (SELECT 1 FROM derivations AS d WHERE d.pair_id = v.pair_id)""",
    "scores of pairs that are gone": """
        SELECT s.pair_id FROM pair_scores AS s
         WHERE NOT EXISTS (SELECT 1 FROM sentence_pairs AS p WHERE p.id = s.pair_id)""",
    "restarts of pairs that are gone": """
        SELECT r.pair_id FROM restarts AS r
         WHERE NOT EXISTS (SELECT 1 FROM sentence_pairs AS p WHERE p.id = r.pair_id)""",
    "ingest batches with more rejected lines than they count": """
        SELECT b.id FROM ingest_batches AS b
          JOIN (SELECT batch_id, sum(last_line - line + 1) AS kept FROM rejected_lines GROUP BY batch_id) AS r
            ON r.batch_id = b.id
         WHERE r.kept > b.rejected""",
    "corpora whose total of pairs is not the number stored": """
        SELECT c.name FROM corpora AS c
          LEFT JOIN (SELECT corpus_id, count(*) AS pairs FROM sentence_pairs GROUP BY corpus_id) AS p
            ON p.corpus_id = c.id
         WHERE c.pairs <> coalesce(p.pairs, 0)""",
}

_TOTALS = {
    "unaligned": "SELECT count(*) FROM sentence_pairs WHERE state = 'unaligned'",
    "waiting": "SELECT count(*) FROM sentence_pairs WHERE state = 'waiting'",
    "sampling": "SELECT count(*) FROM sentence_pairs WHERE state = 'sampling'",
    "settled": "SELECT count(*) FROM sentence_pairs WHERE state = 'settled'",
    "source_types": "SELECT count(*) FROM vocabulary WHERE side = 'source' AND count > 0",
    "target_types": "SELECT count(*) FROM vocabulary WHERE side = 'target' AND count > 0",
    "rules": "SELECT count(*) FROM rules WHERE count > 0",
    "rule_tokens": "SELECT coalesce(sum(count), 0) FROM rules",
    "expected_tokens": "SELECT coalesce(sum(expected_uses), 0) FROM rules",
    "rejected": "SELECT coalesce(sum(last_line - line + 1), 0) FROM rejected_lines",
    "sweeps": "SELECT count(*) FROM sweeps",
}

_LAST_IDS = {
    "last_pair_id": "SELECT coalesce(max(id), 0) FROM sentence_pairs",
    "last_rule_id": "SELECT coalesce(max(id), 0) FROM rules",
    "last_word_id": "SELECT coalesce(max(id), 0) FROM vocabulary",
}


def table_problems(connection: Connection, stored: StoredRules) -> list[str]:
    """Return what is wrong between the tables of a database that can be read, one line each; `stored` are its rules."""
    return [*_wrong_rows(connection), *_wrong_totals(connection), *_wrong_indexes(connection, stored)]


def file_damage(connection: Connection) -> list[str]:
    """Return what SQLite finds wrong with the store's file, one line each; nothing on Postgres."""
    if connection.dialect.name != SQLITE:
        return []
    found: list[str] = []
    try:
        found += connection.execute(text("PRAGMA integrity_check")).scalars()
    except DatabaseError as error:
        found.append(str(error.orig))
    return [f"SQLite finds the file damaged: {line}" for line in found if line != "ok"]


def _wrong_rows(connection: Connection) -> Iterator[str]:
    for what, query in _OFFENDERS.items():
        number = connection.execute(text(f"SELECT count(*) FROM ({query}) AS offenders")).scalar_one()
        if number:
            first = connection.execute(text(f"{query} ORDER BY 1 LIMIT {_SHOWN}")).scalars()
            more = ", …" if number > _SHOWN else ""
            yield f"{number} {what}: {', '.join(map(str, first))}{more}"
    try:
        read_settings(connection)
    except StoreError as error:
        yield str(error)


def counted_totals(connection: Connection) -> dict[str, float]:
    """The totals of `store_state` by name, as the rows of the tables have them."""
    found = {name: connection.execute(text(query)).scalar_one() for name, query in _TOTALS.items()}
    return {name: (float if name == "expected_tokens" else int)(number) for name, number in found.items()}


def largest_ids(connection: Connection) -> dict[str, int]:
    """The largest ids that are given out, by their names in `store_state`."""
    return {name: int(connection.execute(text(query)).scalar_one()) for name, query in _LAST_IDS.items()}


def _wrong_totals(connection: Connection) -> Iterator[str]:
    state = asdict(read_state(connection))
    for name, number in counted_totals(connection).items():
        if state[name] != number:
            yield f"store_state says {name} = {state[name]}, the rows say {number}"
    for name, number in largest_ids(connection).items():
        if state[name] < number:
            yield f"store_state says {name} = {state[name]}, but {number} is given out"


def word_differences(
    connection: Connection,
) -> tuple[list[tuple[int, str, int]], dict[str, Counter[str]], list[tuple[int, str, str]]]:
    """Compare the vocabulary's counts with the tokens of the pairs, and its folded forms with its words.

    Returns (id, name, right count) of words with another count, the counts of words that the vocabulary lacks, by side
    and token, and (id, name, right form) of words whose folded form is another.
    """
    counted: dict[str, Counter[str]] = {SOURCE: Counter(), TARGET: Counter()}
    notation = read_notation(connection)
    pairs = connection.execute(_streamed("SELECT source, target FROM sentence_pairs"))
    for rows in pairs.partitions():
        for side in notation.pair_words:
            counted[side].update(" ".join(getattr(row, side) for row in rows).split(" "))
    wrong, unfolded = [], []
    words = "SELECT id, side, token, count, folded FROM vocabulary"
    for word_id, side, token, count, form in connection.execute(_streamed(words)):
        if form != folded(token):
            unfolded.append((word_id, f"{token} ({side})", folded(token)))
        number = counted[side].pop(token, 0)
        if number != count:
            wrong.append((word_id, f"{token} ({side})", number))
    for left in counted.values():
        left.pop("", None)
    return wrong, counted, unfolded


def rule_word_differences(connection: Connection, stored: StoredRules) -> tuple[list[int], list[int]]:
    """Compares the words noted for each rule with those on its sides.

    Returns the ids of rules that are gone though words are noted for them, and of rules with other words than they
    hold; ascending.
    """
    ids: dict[str, dict[str, int]] = {SOURCE: {}, TARGET: {}}
    for word_id, side, token in connection.execute(_streamed("SELECT id, side, token FROM vocabulary")):
        ids[side][token] = word_id
    last_noted = connection.execute(text("SELECT coalesce(max(rule_id), 0) FROM rule_words")).scalar_one()
    last_rule = max(last_noted, int(stored.ids.max(initial=0)))
    # A word's and a rule's id in one number, as `RuleWords` packs them.
    query = f"SELECT word_id << {last_rule.bit_length()} | rule_id FROM rule_words ORDER BY word_id, rule_id"
    noted = np.fromiter(connection.scalars(_streamed(query)), np.int64)

    def look_up(side: str, tokens: Iterable[str]) -> dict[str, int]:
        return {token: ids[side].get(token, unknown) for token in tokens}

    words = RuleWords(read_notation(connection), look_up, last_rule)
    noted_rules = words.rule_ids(noted)
    # No rule has this one noted.
    unknown = 1 + max((int(words.word_ids(noted).max(initial=0)), *ids[SOURCE].values(), *ids[TARGET].values()))
    # Rules that are expected less need no words; they keep those that they had.
    by_words = found_by_words(stored.rules.counts, stored.rules.expected_uses)
    needed = np.flatnonzero(by_words | np.isin(stored.ids, noted_rules))
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(needed), _RULES_AT_ONCE):
        rows = needed[first : first + _RULES_AT_ONCE]
        sides = {SOURCE: stored.rules.sources.at(rows), TARGET: stored.rules.targets.at(rows)}
        found.append(words.find(sides, stored.ids[rows]))
    differing = distinct(words.rule_ids(np.setxor1d(distinct(np.concatenate(found)), noted, assume_unique=True)))
    there = np.isin(differing, stored.ids)
    return differing[~there].tolist(), differing[there].tolist()


def _wrong_indexes(connection: Connection, stored: StoredRules) -> Iterator[str]:
    """Compare the vocabulary with the pairs, and what finds rules and pairs with these."""
    miscounted, missing, unfolded = word_differences(connection)
    yield from _line("words whose count is not their number in the pairs", [name for _, name, _ in miscounted])
    lacking_words = [f"{token} ({side})" for side, counts in missing.items() for token in counts]
    yield from _line("words of pairs that the vocabulary lacks", lacking_words)
    yield from _line("words whose folded form is another", [name for _, name, _ in unfolded])
    orphans, wrong = rule_word_differences(connection, stored)
    yield from _line("rules are gone, but their words are still noted", orphans)
    yield from _line("rules have other words noted than they hold", wrong)
    yield from _line("blocks of pairs are found by other words than they hold", wrong_blocks(connection))
    lacking, orphaned = differences(connection, stored.ids, stored.rules.keys)
    yield from _line("rules are not found by their keys", lacking)
    yield from _line("rules are found by keys, but are gone or have others", orphaned)


def _line(what: str, names: Sequence[object]) -> Iterator[str]:
    """The line about what is wrong in one way, if anything is: how many, and the first few."""
    if names:
        more = ", …" if len(names) > _SHOWN else ""
        yield f"{len(names)} {what}: {', '.join(map(str, names[:_SHOWN]))}{more}"


def _streamed(query: str) -> TextClause:
    return text(query).execution_options(yield_per=_ROWS_PER_FETCH)
