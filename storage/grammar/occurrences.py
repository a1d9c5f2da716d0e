"""Index of pairs by the rules in their derivations.

The index records the store position at which each indexed derivation was sampled, so that only pairs with newer
derivations are re-indexed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import exists, func, select

from hierogram.storage.database.settings import read_settings
from hierogram.storage.database.transactions import StoreAccess, read_state, staged_uses
from hierogram.storage.pairs.pairs import is_undamaged, pair_rows
from hierogram.storage.records.grammar import SupportingPair
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.schema.tables import corpora, indexed_pairs, pair_positions, rule_pairs, rules, sentence_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Uses = NDArray[np.int64] | Sequence[tuple[int, int, int, int]]
    """Rows of pair id, key high, key low, uses."""

_IS_INDEXED = exists().where(
    indexed_pairs.c.pair_id == pair_positions.c.pair_id, indexed_pairs.c.position == pair_positions.c.position
)


class OccurrenceIndex(StoreAccess):
    """Index of pairs by the rules in their derivations."""

    def unindexed_pairs(self, after_id: int = 0, limit: int = 1_000) -> tuple[int, list[PairRow]]:
        """Return the store position, and up to `limit` undamaged pairs above an id with an unindexed derivation."""
        with self._reading() as connection:
            position = read_state(connection).position
            pair, derived = sentence_pairs.c, pair_positions.c.pair_id
            unindexed = select(derived).where(derived == pair.id, ~_IS_INDEXED).exists()
            statement = pair_rows().where(pair.id > after_id, unindexed, is_undamaged(pair.id))
            rows = connection.execute(statement.order_by(pair.id).limit(limit))
            return position, list(map(PairRow._make, rows))

    def count_unindexed(self) -> int:
        """Return the number of pairs whose current derivation is not indexed."""
        with self._reading() as connection:
            return connection.scalar(select(func.count()).select_from(pair_positions).where(~_IS_INDEXED)) or 0

    def index_pairs(self, pair_ids: Sequence[int], position: int, uses: "Uses", key_salt: int) -> int:
        """Index pairs by the rules of their derivations at a store position. Returns the number of indexed pairs.

        The keys in `uses` were made with `key_salt`. Pairs that were sampled after the position are skipped. If the
        store's salt has changed, all pairs are skipped.
        """
        import numpy as np

        from hierogram.storage.grammar.key_runs import find_candidates

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
        """Return up to `limit` pairs whose indexed derivation uses the rule, in id order."""
        pair = sentence_pairs.c
        with self._reading() as connection:
            statement = (
                select(pair.id, corpora.c.name, pair.source, pair.target, pair.alignment, rule_pairs.c.uses)
                .select_from(rules)
                .join(rule_pairs, rule_pairs.c.rule_id == rules.c.id)
                .join(sentence_pairs, sentence_pairs.c.id == rule_pairs.c.pair_id)
                .join(corpora, corpora.c.id == sentence_pairs.c.corpus_id)
                .where(rules.c.source == source, rules.c.target == target)
                .order_by(sentence_pairs.c.id)
                .limit(limit)
            )
            return [SupportingPair._make(row) for row in connection.execute(statement)]
