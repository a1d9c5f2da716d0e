"""Inversion transduction grammars, slice-sampled from pairs without links [BC10]."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import AllPairsChain, Kind, StoredSamples, SweepRequest
from hierogram.daemon.learning.kinds.pairs import is_hiero, mode_variances, number_words, stream_names
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.models import ModelSettings, build_model
from hierogram.samplers.counts.occurrences import Occurrences
from hierogram.samplers.counts.table import CountTable, empty_table, fill_table
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.grammar import keys as rule_keys
from hierogram.samplers.grammar.columns import Blobs, empty_blobs, join_blobs, join_texts
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE
from hierogram.samplers.grammar.rules import Rule, RuleUse, escape_terminal, render_side
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import CUT, DIRICHLET, FLAT, ITG
from hierogram.samplers.itg import summaries
from hierogram.samplers.itg.batch import BINARY_TYPES, ItgBatch, make_batch
from hierogram.samplers.itg.derivations import PAIR, Derivations, decode, encode, list_nodes
from hierogram.samplers.itg.model import STRENGTHS, ItgSettings, Model1, train_model1
from hierogram.samplers.itg.sampler import ItgKernel, ItgPlan, ItgState
from hierogram.samplers.itg.starts import LEFT_BRANCHING, MODEL1
from hierogram.samplers.itg.summaries import ItgAverages, RuleUses
from hierogram.samplers.kernel import Report
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.grammar import LabelRow
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings

BINARY_RULES = (Rule((1, 2), (1, 2)), Rule((1, 2), (2, 1)))
"""X → [X X] and X → ⟨X X⟩, which have the rule numbers 0 and 1."""
_BINARY, _SOURCE_NULL, _TARGET_NULL, _WORD_PAIR, _PHRASE_PAIR = range(5)
"""Types of rules, in the order of their rule numbers in a batch."""


class LoadedRawPairs:
    """Pairs in memory without links, with the methods of `ForestPairs`. `words` are by side and number."""

    def __init__(self, batch: ItgBatch, words: tuple[list[str], list[str]], key_salt: int) -> None:
        self.batch = batch
        self.terminals = tuple([escape_terminal(word) for word in side] for side in words)
        self._hashes = [rule_keys.hash_words(side, key_salt) for side in words]
        self._key_salt = key_salt

    @cached_property
    def model1(self) -> Model1:
        """IBM Model 1 of these pairs in both directions, trained on first use."""
        return train_model1(self.batch)

    def encode(self, state: Derivations) -> Blobs:
        """Return the derivation of each pair as bytes, with one byte per rule."""
        return encode(state)

    def decode(self, blobs: Blobs) -> Derivations:
        """Invert `encode`. Raises `DerivationError` if the bytes are not a derivation of their pair."""
        return decode(self.batch, blobs)

    def check_averages(self, records: Blobs) -> None:
        """Raise `DerivationError` if the bytes are not the averages of their pair."""
        summaries.check_records(self.batch, records)

    def read_averages(self, records: Blobs) -> ItgAverages:
        """Return the expected uses of each pair's rules. Raises `DerivationError` if bytes do not fit a pair."""
        return summaries.read_averages(self.batch, records)

    def write_averages(self, averages: ItgAverages) -> Blobs:
        """Return the averages of each pair as bytes, which are empty for a pair without averages."""
        return summaries.write_averages(self.batch, averages)

    def average(self, averages: ItgAverages, state: Derivations, due: NDArray[np.bool_]) -> None:
        """Add the current derivations of the pairs in the mask `due` (bool[P]) to the averages, in place."""
        summaries.add_derivations(self.batch, state, due, averages)

    def rule_deltas(self, before: StoredSamples | None, after: StoredSamples | None, first: int = 0) -> RuleDeltas:
        """Return the changes of rule counts, like `ForestPairs.rule_deltas`. Raises `KeyCollisionError`."""
        uses = summaries.sum_uses([*self._uses(before, -1, first), *self._uses(after, 1, first)])
        binary, source, target = self._words(uses.rules)
        sources, targets = self._side(binary, source, 0), self._side(binary, target, 1)
        keys = self._keys(binary, source, target)
        first_rows = rule_keys.first_rows_by_key(keys)
        later = np.flatnonzero(first_rows != np.arange(len(keys)))
        if len(later):
            earlier_rule, rule = (f"{sources[row]} ||| {targets[row]}" for row in (first_rows[later[0]], later[0]))
            raise KeyCollisionError(
                f"rules {earlier_rule!r} and {rule!r} have the same key: run `hierogram learn`, which assigns new keys"
            )
        is_binary = binary >= 0
        scopes = np.where(is_binary, BINARY_RULES[0].scope, 0).astype(np.int32)
        nonterminals = np.where(is_binary, 2, 0).astype(np.int32)
        source_terminals, target_terminals = ((words >= 0).sum(axis=1, dtype=np.int32) for words in (source, target))
        return RuleDeltas(
            keys=keys,
            source=join_texts(sources),
            target=join_texts(targets),
            length=(source_terminals + target_terminals + scopes).astype(np.int32),
            scope=scopes,
            nonterminals=nonterminals,
            source_terminals=source_terminals,
            target_terminals=target_terminals,
            hiero=is_hiero(nonterminals, nonterminals // 2, source_terminals, target_terminals),
            count=uses.counts,
            expected_uses=uses.expected_uses / ONE_USE,
            expected_uses_variance=uses.variances / ONE_SQUARE,
            minimal_uses=np.zeros(len(keys), np.int64),
        )

    def _uses(self, samples: StoredSamples | None, weight: int, first: int) -> list[RuleUses]:
        if samples is None:
            return []
        has_record = np.diff(samples.records.offsets) > 0
        chosen = np.ones(len(has_record), np.bool_) if samples.chosen is None else samples.chosen
        averaged = summaries.list_record_uses(self.batch, samples.records, first)
        # A chain stays in one mode of the posterior, so its averages do not become more precise with more sweeps.
        averaged = averaged._replace(variances=averaged.variances + mode_variances(averaged.expected_uses))
        all_uses = [summaries.list_derivation_uses(self.batch, samples.state, chosen, has_record, first), averaged]
        return [RuleUses(*uses[:2], *(weight * column for column in uses[2:])) for uses in all_uses]

    def _words(self, rules: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return index in `BINARY_RULES`, source and target words of rules int64[n]. -1 means none."""
        batch = self.batch
        ends = np.cumsum([BINARY_TYPES, batch.source_words, batch.target_words, len(batch.type_source)])
        types = np.searchsorted(ends, rules, "right")
        sides = [np.full((len(rules), batch.phrases.longest), -1, np.int64) for _ in range(2)]
        pairs, phrases = np.flatnonzero(types == _WORD_PAIR), np.flatnonzero(types == _PHRASE_PAIR)
        pair_types = rules[pairs] - ends[_TARGET_NULL]
        phrase_numbers = rules[phrases] - ends[_WORD_PAIR]
        columns = (sides[0], batch.type_source, batch.source), (sides[1], batch.type_target, batch.target)
        for side, (words, type_words, batch_words) in enumerate(columns):
            is_null = types == (_SOURCE_NULL, _TARGET_NULL)[side]
            words[is_null, 0] = rules[is_null] - ends[(_BINARY, _SOURCE_NULL)[side]]
            words[pairs, 0] = type_words[pair_types]
            for position in range(batch.phrases.longest):
                longer = batch.phrases.sizes[phrase_numbers, side] > position
                first = batch.phrases.first[phrase_numbers[longer], side]
                words[phrases[longer], position] = batch_words[first + position]
        return np.where(types == _BINARY, rules, -1), sides[0], sides[1]

    def _side(self, binary: NDArray[np.int64], words: NDArray[np.int64], side: int) -> list[str]:
        terminals = self.terminals[side]
        texts = [terminals[word] if word >= 0 else "" for word in words[:, 0].tolist()]
        for column in words.T[1:]:
            for row in np.flatnonzero(column >= 0).tolist():
                texts[row] += f" {terminals[column[row]]}"
        for row in np.flatnonzero(binary >= 0).tolist():
            texts[row] = str(BINARY_RULES[int(binary[row])]).split(" ||| ")[side]
        return texts

    def _keys(
        self, binary: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        keys = rule_keys.lexical_keys(*map(rule_keys.lexical_hashes, (source, target), self._hashes))
        for row in np.flatnonzero(binary >= 0).tolist():
            keys[row] = rule_keys.rule_key(BINARY_RULES[int(binary[row])], self._key_salt)
        return keys

    def occurrences(self, state: Derivations) -> Occurrences:
        """Return the rules in the derivation of each pair, sorted by pair."""
        all_pairs = np.ones(self.batch.size, np.bool_)
        uses = summaries.list_derivation_uses(self.batch, state, all_pairs, all_pairs)
        order = np.lexsort((uses.rules, uses.pairs))
        pairs, rules = uses.pairs[order], uses.rules[order]
        starts = np.flatnonzero((np.diff(pairs, prepend=-1) != 0) | (np.diff(rules, prepend=-1) != 0))
        keys = self._keys(*self._words(rules[starts]))
        return Occurrences(pairs[starts], keys, np.diff(np.append(starts, len(rules))))


def load_raw_pairs(rows: Sequence[PairRow], settings: Settings) -> LoadedRawPairs:
    """Load pairs. Their links are ignored. Raises `AlignmentInputError` if a side is too long."""
    source, source_offset, source_words = number_words(row.source for row in rows)
    target, target_offset, target_words = number_words(row.target for row in rows)
    batch = make_batch(source, source_offset, target, target_offset, stream_names(rows), settings.phrase_words)
    return LoadedRawPairs(batch, (source_words, target_words), settings.key_salt)


_ITG_SETTINGS = ItgSettings(sampled_words=False)
"""Settings that keep P_f and P_e at relative word frequencies, which follow from the pairs."""
_STORED_PROCESSES = STRENGTHS[:3]
"""Labels of the strengths that the store keeps. The others have no effect on fixed P_f and P_e."""


class _ItgChain(AllPairsChain):
    state: ItgState | None

    def _start(self, state: Derivations) -> None:
        self.kernel = ItgKernel(self.loaded.batch, _ITG_SETTINGS, self._settings.slices, self.loaded.model1)
        base = self.kernel.initial_base
        first = zip(STRENGTHS, base.strengths.tolist(), strict=True)
        strengths = [self._parameters.get(name, LabelRow(name, strength, 0.0)).strength for name, strength in first]
        self.state = self.kernel.resume(state, base._replace(strengths=np.array(strengths)))

    def _step(self, request: SweepRequest, report: Report) -> SweepInfo:
        plan = ItgPlan(self._sweeps, np.where(request.active, request.sweeps, 0))
        self.state, info = self.kernel.step(self._settings.seed, self.state, plan, report)
        return SweepInfo(info.proposed, info.accepted, 0, 0)

    @property
    def rule_types(self) -> int:
        return 0 if self.state is None else int(np.count_nonzero(self.state.counts.uses))

    @property
    def rule_tokens(self) -> int:
        return 0 if self.state is None else int(self.state.counts.rules.sum())

    def rule_table(self) -> CountTable:
        assert self.state is not None
        samples = StoredSamples(self.state.derivations, empty_blobs(self.loaded.batch.size))
        rules = self.loaded.rule_deltas(None, samples)
        longest = max(BINARY_RULES[0].length, 2 * self._settings.phrase_words)
        model = build_model(ModelSettings(DIRICHLET, 1.0, 0.0, 1.0), 1, 1, longest)
        sizes = rule_keys.pack_size(rules.length, rules.source_terminals, rules.target_terminals)
        return fill_table(empty_table(longest, len(rules)), model, rules.keys, rules.count, sizes)

    def labels(self) -> list[LabelRow]:
        if self.state is None:
            return []
        strengths = self.state.base.strengths[: len(_STORED_PROCESSES)].tolist()
        return [LabelRow(name, strength, 0.0) for name, strength in zip(_STORED_PROCESSES, strengths, strict=True)]


def _draw_initial_state(
    loaded: LoadedRawPairs, settings: Settings, due: NDArray[np.bool_], start: str | None
) -> Derivations:
    """Draw left-branching derivations if `start` is `CUT`, else derivations from Model 1."""
    kernel = ItgKernel(loaded.batch, _ITG_SETTINGS, FLAT, loaded.model1)
    return kernel.init(settings.seed, LEFT_BRANCHING if start == CUT else MODEL1, due=due).derivations


def _read_derivation(row: PairRow, settings: Settings) -> list[RuleUse]:
    nodes = list_nodes(load_raw_pairs([row], settings).decode(join_blobs([row.current or b""])), 0)
    source, target = row.source.split(" "), row.target.split(" ")
    uses = []
    # The children of a binary node are the next node and the node with the index `right`.
    for index, node in enumerate(nodes):
        rule, i, j, x, y, _, right = (int(value) for value in node)
        if rule < PAIR:
            sides = [render_side(BINARY_RULES[rule].source), render_side(BINARY_RULES[rule].target)]
        else:
            spans = ((source, i, j), (target, x, y))
            sides = [" ".join(map(escape_terminal, side[start:end])) for side, start, end in spans]
        uses.append(RuleUse(sides[0], sides[1], (i, j), (x, y), (index + 1, right) if rule < PAIR else ()))
    return uses


KIND = Kind(
    name=ITG,
    needs_all_pairs=True,
    load=load_raw_pairs,
    draw_initial_state=_draw_initial_state,
    # All sweeps are at T = 1.
    schedule=lambda settings: Annealing(0, 1.0, settings.burn_in),
    chain=_ItgChain,
    read_derivation=_read_derivation,
    example=PairRow(1, "a b", "c d", "", WAITING, 0, 0, None, None),
    sweeps=74,
)
