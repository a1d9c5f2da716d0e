"""What a store can do with its rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.access import Access
from hierogram.storage.database.connection import reading
from hierogram.storage.database.transactions import writing
from hierogram.storage.grammar import occurrences as support
from hierogram.storage.grammar import queries, runs
from hierogram.storage.operations import claims
from hierogram.storage.operations.settings import set_key_salt
from hierogram.storage.pairs.spellings import like_words
from hierogram.storage.records import (
    LabelRow,
    LearningRun,
    PairRow,
    PairUpdates,
    RuleCounts,
    RuleDeltas,
    RuleRow,
    SupportingPair,
    SweepRecord,
)


class Grammar(Access):
    """Rules, their counts, and the derivations that cause them."""

    def rule_counts(self) -> RuleCounts:
        """Every rule with a positive count, as arrays."""
        from hierogram.storage.grammar.counts import rule_counts

        with reading(self._engine) as connection:
            return rule_counts(connection)

    def commit(
        self,
        updates: PairUpdates | None = None,
        deltas: RuleDeltas | None = None,
        sweeps: Sequence[SweepRecord] = (),
        labels: Sequence[LabelRow] = (),
    ) -> None:
        """Writes new derivations, the count changes that they cause, the sweeps that led there, and what is learned of
        the labels of a tree grammar.

        All or nothing. Raises `PairMissingError`, `PairMovedError`, `CountError` where a count would become
        negative, `KeyCollisionError` where a key is stored with another rule, `StoreHeldError` where another
        process has the lease, and `LeaseLostError` where this store object had it.
        """
        self.commit_parts([(updates, deltas)], sweeps, labels)

    def commit_parts(
        self,
        parts: Iterable[tuple[PairUpdates | None, RuleDeltas | None]],
        sweeps: Sequence[SweepRecord] = (),
        labels: Sequence[LabelRow] = (),
        run: LearningRun | None = None,
    ) -> None:
        """As `commit`, of derivations and count changes that come in several parts, all in one transaction; and how far
        the `run` of learning has come with it.

        Other writers wait until all parts have come.
        """
        from hierogram.storage.grammar import commits

        with writing(self._engine, self._memory, durable=False) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            for updates, deltas in parts:
                commits.save_derivations(transaction, updates, deltas)
            commits.append_sweeps(transaction, sweeps)
            commits.save_labels(transaction, labels)
            if run is not None:
                runs.save_run(transaction, run)

    def unfinished_run(self) -> LearningRun | None:
        """The last run of learning, where `finish_run` has not come after it."""
        with reading(self._engine) as connection:
            return runs.unfinished_run(connection)

    def begin_run(self, sweeps: int) -> LearningRun:
        """Enters a new run of learning; raises `StoreHeldError` and `LeaseLostError` as `commit` does."""
        with writing(self._engine, self._memory) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            return runs.begin_run(transaction, sweeps)

    def save_run(self, run: LearningRun) -> None:
        """Write how far a run has come; raises as `commit` does."""
        with writing(self._engine, self._memory, durable=False) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            runs.save_run(transaction, run)

    def finish_run(self) -> None:
        """Write that whoever asked for the last run of learning knows that it has come to its end."""
        with writing(self._engine, self._memory) as transaction:
            runs.finish_run(transaction)

    def labels(self) -> list[LabelRow]:
        """What is known of the labels of a tree grammar, in the order of their names."""
        with reading(self._engine) as connection:
            return queries.read_labels(connection)

    def rekey(self, salt: int, keys: Iterable[tuple[int, int, int]]) -> None:
        """Gives every rule (by id) its new key (high, low), and records the salt that made them.

        All or nothing. Raises `RekeyError` where the keys do not cover the stored rules one to one, `StoreHeldError`
        and `LeaseLostError` as `commit` does.
        """
        from hierogram.storage.grammar.commits import rekey

        with writing(self._engine, self._memory) as transaction:
            claims.check_lease(transaction, self._lease, self.url)
            rekey(transaction, keys)
            set_key_salt(transaction.connection, salt)

    def find_rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        words: Sequence[str] = (),
        source_words: Sequence[str] = (),
        target_words: Sequence[str] = (),
        limit: int = 20,
        after: tuple[int, str, str] | None = None,
        drawn: bool = False,
    ) -> list[RuleRow]:
        """Rules that meet all conditions, most often used first: as expected, or, `drawn`, in the present derivations.

        `source` and `target` are whole sides in the notation of rules; `words` have to occur on either side,
        `source_words` and `target_words` on theirs. `after` is uses, source and target of the rule after which to go
        on, the last of an earlier answer; expected uses are in units of 1/`ONE_USE`.
        """
        with reading(self._engine) as connection:
            wanted = queries.Wanted(source, target, words, source_words, target_words, after, drawn)
            return queries.find_rules(connection, wanted, limit)

    def find_respelled_rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        words: Sequence[str] = (),
        limit: int = 20,
        drawn: bool = False,
    ) -> list[RuleRow]:
        """Rules that `find_rules` would find if their words had other accents or capital letters, likelier words first.

        Likelier are words that occur more often.
        """
        with reading(self._engine) as connection:
            wanted = queries.Wanted(source, target, words, (), (), None, drawn)
            found: dict[int, RuleRow] = {}
            for conditions in queries.respelled(connection, wanted):
                found |= {rule.id: rule for rule in queries.find_rules(connection, conditions, limit)}
                if len(found) >= limit:
                    break
            return list(found.values())[:limit]

    def like_words(self, word: str, limit: int = 8) -> list[str]:
        """Words of either side that look like the word, begin with it, or are spelled almost so."""
        with reading(self._engine) as connection:
            found = [one for side in (SOURCE, TARGET) for one in like_words(connection, side, word, limit)]
            return list(dict.fromkeys(one.token for one in found))[:limit]

    def unindexed_pairs(self, after_id: int = 0, limit: int = 1_000) -> tuple[int, list[PairRow]]:
        """The position, and pairs above `after_id` whose present derivation is not in the index of rules' pairs."""
        with reading(self._engine) as connection:
            return support.unindexed_pairs(connection, after_id, limit)

    def count_unindexed(self) -> int:
        """How many pairs have a derivation that is not in the index of rules' pairs."""
        with reading(self._engine) as connection:
            return support.count_unindexed(connection)

    def index_pairs(
        self, pair_ids: Sequence[int], position: int, uses: Iterable[tuple[int, int, int, int]], key_salt: int
    ) -> int:
        """Indexes pairs by the rules of their derivations at a store position; returns how many were.

        `uses` holds (pair id, key high, key low, uses), keys made with `key_salt`. Pairs that have been sampled after
        that position are left as they were, and all of them where the store's salt is another one by now.
        """
        with writing(self._engine, self._memory) as transaction:
            return support.index_pairs(transaction, pair_ids, position, uses, key_salt)

    def supporting_pairs(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Indexed pairs whose derivation uses the rule, in id order."""
        with reading(self._engine) as connection:
            return support.supporting_pairs(connection, source, target, limit)
