"""Rule queries, commits, progress of learning runs, the index of pairs by rule, and store status.

The index of pairs by rule records the store position at which each indexed derivation was sampled, so that only pairs
with newer derivations are re-indexed.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, exists, func, insert, select, text, update

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, find_grammar_kind
from hierogram.samplers.grammar.rules import escape_terminal, unescape_terminal
from hierogram.storage.database.leases import Leases
from hierogram.storage.database.transactions import (
    WriteTransaction,
    new_id,
    now,
    read_rows,
    read_settings,
    read_state,
    staged_uses,
    upsert,
)
from hierogram.storage.events.feed import DELIVERY_STATES
from hierogram.storage.pairs.pairs import is_undamaged, pair_rows
from hierogram.storage.pairs.vocabulary import MAX_SIMILAR, readings, similar_words, spellings
from hierogram.storage.records.columns import PairUpdates, RuleCounts, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, RuleRow, SupportingPair, SweepRecord
from hierogram.storage.records.operations import StoreStatus
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.uncertainty import standard_error_sql
from hierogram.storage.schema.tables import (
    REVISIONS,
    indexed_pairs,
    labels,
    learning_runs,
    pair_positions,
    rules,
    schedule_restarts,
    sentence_pairs,
    vocabulary,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Uses = NDArray[np.int64] | Sequence[tuple[int, int, int, int]]
    """Rows of pair id, key high, key low, uses."""

Wording = tuple[str | None, str | None, Sequence[str]]
"""Conditions of a rule query: source side, target side (None matches any side), and words on any side."""

_IS_INDEXED = exists().where(
    indexed_pairs.c.pair_id == pair_positions.c.pair_id, indexed_pairs.c.position == pair_positions.c.position
)


class StoredGrammar(Leases):
    """Rules, rule counts, commits of derivations, learning runs, and the index of pairs by rule."""

    def rule_counts(self) -> RuleCounts:
        """Return all rules with a positive count, as arrays."""
        from hierogram.storage.grammar.counts import rule_counts

        with self._reading() as connection:
            return rule_counts(connection)

    def commit(
        self,
        parts: Iterable[tuple[PairUpdates | None, RuleDeltas | None]],
        sweeps: Sequence[SweepRecord] = (),
        labels: Sequence[LabelRow] = (),
        run: LearningRun | None = None,
    ) -> None:
        """Commit new derivations and rule count changes, atomically.

        A part contains derivations and deltas. `sweeps` are appended to the history, `labels` are parameters of a tree
        grammar or ITG, and `run` is the progress of the learning run. Other writers wait until all parts are written.
        Raises `StoreError` if a count would be negative or a pair was withdrawn or sampled since it was read,
        `RuleKeyCollisionError` if two rules have the same key, `StoreHeldError` and `LeaseLostError`.
        """
        from hierogram.storage.grammar import changes

        with self._committing(durable=False) as transaction:
            for part in parts:
                changes.save_derivations(transaction, *part)
            changes.append_sweeps(transaction, sweeps)
            changes.save_labels(transaction, labels)
            if run is not None:
                values = run._asdict()
                is_run = learning_runs.c.id == values.pop("id")
                transaction.connection.execute(update(learning_runs).where(is_run).values(values))

    def rekey(self, salt: int, keys: Iterable[tuple[int, int, int]]) -> None:
        """Replace the keys of all rules, given as (id, high, low), and their salt.

        Raises `StoreError` unless the keys are distinct and each belongs to one stored rule, `StoreHeldError` and
        `LeaseLostError`.
        """
        from hierogram.storage.grammar.changes import rekey

        with self._committing() as transaction:
            rekey(transaction, keys)
            transaction.execute("UPDATE settings SET value = :salt WHERE name = 'key_salt'", salt=json.dumps(salt))

    def labels(self) -> list[LabelRow]:
        """Return the parameters of a tree grammar's labels or an ITG's processes, sorted by label. Else empty."""
        with self._reading() as connection:
            return [LabelRow._make(row) for row in connection.execute(select(labels).order_by(labels.c.label))]

    def find_rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        words: Sequence[str] = (),
        limit: int = 20,
        after: tuple[float, str, str] | None = None,
        current_sample: bool = False,
        respelled: bool = False,
    ) -> list[RuleRow]:
        """Return up to `limit` rules that meet all conditions, most frequent first.

        Rules are ordered by expected uses, or by uses in the current derivations if `current_sample`. `source` and
        `target` are complete rule sides. Each of `words` must occur on one of the sides. `after` is (uses, source,
        target) of the last rule of the previous page. With `words`, rules without uses and with less than half an
        expected use may be missing, because they may not be indexed by word. With `respelled`, rules must instead match
        with other accents or case in at least one word: of `words`, and in a grammar of two languages also of the
        sides.
        """
        with self._reading() as connection:
            wordings = _respell(connection, source, target, words) if respelled else [(source, target, words)]
            rules_by_id = {
                rule.id: rule
                for wording in wordings
                for rule in _find_rules(connection, wording, after, current_sample, limit)
            }
        uses = attrgetter("count" if current_sample else "expected_uses")
        return sorted(rules_by_id.values(), key=lambda rule: (-uses(rule), rule.source, rule.target))[:limit]

    def similar_words(self, word: str, sides: Sequence[str] = (SOURCE, TARGET)) -> list[str]:
        """Return up to `MAX_SIMILAR` words with other accents or case, this prefix or a similar spelling."""
        with self._reading() as connection:
            words = [candidate for side in sides for candidate in similar_words(connection, side, word)]
            return list(dict.fromkeys(words))[:MAX_SIMILAR]

    def unfinished_run(self) -> LearningRun | None:
        """Return the last learning run, or None if no run exists or `finish_run` has finished it."""
        with self._reading() as connection:
            last = select(learning_runs).order_by(learning_runs.c.id.desc()).limit(1)
            row = connection.execute(last).one_or_none()
            return None if row is None or row.finished_at is not None else LearningRun._make(row[:5])

    def begin_run(self, sweeps: int) -> LearningRun:
        """Start a learning run. Raises `StoreHeldError` and `LeaseLostError` like `commit`."""
        with self._committing() as transaction:
            run = {"sweeps": sweeps, "sweeps_done": 0, "after_pair_id": 0, "sweeps_in_round": 0, "started_at": now()}
            return LearningRun(new_id(transaction.connection.execute(insert(learning_runs).values(run))), sweeps)

    def finish_run(self) -> None:
        """Mark the last learning run as finished. Call this after the end of the run was reported."""
        with self._writing() as transaction:
            transaction.execute(
                "UPDATE learning_runs SET finished_at = :moment"
                " WHERE finished_at IS NULL AND id = (SELECT max(id) FROM learning_runs)",
                moment=transaction.loader.moment(),
            )

    def unindexed_pairs(self, after_id: int = 0, limit: int = 1_000) -> tuple[int, list[PairRow]]:
        """Return the store position, and undamaged pairs with id > `after_id` and an unindexed derivation."""
        with self._reading() as connection:
            position = read_state(connection).position
            pair, derived = sentence_pairs.c, pair_positions.c.pair_id
            unindexed = select(derived).where(derived == pair.id, ~_IS_INDEXED).exists()
            statement = pair_rows().where(pair.id > after_id, unindexed, is_undamaged(pair.id))
            rows = connection.execute(statement.order_by(pair.id).limit(limit))
            return position, list(map(PairRow._make, rows))

    def count_unindexed(self) -> int:
        """Return the number of pairs, also damaged, whose current derivation is not indexed."""
        with self._reading() as connection:
            return connection.scalar(select(func.count()).select_from(pair_positions).where(~_IS_INDEXED)) or 0

    def index_pairs(self, pair_ids: Sequence[int], position: int, uses: "Uses", key_salt: int) -> int:
        """Index pairs by the rules of their derivations. Returns the number of indexed pairs.

        The keys in `uses` were made with `key_salt`. Pairs that were sampled after the position are skipped. If the
        store's salt has changed, all pairs are skipped.
        """
        import numpy as np

        from hierogram.storage.grammar.key_index import find_candidates

        with self._writing() as transaction:
            if read_settings(transaction.connection).key_salt != key_salt:
                return 0
            transaction.stage_ids(pair_ids)
            result = transaction.execute(
                "SELECT pair_id FROM pair_positions JOIN staged_ids ON id = pair_id WHERE position <= :position",
                position=position,
            )
            current = result.scalars().all()
            transaction.stage_ids(current)
            # Stage all candidate rules of the keys, in the order of rule ids.
            pair_numbers, *keys, counts = np.asarray(uses, np.int64).reshape(-1, 4).T
            rows, rule_ids = find_candidates(transaction, np.stack(keys, axis=1))
            columns = (column[rows] for column in (*keys, counts))
            transaction.loader.stage_columns(staged_uses, [pair_numbers[rows], rule_ids, *columns])
            transaction.delete_staged("rule_pairs", "indexed_pairs")
            transaction.execute(
                "INSERT INTO rule_pairs (rule_id, pair_id, uses)"
                " SELECT r.id, u.pair_id, u.uses FROM staged_uses AS u JOIN staged_ids AS i ON i.id = u.pair_id"
                " JOIN rules AS r ON r.id = u.rule_id WHERE r.key_high = u.key_high AND r.key_low = u.key_low"
            )
            transaction.execute(
                "INSERT INTO indexed_pairs (pair_id, position)"
                " SELECT v.pair_id, v.position FROM staged_ids AS i JOIN pair_positions AS v ON v.pair_id = i.id"
            )
            return len(current)

    def supporting_pairs(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Return up to `limit` pairs whose indexed derivation uses the rule with these sides, in id order."""
        statement = (
            "SELECT pair_id, corpus, source, target, alignment, uses FROM rule_support"
            " WHERE rule_source = :source AND rule_target = :target ORDER BY pair_id LIMIT :limit"
        )
        with self._reading() as connection:
            rows = read_rows(connection, statement, {"source": source, "target": target, "limit": limit})
            return list(map(SupportingPair._make, rows))


def _find_rules(
    connection: Connection, wording: Wording, after: tuple[float, str, str] | None, current_sample: bool, limit: int
) -> list[RuleRow]:
    source, target, words = wording
    uses = "count" if current_sample else "expected_uses"
    conditions, values = [f"r.{uses} > 0"], dict[str, object](limit=limit)
    if after is not None:
        values |= zip(("last_uses", "last_source", "last_target"), after, strict=True)
        last_sides = "(r.source, r.target) > (:last_source, :last_target)"
        conditions.append(f"(r.{uses} < :last_uses OR (r.{uses} = :last_uses AND {last_sides}))")
    for side, side_text in ((SOURCE, source), (TARGET, target)):
        if side_text is not None:
            conditions.append(f"r.{side} = :{side}")
            values[side] = side_text
    ranked = []
    for token in words:
        rows = connection.execute(select(vocabulary.c.id, vocabulary.c.count).where(vocabulary.c.token == token)).all()
        if not rows:
            return []
        ranked.append((sum(count for _, count in rows), [word_id for word_id, _ in rows]))
    for n, (_, ids) in enumerate(sorted(ranked)):
        has_word = f"word_id IN ({', '.join(map(str, ids))})"
        if n == 0 and source is None and target is None:
            # Start from the rarest word, which is first, because it has the fewest rules to filter by the other words.
            conditions.append(f"r.id IN (SELECT rule_id FROM rule_words WHERE {has_word})")
        else:
            conditions.append(f"EXISTS (SELECT 1 FROM rule_words WHERE {has_word} AND rule_id = r.id)")
    statement = f"""WITH found AS MATERIALIZED (
        SELECT {RULE_COLUMNS}
          FROM rules AS r
         WHERE {" AND ".join(conditions)}
         ORDER BY r.{uses} DESC, r.source, r.target
         LIMIT :limit),
{select_with_totals(uses)}"""
    found = connection.execute(text(statement).columns(hiero=rules.c.hiero.type), values)
    return [RuleRow(**row) for row in found.mappings()]


RULE_COLUMNS = (
    "r.id, r.source, r.target, r.count, r.expected_uses, r.expected_uses_variance, r.length, r.scope, r.nonterminals,"
    " r.hiero"
)


def side_totals(side: str, relation: str, uses: str = "expected_uses") -> str:
    """Return a SELECT of the total uses of all rules with a side, for each distinct `side` in a relation."""
    return f"""
        SELECT d.{side}, (SELECT sum(r.{uses}) FROM rules AS r WHERE r.{side} = d.{side}) AS total
          FROM (SELECT DISTINCT {side} FROM {relation}) AS d"""


def select_with_totals(uses: str = "expected_uses", columns: str = "") -> str:
    """Return the end of a statement that selects the fields of `RuleRow` from `RULE_COLUMNS` of `found`."""
    number = f"CAST(f.{uses} AS DOUBLE PRECISION)" if uses == "count" else f"f.{uses}"
    return f"""     sources AS MATERIALIZED ({side_totals(SOURCE, "found", uses)}),
     targets AS MATERIALIZED ({side_totals(TARGET, "found", uses)})
SELECT f.id, f.source, f.target, f.expected_uses, {standard_error_sql("f.")} AS expected_uses_error,
       f.count, f.length, f.scope, f.nonterminals, f.hiero,
       {number} / s.total AS p_target_given_source, {number} / t.total AS p_source_given_target{columns}
  FROM found AS f
  JOIN sources AS s ON s.source = f.source
  JOIN targets AS t ON t.target = f.target"""


def _respell(connection: Connection, source: str | None, target: str | None, words: Sequence[str]) -> list[Wording]:
    """Return the wordings of a query with other accents and capital letters, likeliest first."""
    two_sides = TWO_SIDES in find_grammar_kind(read_settings(connection).grammar).capabilities
    texts = {SOURCE: source, TARGET: target}
    symbols = {side: text.split(" ") if two_sides and text else [] for side, text in texts.items()}
    side_words = [(side, word) for side in symbols for symbol in symbols[side] if (word := unescape_terminal(symbol))]
    side_words += [("", word) for word in words]
    choices = {
        (word_side, word): [
            spelling.token
            for side in ([word_side] if word_side else [SOURCE, TARGET])
            for spelling in spellings(connection, side, word)
        ]
        for word_side, word in side_words
    }
    wordings: list[Wording] = []
    for reading in readings(choices):
        for side in symbols:
            if symbols[side]:
                texts[side] = " ".join(
                    escape_terminal(reading[side, word]) if (word := unescape_terminal(symbol)) else symbol
                    for symbol in symbols[side]
                )
        wordings.append((texts[SOURCE], texts[TARGET], [reading["", word] for word in words]))
    return wordings


def read_status(connection: Connection, url: str) -> StoreStatus:
    """Return the status of the store at `url`, without `wal_bytes`. Reads no pairs or rules."""
    state = read_state(connection)
    [(log_likelihood, failed_files, damaged_pairs)] = read_rows(
        connection,
        "SELECT (SELECT log_likelihood FROM sweeps WHERE log_likelihood IS NOT NULL ORDER BY id DESC LIMIT 1),"
        " (SELECT count(*) FROM failed_files), (SELECT count(*) FROM damaged_pairs)",
    )
    deliveries = dict(read_rows(connection, "SELECT state, count(*) FROM webhook_deliveries GROUP BY state"))
    return StoreStatus(
        url=url,
        schema=REVISIONS[-1],
        pairs=state.pairs(),
        **{name: number for name, number in asdict(state).items() if name in StoreStatus.__slots__},
        last_log_likelihood=log_likelihood,
        corpora=dict(read_rows(connection, "SELECT name, pairs FROM corpora ORDER BY name")),
        failed_files=failed_files,
        deliveries=dict.fromkeys(DELIVERY_STATES, 0) | deliveries,
        damaged_pairs=damaged_pairs,
    )


def count_restarts(transaction: WriteTransaction) -> None:
    """Count a schedule restart for each pair of `staged_ids`."""
    restarted = {"restarts": "schedule_restarts.restarts + 1"}
    transaction.execute(upsert(schedule_restarts, "SELECT id, 1 FROM staged_ids WHERE true", restarted))
