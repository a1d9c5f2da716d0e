"""Pairs in memory with forests of all their derivations, for synchronous grammars and tree grammars.

`load_pairs` builds the forests of word-aligned pairs. `ForestPairs` converts derivations to bytes and back, and counts
their rules.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import StoredSamples
from hierogram.samplers.counts.deltas import CountDeltas, add_fragments, add_state, empty_deltas
from hierogram.samplers.counts.occurrences import Occurrences, rule_occurrences
from hierogram.samplers.counts.texts import render_rules, spellings
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.forests import derivations, records
from hierogram.samplers.forests.averages import Averages, add_trees
from hierogram.samplers.forests.derivations import Batch, State, make_batch
from hierogram.samplers.forests.forest import NO_TAIL, Bitext, Forests, build_forests
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.forests.records import Fragments
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.columns import Blobs, empty_blobs, join_blobs
from hierogram.samplers.grammar.keys import hash_words, length_of, numbering, source_terminals_of, target_terminals_of
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE, VARIANCE_PER_DRAW
from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings


class ForestPairs(ABC):
    """Pairs in memory with forests. Subclasses define how rules are written."""

    batch: Batch
    counts_minimal: ClassVar[bool]
    """True if the rules of each pair's minimal derivation, which cuts every node, are also counted."""
    mixes: ClassVar[bool]
    """True if chains move between modes, so that averages become more precise with more sweeps."""

    @abstractmethod
    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """Convert the entries with the indices `chosen` to columns for the store."""

    def encode(self, state: State) -> Blobs:
        """Return the derivation of each pair in the store's format, from which sampling can resume exactly."""
        return derivations.encode_states(self.batch.forests, state)

    def decode(self, blobs: Blobs) -> State:
        """Invert `encode`. Raises `DerivationError` if the bytes do not fit their pair's forest."""
        return derivations.decode_states(self.batch.forests, blobs)

    def check_averages(self, blobs: Blobs) -> None:
        """Raise `DerivationError` if the bytes are not the averages of their pair's forest."""
        records.check_records(self.batch, blobs)

    def read_averages(self, blobs: Blobs) -> Averages:
        """Return expected uses of each pair's rules. Raises `DerivationError` if bytes do not fit."""
        return records.read_averages(self.batch, blobs)

    def write_averages(self, averages: Averages) -> Blobs:
        """Return the averages of each pair as bytes, which are empty for a pair without averages."""
        return records.write_averages(averages)

    def average(self, averages: Averages, state: State, due: NDArray[np.bool_]) -> None:
        """Add the current derivations of the pairs in the mask `due` (bool[P]) to the averages, in place."""
        add_trees(averages, self.batch, state, due)

    def rule_deltas(self, before: StoredSamples | None, after: StoredSamples | None, first: int = 0) -> RuleDeltas:
        """Return the changes of rule counts from `before` to `after`, without unchanged rules.

        Both are samples of the same consecutive pairs of the batch, from index `first`. None means that these pairs
        have no derivations, so `before` None adds all rules of `after`, and `after` None removes all rules of `before`.
        Raises `KeyCollisionError` if two rules have the same key.
        """
        deltas, changed_pairs = empty_deltas(), self._changed_pairs(before, after, first)
        for samples, weight in ((after, 1), (before, -1)):
            if samples is not None:
                pairs = np.intersect1d(_derived_pairs(samples), changed_pairs, assume_unique=True)
                has_record = np.diff(samples.records.offsets)[pairs] > 0
                # Without a record, the expected uses of a pair are the uses in its current tree, a single draw.
                drawn = weight, weight * ONE_USE, weight * VARIANCE_PER_DRAW * ONE_SQUARE, 0
                for weights, chosen in (((weight, 0, 0, 0), has_record), (drawn, ~has_record)):
                    deltas = add_state(deltas, self.batch, samples.state, weights, first + pairs[chosen])
        fragments = records.fragment_changes(self._averaged(before), self._averaged(after))
        deltas = add_fragments(deltas, self.batch, fragments._replace(pairs=first + fragments.pairs))
        if self.counts_minimal:
            # Add or subtract the minimal derivation only for pairs that gain or lose their derivation, because it does
            # not change with the sample.
            derived_before, derived_after = _derived_pairs(before), _derived_pairs(after)
            gained, lost = np.setdiff1d(derived_after, derived_before), np.setdiff1d(derived_before, derived_after)
            for pairs, weight in ((gained, 1), (lost, -1)):
                if len(pairs):
                    minimal = derivations.minimal_state(self.batch.forests)
                    deltas = add_state(deltas, self.batch, minimal, (0, 0, 0, weight), first + pairs)
        entry = deltas.entry[: deltas.entries]
        changed = [entry[name] != 0 for name in ("count", "expected_uses", "variance", "minimal_uses")]
        return self.rules(deltas, np.flatnonzero(np.any(changed, axis=0)))

    def _changed_pairs(
        self, before: StoredSamples | None, after: StoredSamples | None, first: int
    ) -> NDArray[np.int64]:
        """Return the pairs whose derivation may be counted differently now, numbered from `first`."""
        if before is None or after is None:
            return np.union1d(_derived_pairs(before), _derived_pairs(after))
        offset = self.batch.forests.node_offset[first : first + after.records.size + 1]
        nodes = slice(offset[0], offset[-1])
        differs = after.state.edge[nodes] != before.state.edge[nodes]
        differs |= after.state.cut[nodes] != before.state.cut[nodes]
        differing_nodes = np.concatenate(([0], np.cumsum(differs)))[offset - offset[0]]
        has_record = [np.diff(samples.records.offsets) > 0 for samples in (before, after)]
        is_derived = [np.isin(np.arange(len(offset) - 1), _derived_pairs(samples)) for samples in (before, after)]
        return np.flatnonzero(
            (np.diff(differing_nodes) > 0) | (has_record[0] != has_record[1]) | (is_derived[0] != is_derived[1])
        )

    def _averaged(self, samples: StoredSamples | None) -> Fragments:
        fragments = records.list_fragments(empty_blobs(0) if samples is None else samples.records)
        if self.mixes:
            return fragments
        return fragments._replace(variances=fragments.variances + mode_variances(fragments.weights))

    def occurrences(self, state: State) -> Occurrences:
        """Return the rules in the derivation of each pair, sorted by pair."""
        return rule_occurrences(self.batch, state)


def mode_variances(uses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the error variance (1/`ONE_SQUARE`) of `uses` (1/`ONE_USE`) in one mode, see docs/model.md."""
    return ONE_USE // 2 * uses


def _derived_pairs(samples: StoredSamples | None) -> NDArray[np.int64]:
    if samples is None:
        return np.zeros(0, np.int64)
    return np.arange(samples.records.size) if samples.chosen is None else np.flatnonzero(samples.chosen)


def list_rule_uses(forests: Forests, current: bytes) -> tuple[State, list[tuple[int, list[int], tuple[int, ...]]]]:
    """Return state and rule uses, top-down, of the pair in `forests`. Raises `DerivationError`.

    A rule use has its node, the nodes of its nonterminals in source order, and the indices of their uses.
    """
    state = derivations.decode_states(forests, join_blobs([current]))
    nonterminals_by_head: dict[int, list[int]] = {}
    pending = [forests.nodes - 1]
    while pending:
        head = pending.pop()
        nonterminals = nonterminals_by_head[head] = []
        below = list_children(forests, state, head)
        while below:
            node = below.pop(0)
            if state.cut[node]:
                nonterminals.append(node)
            else:
                below[:0] = list_children(forests, state, node)
        pending += reversed(nonterminals)
    index_by_head = {head: index for index, head in enumerate(nonterminals_by_head)}
    return state, [
        (head, nonterminals, tuple(index_by_head[node] for node in nonterminals))
        for head, nonterminals in nonterminals_by_head.items()
    ]


def list_children(forests: Forests, state: State, node: int) -> list[int]:
    """Return the children of a node in the derivation, in source order."""
    arity = int(forests.node[node]["arity"])
    first = int(forests.node[node]["tail_offset"]) + int(state.edge[node]) * arity
    return [tail for tail in forests.tails[first : first + arity].tolist() if tail != NO_TAIL]


_ID_BITS = 44
"""Bits of the pair id in the name of a random stream, below the bits of the number of restarts."""


@dataclass(frozen=True, slots=True)
class LoadedPairs(ForestPairs):
    """Word-aligned pairs in memory, with the spellings of source and target words by number."""

    counts_minimal = True
    mixes = True

    batch: Batch
    source: Blobs
    target: Blobs

    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """Convert the entries with the indices `chosen` to columns for the store."""
        entry = deltas.entry
        sizes = entry["size"][chosen]
        source_terminals = source_terminals_of(sizes).astype(np.int32)
        target_terminals = target_terminals_of(sizes).astype(np.int32)
        nonterminals = entry["nonterminals"][chosen]
        sources, targets = render_rules(deltas, chosen, self.source, self.target)
        return RuleDeltas(
            keys=np.stack((entry["key_high"][chosen], entry["key_low"][chosen]), axis=1),
            source=sources,
            target=targets,
            length=length_of(sizes).astype(np.int32),
            scope=entry["scope"][chosen],
            nonterminals=nonterminals,
            source_terminals=source_terminals,
            target_terminals=target_terminals,
            hiero=is_hiero(nonterminals, entry["adjacent"][chosen], source_terminals, target_terminals),
            count=entry["count"][chosen],
            expected_uses=entry["expected_uses"][chosen] / ONE_USE,
            expected_uses_variance=entry["variance"][chosen] / ONE_SQUARE,
            minimal_uses=entry["minimal_uses"][chosen],
        )


def is_hiero(
    nonterminals: NDArray[np.int32],
    adjacent: NDArray[np.int32],
    source_terminals: NDArray[np.int32],
    target_terminals: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Return a mask of rules within the limits of [Chiang 2007]. `adjacent` counts adjacent nonterminals."""
    admissible: NDArray[np.bool_] = (
        (nonterminals <= HIERO_MAX_NONTERMINALS)
        & (adjacent == 0)
        & (source_terminals + nonterminals <= HIERO_MAX_SOURCE_SYMBOLS)
        & (source_terminals > 0)
        & (target_terminals > 0)
    )
    return admissible


def longest_rule(settings: Settings) -> int:
    """Return an upper bound of a rule's length: its terminals on both sides plus its scope."""
    return 2 * settings.max_tokens + 1


def number_words(texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """Return the word numbers of all texts, concatenated, their offsets, and the words by number."""
    split_texts = [text.split(" ") for text in texts]
    offsets = np.cumsum([0, *map(len, split_texts)], dtype=np.int64)
    numbers = numbering()
    words = np.fromiter(map(numbers.__getitem__, chain.from_iterable(split_texts)), np.int32, int(offsets[-1]))
    return words, offsets, list(numbers)


def parse_alignments(alignments: Sequence[str]) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int64]]:
    """Return source and target positions of links, and offsets of lines. Raises one of `UNREADABLE`."""
    link_counts = [line.count("-") for line in alignments]
    offsets = np.cumsum([0, *link_counts], dtype=np.int64)
    numbers = np.array(" ".join(alignments).replace("-", " ").split(), np.int16)
    # Count hyphens and tokens, because a valid line has equal numbers of both.
    tokens = [line.count(" ") + (line != "") for line in alignments]
    if link_counts != tokens or len(numbers) != 2 * offsets[-1]:
        raise AlignmentInputError("invalid alignment: expected links such as 0-0 1-2")
    return numbers[0::2].copy(), numbers[1::2].copy(), offsets


def stream_names(rows: Sequence[PairRow]) -> NDArray[np.int64]:
    """Return the names of the pairs' random streams: each id combined with the number of restarts."""
    return np.array([row.id + (row.restarts << _ID_BITS) for row in rows], np.int64)


def _check_links(rows: Sequence[PairRow], bitext: Bitext) -> None:
    """Raise `AlignmentInputError` if a position is out of range, because kernels do not check bounds."""
    links = np.diff(bitext.link_offset)
    out_of_range = bitext.link_source >= np.repeat(np.diff(bitext.source_offset), links)
    out_of_range |= bitext.link_target >= np.repeat(np.diff(bitext.target_offset), links)
    if out_of_range.any():
        link = int(np.flatnonzero(out_of_range)[0])
        row = rows[int(np.searchsorted(bitext.link_offset, link, "right")) - 1]
        link_text = f"{bitext.link_source[link]}-{bitext.link_target[link]}"
        raise AlignmentInputError(f"pair {row.id}: the link {link_text} is out of range")


def load_pairs(rows: Sequence[PairRow], settings: Settings) -> LoadedPairs:
    """Load pairs and build forests. Raises one of `kind.UNREADABLE` if a pair is malformed or long."""
    source, source_offset, source_words = number_words(row.source for row in rows)
    target, target_offset, target_words = number_words(row.target for row in rows)
    link_source, link_target, link_offset = parse_alignments([row.alignment for row in rows])
    bitext = Bitext(source, source_offset, target, target_offset, link_source, link_target, link_offset)
    _check_links(rows, bitext)
    source_hashes = hash_words(source_words, settings.key_salt)[source]
    target_hashes = hash_words(target_words, settings.key_salt)[target]
    batch = build_batch(stream_names(rows), bitext, source_hashes, target_hashes, settings)
    return LoadedPairs(batch, spellings(source_words), spellings(target_words))


def build_batch(
    names: NDArray[np.int64],
    bitext: Bitext,
    source_hashes: NDArray[np.uint64],
    target_hashes: NDArray[np.uint64],
    settings: Settings,
) -> Batch:
    """Build the forests of pairs, given the names of their random streams and the hashes of their words."""
    words = cumulate_hashes(source_hashes, target_hashes, keys.ALL_BITS)
    forests = build_forests(bitext, settings.span_limit)
    return make_batch(bitext, words, forests, names, longest_rule(settings))
