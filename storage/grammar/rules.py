"""Rule queries, commits of the grammar, progress of learning runs, and store status."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Double, cast, func, insert, literal_column, select, text, tuple_, update

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, find_notation
from hierogram.samplers.grammar.rules import escape_terminal, unescape_terminal
from hierogram.storage.database.leases import Leases
from hierogram.storage.database.settings import read_settings
from hierogram.storage.database.transactions import WriteTransaction, new_id, now, read_state
from hierogram.storage.events.feed import DELIVERY_STATES
from hierogram.storage.pairs.vocabulary import readings, similar_words, spellings
from hierogram.storage.records.columns import PairUpdates, RuleCounts, RuleDeltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, RuleRow, SweepRecord
from hierogram.storage.records.operations import StoreStatus
from hierogram.storage.records.uncertainty import standard_error_sql
from hierogram.storage.schema.tables import (
    corpora,
    damaged_pairs,
    failed_files,
    labels,
    learning_runs,
    rule_words,
    rules,
    settings,
    sweeps,
    vocabulary,
    webhook_deliveries,
)


class StoredGrammar(Leases):
    """Rules, rule counts, commits of the derivations that determine them, and learning runs."""

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

        A part contains derivations and deltas. `sweeps` are appended to the history, `labels` are the label parameters
        of a tree grammar, and `run` is the progress of the learning run. Other writers wait until all parts are
        written. Raises `PairMissingError`, `PairChangedError`, `CountError` for a negative count,
        `RuleKeyCollisionError` if a key belongs to another stored rule, `StoreHeldError` and `LeaseLostError`.
        """
        from hierogram.storage.grammar import commits

        with self._committing(durable=False) as transaction:
            for part in parts:
                commits.save_derivations(transaction, *part)
            commits.append_sweeps(transaction, sweeps)
            commits.save_labels(transaction, labels)
            if run is not None:
                save_run(transaction, run)

    def rekey(self, salt: int, keys: Iterable[tuple[int, int, int]]) -> None:
        """Replace the keys of all rules, given as (id, high, low), and their salt, atomically.

        Raises `RekeyError` unless rules and keys match one to one, `StoreHeldError` and `LeaseLostError`.
        """
        from hierogram.storage.grammar.commits import rekey

        with self._committing() as transaction:
            rekey(transaction, keys)
            transaction.connection.execute(
                update(settings).where(settings.c.name == "key_salt").values(value=json.dumps(salt))
            )

    def labels(self) -> list[LabelRow]:
        """Return the parameters of a tree grammar's labels, sorted by label."""
        with self._reading() as connection:
            statement = select(labels.c.label, labels.c.strength, labels.c.expansion_probability).order_by(
                labels.c.label
            )
            return [LabelRow._make(row) for row in connection.execute(statement)]

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
        """Return rules that meet all conditions, most frequent first.

        Rules are ordered by expected uses, or by uses in the current derivations if `current_sample`. `source` and
        `target` are complete rule sides; each of `words` must occur on one of the sides. `after` is (uses, source,
        target) of the last rule of the previous page. With `respelled`, words match words that differ in accents or
        capital letters.
        """
        rule_filter = RuleFilter(source, target, words, after, current_sample)
        with self._reading() as connection:
            spellings_by_word = {
                rule.id: rule
                for conditions in (respell_filter(connection, rule_filter) if respelled else [rule_filter])
                for rule in find_rules(connection, conditions, limit)
            }
        uses = attrgetter("count" if current_sample else "expected_uses")
        return sorted(spellings_by_word.values(), key=lambda rule: (-uses(rule), rule.source, rule.target))[:limit]

    def similar_words(self, word: str, sides: Sequence[str] = (SOURCE, TARGET), limit: int = 8) -> list[str]:
        """Return words of the given sides that look like the word, begin with it, or have a similar spelling."""
        with self._reading() as connection:
            words = [candidate for side in sides for candidate in similar_words(connection, side, word, limit)]
            return list(dict.fromkeys(candidate.token for candidate in words))[:limit]

    def unfinished_run(self) -> LearningRun | None:
        """Return the last learning run, or None if it was finished with `finish_run`."""
        with self._reading() as connection:
            row = connection.execute(
                select(*_RUN_COLUMNS, learning_runs.c.finished_at).order_by(learning_runs.c.id.desc()).limit(1)
            ).one_or_none()
            return None if row is None or row.finished_at is not None else LearningRun._make(row[:-1])

    def begin_run(self, sweeps: int) -> LearningRun:
        """Start a learning run. Raises `StoreHeldError` and `LeaseLostError` like `commit`."""
        with self._committing() as transaction:
            added = transaction.connection.execute(
                insert(learning_runs).values(
                    sweeps=sweeps, sweeps_done=0, after_pair_id=0, sweeps_in_round=0, started_at=now()
                )
            )
            return LearningRun(new_id(added), sweeps)

    def save_run(self, run: LearningRun) -> None:
        """Save the progress of a run. Raises `StoreHeldError` and `LeaseLostError` like `commit`."""
        with self._committing(durable=False) as transaction:
            save_run(transaction, run)

    def finish_run(self) -> None:
        """Mark the last learning run as finished, after its end was reported to the caller."""
        with self._writing() as transaction:
            last = select(func.max(learning_runs.c.id)).scalar_subquery()
            transaction.connection.execute(
                update(learning_runs)
                .where(learning_runs.c.id == last, learning_runs.c.finished_at.is_(None))
                .values(finished_at=now())
            )


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Conditions of a rule query: complete sides, words on either side, and a page start (uses, source, target).

    Uses are expected uses, or uses in the current derivations if `current_sample`.
    """

    source: str | None
    target: str | None
    words: Sequence[str]
    after: tuple[float, str, str] | None
    current_sample: bool = False


def find_rules(connection: Connection, conditions: RuleFilter, limit: int) -> list[RuleRow]:
    """Return up to `limit` rules that meet all conditions, most frequent first."""
    source, target, after = conditions.source, conditions.target, conditions.after
    uses = rules.c.count if conditions.current_sample else rules.c.expected_uses
    query = select(rules).where(uses > 0)
    if after is not None:
        last_uses, *sides = after
        query = query.where(
            (uses < last_uses) | ((uses == last_uses) & (tuple_(rules.c.source, rules.c.target) > tuple_(*sides)))
        )
    if source is not None:
        query = query.where(rules.c.source == source)
    if target is not None:
        query = query.where(rules.c.target == target)
    ranked = []
    for token in conditions.words:
        rows = connection.execute(select(vocabulary.c.id, vocabulary.c.count).where(vocabulary.c.token == token)).all()
        if not rows:
            return []
        ranked.append((sum(count for _, count in rows), [word_id for word_id, _ in rows]))
    for n, (_, ids) in enumerate(sorted(ranked)):
        held = select(rule_words.c.rule_id).where(rule_words.c.word_id.in_(ids))
        if n == 0 and source is None and target is None:
            # The first word is the rarest: it selects the rules, and the other words filter them.
            query = query.where(rules.c.id.in_(held))
        else:
            query = query.where(held.where(rule_words.c.rule_id == rules.c.id).exists())
    best = query.order_by(uses.desc(), rules.c.source, rules.c.target).limit(limit).subquery("best")
    used = best.c[uses.name]
    totals = []
    for name in (SOURCE, TARGET):
        of_side = rules.alias(f"of_{name}")
        total = select(func.sum(of_side.c[uses.name])).where(of_side.c[name] == best.c[name]).scalar_subquery()
        totals.append(cast(used, Double) / cast(total, Double))
    statement = select(
        best.c.id,
        best.c.source,
        best.c.target,
        best.c.length,
        best.c.scope,
        best.c.nonterminals,
        best.c.hiero,
        best.c.expected_uses,
        literal_column(standard_error_sql("best."), Double),
        best.c.count,
        *totals,
    ).order_by(used.desc(), best.c.source, best.c.target)
    answer: list[tuple[Any, ...]] = [tuple(row) for row in connection.execute(statement)]
    return [RuleRow(*row) for row in answer]


def respell_filter(connection: Connection, conditions: RuleFilter) -> list[RuleFilter]:
    """Return the conditions with words respelled in accents or capital letters, likeliest first."""
    two_sides = TWO_SIDES in find_notation(read_settings(connection).grammar).offers
    sides = [
        (side, text.split(" ") if two_sides and text else [])
        for side, text in ((SOURCE, conditions.source), (TARGET, conditions.target))
    ]
    words_by_place = [
        *(
            (f"{side} ", (side,), [word for symbol in symbols if (word := unescape_terminal(symbol))])
            for side, symbols in sides
        ),
        (" ", (SOURCE, TARGET), conditions.words),
    ]
    # Key by side and word, because a word may be spelled differently on each side.
    choices = {
        prefix + word: [spelling.token for side in word_sides for spelling in spellings(connection, side, word)]
        for prefix, word_sides, words in words_by_place
        for word in words
    }

    def side_of(side: str, text: str | None, reading: Mapping[str, str]) -> str | None:
        if not text or not two_sides:
            return text
        words = ((symbol, unescape_terminal(symbol)) for symbol in text.split(" "))
        return " ".join(escape_terminal(reading[f"{side} {word}"]) if word else symbol for symbol, word in words)

    return [
        replace(
            conditions,
            source=side_of(SOURCE, conditions.source, reading),
            target=side_of(TARGET, conditions.target, reading),
            words=[reading[f" {word}"] for word in conditions.words],
        )
        for reading in readings(choices)
    ]


def read_status(connection: Connection, *, url: str, schema: str) -> StoreStatus:
    """Return the status of the store, in time independent of its number of pairs and rules."""
    state = read_state(connection)
    last = connection.scalar(
        select(sweeps.c.log_likelihood)
        .where(sweeps.c.log_likelihood.is_not(None))
        .order_by(sweeps.c.id.desc())
        .limit(1)
    )
    state_of = webhook_deliveries.c.state
    by_state = connection.execute(select(state_of, func.count()).group_by(state_of))
    by_corpus = connection.execute(select(corpora.c.name, corpora.c.pairs).order_by(corpora.c.name))
    return StoreStatus(
        url=url,
        schema=schema,
        position=state.position,
        pairs=state.pairs(),
        rules_in_use=state.rules_in_use,
        rules_expected=state.rules_expected,
        rules_stored=state.rules_stored,
        rule_tokens=state.rule_tokens,
        expected_tokens=state.expected_tokens,
        rejected_lines=state.rejected_lines,
        sweeps=state.sweeps,
        last_log_likelihood=last,
        corpora=dict(by_corpus.all()),
        failed_files=connection.scalar(select(func.count()).select_from(failed_files)) or 0,
        deliveries=dict.fromkeys(DELIVERY_STATES, 0) | dict(by_state.all()),
        damaged_pairs=connection.scalar(select(func.count()).select_from(damaged_pairs)) or 0,
    )


_RUN_COLUMNS = [learning_runs.c[name] for name in LearningRun._fields]


def save_run(transaction: WriteTransaction, run: LearningRun) -> None:
    """Save the progress of a run."""
    values = run._asdict()
    transaction.connection.execute(update(learning_runs).where(learning_runs.c.id == values.pop("id")).values(values))


def count_restarts(transaction: WriteTransaction) -> None:
    """Count a schedule restart for each pair of `staged_ids`."""
    transaction.connection.execute(
        text(
            "INSERT INTO schedule_restarts (pair_id, restarts) SELECT id, 1 FROM staged_ids WHERE true"
            " ON CONFLICT (pair_id) DO UPDATE SET restarts = schedule_restarts.restarts + 1"
        )
    )
