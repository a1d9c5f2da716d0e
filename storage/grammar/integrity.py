"""The store's own checks: what must hold between its tables, whatever the derivations say."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.exc import DatabaseError

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.connection import SQLITE
from hierogram.storage.database.transactions import read_state
from hierogram.storage.exceptions import StoreError
from hierogram.storage.operations.settings import read_notation, read_settings

_SHOWN = 5
"""How many offenders a line names."""

_ROWS_PER_FETCH = 10_000

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
    "rules without any count, or with a negative one": """
        SELECT id FROM rules WHERE count < 0 OR sampled_count < 0 OR count + sampled_count = 0""",
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
    "pairs whose derivation and visit disagree (each has both or none)": """
        SELECT d.pair_id FROM derivations AS d
         WHERE NOT EXISTS (SELECT 1 FROM visits AS v WHERE v.pair_id = d.pair_id)
        UNION ALL SELECT v.pair_id FROM visits AS v
         WHERE NOT EXISTS (SELECT 1 FROM derivations AS d WHERE d.pair_id = v.pair_id)""",
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
    "sampled_tokens": "SELECT coalesce(sum(sampled_count), 0) FROM rules",
    "rejected": "SELECT coalesce(sum(last_line - line + 1), 0) FROM rejected_lines",
    "sweeps": "SELECT count(*) FROM sweeps",
}

_LAST_IDS = {
    "last_pair_id": "SELECT coalesce(max(id), 0) FROM sentence_pairs",
    "last_rule_id": "SELECT coalesce(max(id), 0) FROM rules",
    "last_word_id": "SELECT coalesce(max(id), 0) FROM vocabulary",
}


def find_problems(connection: Connection) -> list[str]:
    """What is wrong, one line each; empty when all is well."""
    if connection.dialect.name == SQLITE:
        damage = list(_sqlite_problems(connection))
        if damage:
            return damage
    return [
        *_offenders(connection),
        *_wrong_totals(connection),
        *_wrong_settings(connection),
        *_wrong_vocabulary(connection),
        *_wrong_rule_words(connection),
        *_wrong_key_runs(connection),
    ]


def _sqlite_problems(connection: Connection) -> Iterator[str]:
    try:
        for (line,) in connection.execute(text("PRAGMA integrity_check")):
            if line != "ok":
                yield f"SQLite finds the file damaged: {line}"
    except DatabaseError as error:
        yield f"SQLite finds the file damaged: {error.orig}"


def _offenders(connection: Connection) -> Iterator[str]:
    for what, query in _OFFENDERS.items():
        number = connection.execute(text(f"SELECT count(*) FROM ({query}) AS offenders")).scalar_one()
        if number:
            first = connection.execute(text(f"{query} ORDER BY 1 LIMIT {_SHOWN}")).scalars()
            more = ", …" if number > _SHOWN else ""
            yield f"{number} {what}: {', '.join(map(str, first))}{more}"


def _wrong_totals(connection: Connection) -> Iterator[str]:
    state = asdict(read_state(connection))
    for name, query in _TOTALS.items():
        number = int(connection.execute(text(query)).scalar_one())
        if state[name] != number:
            yield f"store_state says {name} = {state[name]}, the rows say {number}"
    for name, query in _LAST_IDS.items():
        number = int(connection.execute(text(query)).scalar_one())
        if state[name] < number:
            yield f"store_state says {name} = {state[name]}, but {number} is given out"


def _wrong_settings(connection: Connection) -> Iterator[str]:
    try:
        read_settings(connection)
    except StoreError as error:
        yield str(error)


def _wrong_vocabulary(connection: Connection) -> Iterator[str]:
    """Compares the vocabulary's counts with the tokens of the pairs."""
    counted: dict[str, Counter[str]] = {SOURCE: Counter(), TARGET: Counter()}
    notation = read_notation(connection)
    pairs = connection.execute(_streamed("SELECT source, target FROM sentence_pairs"))
    for rows in pairs.partitions():
        for side in notation.pair_words:
            counted[side].update(" ".join(getattr(row, side) for row in rows).split(" "))
    wrong = _Offenders("words whose count is not their number in the pairs")
    for side, token, count in connection.execute(_streamed("SELECT side, token, count FROM vocabulary")):
        if counted[side].pop(token, 0) != count:
            wrong.add(f"{token} ({side})")
    yield from wrong.line()
    missing = _Offenders("words of pairs that the vocabulary lacks")
    for side, tokens in counted.items():
        for token in tokens:
            if token:
                missing.add(f"{token} ({side})")
    yield from missing.line()


def _wrong_rule_words(connection: Connection) -> Iterator[str]:
    """Compares the words noted for each rule with those on its sides, both in the order of the rules' ids."""
    ids: dict[str, dict[str, int]] = {SOURCE: {}, TARGET: {}}
    notation = read_notation(connection)
    for word_id, side, token in connection.execute(_streamed("SELECT id, side, token FROM vocabulary")):
        ids[side][token] = word_id
    together = "group_concat(word_id)" if connection.dialect.name == SQLITE else "string_agg(word_id::text, ',')"
    noted = iter(
        connection.execute(_streamed(f"SELECT rule_id, {together} FROM rule_words GROUP BY rule_id ORDER BY rule_id"))
    )
    orphans = _Offenders("rules are gone, but their words are still noted")
    wrong = _Offenders("rules have other words noted than they hold")
    next_noted = next(noted, None)
    found_rules = connection.execute(_streamed("SELECT id, source, target, count FROM rules ORDER BY id"))
    for rule_id, source, target, count in found_rules:
        while next_noted is not None and next_noted[0] < rule_id:
            orphans.add(next_noted[0])
            next_noted = next(noted, None)
        found: set[int | None] = set()
        if next_noted is not None and next_noted[0] == rule_id:
            found.update(map(int, next_noted[1].split(",")))
            next_noted = next(noted, None)
        # Rules that only samples use need no words; they keep those that they had.
        if count or found:
            expected = {ids[side].get(token) for side, token in notation.words_of_rule(source, target)}
            if found != expected:
                wrong.add(rule_id)
    while next_noted is not None:
        orphans.add(next_noted[0])
        next_noted = next(noted, None)
    yield from orphans.line()
    yield from wrong.line()


def _wrong_key_runs(connection: Connection) -> Iterator[str]:
    """Compares the runs that find rules by their keys with the rules."""
    from hierogram.storage.grammar.key_runs import differences

    lacking, orphaned = differences(connection)
    unknown = _Offenders("rules are not found by their keys")
    for rule_id in lacking:
        unknown.add(rule_id)
    gone = _Offenders("rules are found by keys, but are gone or have others")
    for rule_id in orphaned:
        gone.add(rule_id)
    yield from unknown.line()
    yield from gone.line()


class _Offenders:
    """Counts what is wrong in one way and remembers the first few."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._number = 0
        self._first: list[str] = []

    def add(self, name: object) -> None:
        """Counts one more."""
        self._number += 1
        if self._number <= _SHOWN:
            self._first.append(str(name))

    def line(self) -> Iterator[str]:
        """The line about them, if there are any."""
        if self._number:
            more = ", …" if self._number > _SHOWN else ""
            yield f"{self._number} {self._what}: {', '.join(self._first)}{more}"


def _streamed(query: str) -> TextClause:
    return text(query).execution_options(yield_per=_ROWS_PER_FETCH)
