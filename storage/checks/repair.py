"""Repair of a store: recompute all data that follow from pairs, derivations and links."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import update

from hierogram.storage.aligner.aligner import add_aligner_counts
from hierogram.storage.checks.integrity import (
    RECOUNTS,
    counted_totals,
    differing_counts,
    largest_ids,
    rule_index_differences,
    vocabulary_differences,
)
from hierogram.storage.database.transactions import WriteTransaction, largest_id, staged_vocabulary
from hierogram.storage.grammar.changes import insert_rule_words, insert_rules, merge_deltas
from hierogram.storage.grammar.key_index import rebuild_runs
from hierogram.storage.grammar.rules import count_restarts
from hierogram.storage.pairs.pair_index import rebuild_blocks, wrong_blocks
from hierogram.storage.pairs.vocabulary import fold
from hierogram.storage.records.aligner import AlignerCounts
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.schema.tables import store_state, vocabulary

_RULES_AT_ONCE = 10_000

# An unaligned pair must have no derivation, and an aligned pair without a derivation must be waiting.
_INCONSISTENT_PAIRS = """
    SELECT p.id FROM sentence_pairs AS p LEFT JOIN derivations AS d ON d.pair_id = p.id
     WHERE (p.aligned_by = 'none' AND (p.state <> 'unaligned' OR d.pair_id IS NOT NULL))
        OR (p.aligned_by <> 'none' AND d.pair_id IS NULL AND p.state <> 'waiting')
     ORDER BY p.id"""
_RESUME_SAMPLING = """
    UPDATE sentence_pairs SET state = 'sampling'
     WHERE state IN ('unaligned', 'waiting') AND id IN (SELECT pair_id FROM derivations)"""
_REPAIR_POSITIONS = (
    "DELETE FROM pair_positions WHERE pair_id NOT IN (SELECT pair_id FROM derivations)",
    "INSERT INTO pair_positions (pair_id, position)"
    " SELECT pair_id, 0 FROM derivations WHERE pair_id NOT IN (SELECT pair_id FROM pair_positions) ORDER BY pair_id",
    "DELETE FROM pair_scores WHERE pair_id NOT IN (SELECT id FROM sentence_pairs)",
)
_REFERENCED_IDS = (
    ("word_id", "rule_words"), ("rule_id", "rule_words"), ("rule_id", "rule_pairs"), ("rule_id", "rule_history"),
    ("rule_id", "reported_rules"),
)  # fmt: skip
"""Columns and tables that may refer to deleted words and rules."""


class Repair:
    """Steps of a repair within one transaction, see `Store.repairing`. Call the methods in order."""

    def __init__(self, transaction: WriteTransaction) -> None:
        self._transaction = transaction
        self._connection = transaction.connection
        self._before = asdict(transaction.state)
        # Clear the cache of word ids, because the words may no longer be stored.
        for words in transaction.seen_words.values():
            words.clear()

    def release_damaged_pairs(self) -> int:
        """Delete the records of damaged pairs, so that these pairs are sampled again. Returns their number."""
        return self._execute("DELETE FROM damaged_pairs")

    def repair_states(self) -> tuple[list[int], int, int]:
        """Make the state, the derivation and the sampling position of every pair agree.

        Returns the restarted pairs, the number of pairs that were marked as unaligned or waiting despite a derivation,
        and the number of missing or superfluous rows of `pair_positions` and `pair_scores`.
        """
        # Raise the last ids, so that ids to which other tables refer are not reused.
        state = self._transaction.state
        referenced_ids = [
            (f"last_{column}", largest_id(self._connection, table, column)) for column, table in _REFERENCED_IDS
        ]
        for name, number in (*largest_ids(self._connection).items(), *referenced_ids):
            setattr(state, name, max(number, getattr(state, name)))
        inconsistent_pairs = list(self._transaction.execute(_INCONSISTENT_PAIRS).scalars())
        self.restart(inconsistent_pairs)
        resumed = self._execute(_RESUME_SAMPLING)
        return inconsistent_pairs, resumed, sum(self._execute(statement) for statement in _REPAIR_POSITIONS)

    def restart(self, pair_ids: Sequence[int]) -> None:
        """Delete the derivations of the pairs, and restart their schedules. Rule counts do not change."""
        if not pair_ids:
            return
        self._transaction.stage_ids(pair_ids)
        count_restarts(self._transaction)
        self._transaction.delete_staged("rule_pairs", "indexed_pairs", "derivations", "pair_positions")
        self._execute(
            "UPDATE sentence_pairs SET stage = 0, sweep = 0,"
            " state = CASE WHEN aligned_by = 'none' THEN 'unaligned' ELSE 'waiting' END"
            " WHERE id IN (SELECT id FROM staged_ids)"
        )

    def reset_alignments(self, pair_ids: Sequence[int]) -> None:
        """Delete the pairs' alignments, links and derivations, to align them again. Keeps all counts."""
        if not pair_ids:
            return
        self.restart(pair_ids)
        self._transaction.delete_staged("pair_links")
        # Mark human links as pending, so that they are applied when the pairs are aligned again.
        self._execute(
            "UPDATE link_corrections SET applied_version = version - 1 WHERE pair_id IN (SELECT id FROM staged_ids)"
        )
        self._execute(
            "UPDATE sentence_pairs SET alignment = '', link_probabilities = NULL, aligned_by = 'none',"
            " state = 'unaligned'"
            " WHERE id IN (SELECT id FROM staged_ids)"
        )

    def reset_links(self, pair_ids: Sequence[int]) -> list[int]:
        """Delete the aligner's links of the pairs. Pairs that the aligner aligned are reset and returned."""
        self._transaction.stage_ids(pair_ids)
        self._transaction.delete_staged("pair_links")
        aligned = self._transaction.execute(
            "SELECT id FROM sentence_pairs WHERE aligned_by = 'aligner' AND id IN (SELECT id FROM staged_ids)"
            " ORDER BY id"
        )
        unaligned = list(aligned.scalars())
        self.reset_alignments(unaligned)
        return unaligned

    def repair_rules(
        self,
        recount: RuleDeltas,
        wrong_ids: NDArray[np.int64],
        wrong_rows: NDArray[np.int64],
        missing_rows: NDArray[np.int64],
        unused_ids: NDArray[np.int64],
    ) -> None:
        """Correct the rules by a recount. Raises `RuleKeyCollisionError` if two rules have the same key.

        `wrong_ids` int64[m] are the ids of stored rules with wrong columns, and `wrong_rows` int64[m] their rows in
        `recount`. `missing_rows` int64[k] are the rows of rules that are not stored, `unused_ids` int64[l] the ids of
        rules that are not in `recount`.
        """
        deleted_ids = np.concatenate((wrong_ids, unused_ids))
        if len(deleted_ids):
            self._transaction.stage_ids(deleted_ids.tolist())
            self._transaction.delete_staged("rules", column="id")
        state = self._transaction.state
        new_ids = np.arange(len(missing_rows)) + state.last_rule_id + 1
        state.last_rule_id += len(new_ids)
        rows = np.concatenate((wrong_rows, missing_rows))
        if len(rows):
            insert_rules(self._transaction, merge_deltas(recount), rows, np.concatenate((wrong_ids, new_ids)))
        if len(deleted_ids) or len(rows):
            # Clear the index of pairs by rule, because its rows may refer to changed rules. Learning rebuilds it.
            for table in ("rule_pairs", "indexed_pairs"):
                self._execute(f"DELETE FROM {table}")
            self._execute("DELETE FROM reported_rules WHERE rule_id NOT IN (SELECT id FROM rules)")

    def repair_aligner(self, change: AlignerCounts) -> None:
        """Add changes to the aligner's counts. Raises `StoreError` if a count would be negative."""
        add_aligner_counts(self._transaction, change)

    def repair_indexes(self) -> tuple[int, int, int, int]:
        """Repair the vocabulary and the indexes.

        Returns the numbers of wrong or missing words, of rules with wrong entries in the word index, of wrong blocks of
        the pair index, and of rules with wrong entries in the key index.
        """
        miscounted, missing, misfolded = vocabulary_differences(self._connection)
        self._transaction.loader.stage(staged_vocabulary, sorted((word_id, count) for word_id, _, count in miscounted))
        self._execute("UPDATE vocabulary SET count = s.count FROM staged_vocabulary AS s WHERE id = s.word_id")
        for word_id, _, form in misfolded:
            self._execute("UPDATE vocabulary SET folded = :form WHERE id = :word", form=form, word=word_id)
        state = self._transaction.state
        self._transaction.loader.insert(
            vocabulary,
            ((word_id, *word, fold(word[1])) for word_id, word in enumerate(missing, state.last_word_id + 1)),
        )
        state.last_word_id += len(missing)
        wrong = rule_index_differences(self._connection)
        reindexed = (*wrong.stale_words, *wrong.wrong_words)
        if reindexed:
            self._transaction.stage_ids(reindexed)
            self._transaction.delete_staged("rule_words", column="rule_id")
            for first in range(0, len(wrong.wrong_words), _RULES_AT_ONCE):
                self._transaction.stage_ids(wrong.wrong_words[first : first + _RULES_AT_ONCE])
                rows = self._transaction.execute(
                    "SELECT r.id, r.source, r.target FROM staged_ids AS s JOIN rules AS r ON r.id = s.id"
                ).all()
                sides = [row.source for row in rows], [row.target for row in rows]
                insert_rule_words(self._transaction, sides, np.array([row.id for row in rows], np.int64))
        wrong_words = {word_id for word_id, *_ in (*miscounted, *misfolded)}
        blocks = wrong_blocks(self._connection)
        rebuild_blocks(self._transaction, blocks)
        wrong_keys = {*wrong.missing_keys, *wrong.stale_keys}
        if wrong_keys:
            rebuild_runs(self._transaction)
        return len(wrong_words) + len(missing), len(reindexed), len(blocks), len(wrong_keys)

    def repair_totals(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """Recompute totals. Returns the number of corrected rows, and changed store totals as (before, after)."""
        corrected = sum(
            self._execute(f"UPDATE {table} SET {column} = f.number FROM {differing_counts(table, column)}")
            for table, column in RECOUNTS
        )
        state = self._transaction.state
        for name, number in counted_totals(self._connection).items():
            setattr(state, name, number)
        after = asdict(state)
        # Write the totals now, because later reads within this transaction must see them.
        self._connection.execute(update(store_state).values(**after))
        before = self._before
        return corrected, {name: (before[name], after[name]) for name in after if before[name] != after[name]}

    def _execute(self, statement: str, **values: object) -> int:
        return self._transaction.execute(statement, **values).rowcount
