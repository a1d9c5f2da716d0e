"""From stored pairs, with or without links, to what the ITG samplers work on; and what their derivations count."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Drawn, left_out_change
from hierogram.daemon.learning.kinds.pairs import is_hiero, number_words, streams_of
from hierogram.daemon.learning.kinds.state import Averages, State
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.grammar.columns import Blobs, join_texts
from hierogram.samplers.grammar.keys import hash_words, lexical_keys, rule_key
from hierogram.samplers.grammar.rules import Rule, escape_terminal
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.derivations import Derivations, decode, encode
from hierogram.samplers.itg.model1 import Model1, train_model1
from hierogram.samplers.itg.summaries.averages import (
    BINARY,
    ItgAverages,
    add_derivations,
    read_averages,
    write_averages,
)
from hierogram.samplers.itg.summaries.uses import RuleUses, added_up, uses_of_records, uses_of_trees
from hierogram.storage.records import PairRow, Settings
from hierogram.storage.records.columns import RuleDeltas

BINARY_RULES = (Rule((1, 2), (1, 2)), Rule((1, 2), (2, 1)))
"""X → [X X] and X → ⟨X X⟩."""

_LEFT_OUT, _WITH_RECORD, _ALONE = 0, 1, 2


class LoadedRawPairs:
    """A batch of pairs, the spellings of its words by number, and the salt of rules' keys.

    `terminals` are the words of both sides as they stand in rules.
    """

    def __init__(self, batch: ItgBatch, words: tuple[list[str], list[str]], key_salt: int) -> None:
        self.batch = batch
        self.terminals = tuple([escape_terminal(word) for word in side] for side in words)
        self._hashes = [hash_words(side, key_salt) for side in words]
        self._key_salt = key_salt

    @property
    def size(self) -> int:
        """Number of pairs."""
        return self.batch.size

    @cached_property
    def model1(self) -> Model1:
        """Model 1 of these pairs, both ways; trained when it is first asked for."""
        return train_model1(self.batch)

    def encode(self, state: State) -> Blobs:
        """Each pair's derivation, a byte a rule."""
        return encode(derivations_of(state))

    def decode(self, blobs: Blobs) -> Derivations:
        """Inverse of `encode`; raises `DerivationError` where bytes are no derivation of their pair."""
        return decode(self.batch, blobs)

    def trees(self, state: State) -> Blobs:
        """The same as `encode`: a derivation has nothing beside what it uses."""
        return self.encode(state)

    def read_averages(self, records: Blobs) -> ItgAverages:
        """What the pairs expect to use; raises `DerivationError` where bytes do not fit their pair."""
        return read_averages(self.batch, records)

    def write_averages(self, averages: Averages) -> Blobs:
        """Each pair's record."""
        assert isinstance(averages, ItgAverages)
        return write_averages(self.batch, averages)

    def left_out(self, records: Blobs, first: int = 0) -> NDArray[np.int64]:
        """What pairs expect to use and do not count."""
        return uses_of_records(self.batch, records, first)[1]

    def average(self, averages: Averages, state: State, due: NDArray[np.bool_]) -> None:
        """Average over the present derivations of the pairs that are due, too."""
        assert isinstance(averages, ItgAverages)
        add_derivations(self.batch, derivations_of(state), due, averages)

    def rule_deltas(self, before: Drawn | None, after: Drawn | None, settings: Settings, first: int = 0) -> RuleDeltas:
        """By how much the counts of rules change."""
        parts = [self._uses(before, -1, first), self._uses(after, 1, first)]
        rules = self._columns(added_up([part for some in parts for part in some]))
        return replace(rules, left_out=left_out_change(self, before, after, first))

    def _uses(self, drawn: Drawn | None, weight: int, first: int) -> list[RuleUses]:
        if drawn is None:
            return []
        chosen = np.where(np.diff(drawn.records.offsets) == 0, _ALONE, _WITH_RECORD).astype(np.int8)
        if drawn.chosen is not None:
            chosen[~drawn.chosen] = _LEFT_OUT
        found = [
            uses_of_trees(self.batch, drawn.trees, chosen, first),
            uses_of_records(self.batch, drawn.records, first)[0],
        ]
        return [RuleUses(*uses[:2], *(weight * column for column in uses[2:])) for uses in found]

    def _columns(self, uses: RuleUses) -> RuleDeltas:
        """The rules as columns for the store; raises `KeyCollisionError`."""
        binary, source, target = self._words(uses.rules)
        sources, targets = self._side(binary, source, 0), self._side(binary, target, 1)
        keys = self._keys(binary, source, target)
        if len(np.unique(keys, axis=0)) < len(keys):
            raise KeyCollisionError("two rules have one key")
        is_binary = binary >= 0
        scopes = np.where(is_binary, BINARY_RULES[0].scope, 0).astype(np.int32)
        nonterminals = np.where(is_binary, 2, 0).astype(np.int32)
        source_terminals, target_terminals = (source >= 0).astype(np.int32), (target >= 0).astype(np.int32)
        return RuleDeltas(
            keys=keys,
            sources=join_texts(sources),
            targets=join_texts(targets),
            lengths=(source_terminals + target_terminals + scopes).astype(np.int32),
            scopes=scopes,
            nonterminals=nonterminals,
            source_terminals=source_terminals,
            target_terminals=target_terminals,
            hiero=is_hiero(nonterminals, nonterminals // 2, source_terminals, target_terminals),
            counts=uses.counts,
            sampled_counts=uses.sampled,
            sampled_variances=uses.variances,
        )

    def _words(self, rules: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Of each rule: which one with children it is, its source word and its target word; -1 where it has none."""
        batch = self.batch
        ends = np.cumsum([BINARY, batch.source_words, batch.target_words])
        kind = np.searchsorted(ends, rules, "right")
        of_type = np.where(kind == 3, rules - ends[2], 0)
        none = np.full(len(rules), -1, np.int64)
        if len(batch.type_source):
            pair = batch.type_source[of_type].astype(np.int64), batch.type_target[of_type].astype(np.int64)
        else:
            pair = none, none
        return (
            np.where(kind == 0, rules, none),
            np.select([kind == 1, kind == 3], [rules - ends[0], pair[0]], none),
            np.select([kind == 2, kind == 3], [rules - ends[1], pair[1]], none),
        )

    def _side(self, binary: NDArray[np.int64], words: NDArray[np.int64], side: int) -> list[str]:
        """The texts of one side of rules; a side without words and children is empty."""
        terminals = self.terminals[side]
        texts = [terminals[word] if word >= 0 else "" for word in words.tolist()]
        for at in np.flatnonzero(binary >= 0).tolist():
            texts[at] = str(BINARY_RULES[int(binary[at])]).split(" ||| ")[side]
        return texts

    def _keys(
        self, binary: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        nothing = np.uint64(0)
        hashes = [
            np.where(words >= 0, np.append(of_words, nothing)[words], nothing)
            for words, of_words in zip((source, target), self._hashes, strict=True)
        ]
        keys = lexical_keys(hashes[0], hashes[1])
        for at in np.flatnonzero(binary >= 0).tolist():
            keys[at] = rule_key(BINARY_RULES[int(binary[at])], self._key_salt)
        return keys

    def occurrences(self, state: State) -> Occurrences:
        """The rules of every pair's derivation, by pair."""
        everything = np.full(self.size, _WITH_RECORD, np.int8)
        found = uses_of_trees(self.batch, self.encode(state), everything)
        order = np.lexsort((found.rules, found.pairs))
        pairs, rules = found.pairs[order], found.rules[order]
        starts = np.flatnonzero((np.diff(pairs, prepend=-1) != 0) | (np.diff(rules, prepend=-1) != 0))
        keys = self._keys(*self._words(rules[starts]))
        return Occurrences(pairs[starts], keys, np.diff(np.append(starts, len(rules))))


def derivations_of(state: State) -> Derivations:
    """The state as ITG derivations."""
    assert isinstance(state, Derivations)
    return state


def load_raw_pairs(rows: Sequence[PairRow], settings: Settings) -> LoadedRawPairs:
    """The pairs as a batch, whatever links they have; raises `AlignmentInputError` where a side is too long."""
    source, source_offset, source_words = number_words(row.source for row in rows)
    target, target_offset, target_words = number_words(row.target for row in rows)
    batch = make_batch(source, source_offset, target, target_offset, streams_of(rows))
    return LoadedRawPairs(batch, (source_words, target_words), settings.key_salt)
