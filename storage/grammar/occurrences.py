"""The index of the pairs that use a rule.

It has the store position at which each indexed derivation was sampled, so that only pairs that were sampled since are
indexed again.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import FromClause, func, select, text

from hierogram.storage.database.loading import Row, staged_ids, staged_uses
from hierogram.storage.database.settings import read_settings
from hierogram.storage.database.transactions import Access, Writing, read_state
from hierogram.storage.pairs.pairs import as_rows, pair_rows
from hierogram.storage.records import PairRow, SupportingPair
from hierogram.storage.schema.tables import corpora, indexed_pairs, resampled, rule_pairs, rules, sentence_pairs

UsedKey = tuple[int, int, int, int]
"""Pair id, key high, key low, uses."""


class Occurrences(Access):
    """The index of the pairs that use a rule."""

    def unindexed_pairs(self, after_id: int = 0, limit: int = 1_000) -> tuple[int, list[PairRow]]:
        """The position, and pairs above `after_id` whose present derivation is not in the index of rules' pairs."""
        with self._reading() as connection:
            position = read_state(connection).position
            known = select(indexed_pairs.c.pair_id).where(
                indexed_pairs.c.pair_id == resampled.c.pair_id, indexed_pairs.c.position == resampled.c.position
            )
            unindexed = select(resampled.c.pair_id).where(resampled.c.pair_id == sentence_pairs.c.id, ~known.exists())
            statement = (
                pair_rows()
                .where(sentence_pairs.c.id > after_id, unindexed.exists())
                .order_by(sentence_pairs.c.id)
                .limit(limit)
            )
            return position, as_rows(connection.execute(statement))

    def count_unindexed(self) -> int:
        """Return how many pairs have a derivation that is not in the index of rules' pairs."""
        with self._reading() as connection:
            known = (indexed_pairs.c.pair_id == resampled.c.pair_id) & (
                indexed_pairs.c.position == resampled.c.position
            )
            joined: FromClause = resampled.outerjoin(indexed_pairs, known)
            return (
                connection.scalar(select(func.count()).select_from(joined).where(indexed_pairs.c.pair_id.is_(None)))
                or 0
            )

    def index_pairs(
        self, pair_ids: Sequence[int], position: int, uses: Iterable[tuple[int, int, int, int]], key_salt: int
    ) -> int:
        """Indexes pairs by the rules of their derivations at a store position; returns how many were.

        `uses` holds (pair id, key high, key low, uses), keys made with `key_salt`. Pairs that have been sampled after
        that position are left as they were, and all of them where the store's salt is another one by now.
        """
        with self._writing() as writing:
            connection = writing.connection
            if read_settings(connection).key_salt != key_salt:
                return 0
            writing.loader.stage(staged_ids, sorted((pair_id,) for pair_id in pair_ids))
            current = connection.scalars(
                select(resampled.c.pair_id)
                .join(staged_ids, staged_ids.c.id == resampled.c.pair_id)
                .where(resampled.c.position <= position)
            ).all()
            writing.loader.stage(staged_ids, sorted((pair_id,) for pair_id in current))
            writing.loader.stage(staged_uses, _with_rules(writing, list(uses)))
            forget(writing)
            for statement in (
                "INSERT INTO rule_pairs (rule_id, pair_id, uses)"
                " SELECT r.id, u.pair_id, u.uses FROM staged_uses AS u JOIN staged_ids AS i ON i.id = u.pair_id"
                " JOIN rules AS r ON r.id = u.rule_id WHERE r.key_high = u.key_high AND r.key_low = u.key_low",
                "INSERT INTO indexed_pairs (pair_id, position)"
                " SELECT v.pair_id, v.position FROM staged_ids AS i JOIN resampled AS v ON v.pair_id = i.id",
            ):
                connection.execute(text(statement))
            return len(current)

    def supporting_pairs(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Indexed pairs whose derivation uses the rule, in id order."""
        with self._reading() as connection:
            statement = (
                select(
                    sentence_pairs.c.id,
                    corpora.c.name,
                    sentence_pairs.c.source,
                    sentence_pairs.c.target,
                    sentence_pairs.c.alignment,
                    rule_pairs.c.uses,
                )
                .select_from(rules)
                .join(rule_pairs, rule_pairs.c.rule_id == rules.c.id)
                .join(sentence_pairs, sentence_pairs.c.id == rule_pairs.c.pair_id)
                .join(corpora, corpora.c.id == sentence_pairs.c.corpus_id)
                .where(rules.c.source == source, rules.c.target == target)
                .order_by(sentence_pairs.c.id)
                .limit(limit)
            )
            return [SupportingPair._make(row) for row in connection.execute(statement)]


def _with_rules(writing: Writing, uses: Sequence[UsedKey]) -> list[Row]:
    """The uses, each with every rule that may be the one with its key."""
    # Whoever only looks needs no numpy.
    import numpy as np

    from hierogram.storage.grammar.key_runs import candidates

    keys = np.array([(high, low) for _, high, low, _ in uses], np.int64).reshape(-1, 2)
    numbers, rule_ids = candidates(writing, keys)
    found = zip(numbers.tolist(), rule_ids.tolist(), strict=True)
    return [(uses[n][0], rule_id, *uses[n][1:]) for n, rule_id in found]


def forget(writing: Writing) -> None:
    """Take the pairs of `staged_ids` out of the index."""
    for table in ("rule_pairs", "indexed_pairs"):
        writing.connection.execute(text(f"DELETE FROM {table} WHERE pair_id IN (SELECT id FROM staged_ids)"))
