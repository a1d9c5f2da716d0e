"""Candidates: phrases with the rendering that they have most often, counted in three passes over the pairs.

The passes count what is frequent among very many things in bounded memory [Park, Chen & Yu 1995].
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from hierogram.daemon.terms.options import TermOptions
from hierogram.daemon.terms.phrases import (
    Flags,
    Hashes,
    Numbers,
    Pairs,
    Side,
    TermVocabulary,
    joint,
    may_be_terms,
    of_lengths,
    rendered,
    rows_of,
    sides_of,
)

_CELLS_BITS = 22
_ROWS = 1 << 20


class Sketch:
    """Counts of hashes in a table of fixed size, whose cells are shared: no count is too small."""

    def __init__(self, bits: int = _CELLS_BITS) -> None:
        self._shift = np.uint64(64 - bits)
        self._cells = np.zeros(1 << bits, np.uint32)

    def add(self, hashes: Hashes) -> None:
        """Counts each of them once."""
        np.add.at(self._cells, hashes >> self._shift, 1)

    def may_reach(self, hashes: Hashes, count: int) -> Flags:
        """Whether each may have been counted so often; False for none that has."""
        found: Flags = self._cells[hashes >> self._shift] >= count
        return found


class Tally:
    """Exact counts of hashes, each with `width` numbers that say what it is: those that came with it first."""

    def __init__(self, width: int, rows: int = _ROWS) -> None:
        self._width = width
        self._rows = rows
        self._waiting: list[tuple[Hashes, Numbers, Numbers]] = []
        self._number = 0

    def add(self, hashes: Hashes, counts: Numbers, what: Numbers) -> None:
        """Adds counts, int64[n] or int64[n, k]; `what` is int64[n, width]."""
        if not len(hashes):
            return
        self._waiting.append((hashes, counts.reshape(len(hashes), -1), what))
        self._number += len(hashes)
        if self._number > self._rows:
            kept = self._merge()
            # Twice as many, so that merging again costs no more than adding did.
            self._rows = max(self._rows, 2 * kept)

    def found(self) -> tuple[Hashes, Numbers, Numbers]:
        """Hashes, ascending; their counts, int64[n, k]; what they are."""
        self._merge()
        if not self._waiting:
            return np.zeros(0, np.uint64), np.zeros((0, 1), np.int64), np.zeros((0, self._width), np.int64)
        return self._waiting[0]

    def _merge(self) -> int:
        if not self._waiting:
            return 0
        columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
        hashes, first, number = np.unique(columns[0].astype(np.uint64), return_index=True, return_inverse=True)
        counts = np.zeros((len(hashes), columns[1].shape[1]), np.int64)
        np.add.at(counts, number, columns[1])
        self._waiting = [(hashes, counts, columns[2][first])]
        self._number = len(hashes)
        return self._number


def places_among(sorted_hashes: Hashes, hashes: Hashes) -> Numbers:
    """The place of each hash among sorted ones; -1 where it is none of them."""
    if not len(sorted_hashes):
        return np.full(len(hashes), -1)
    places = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return np.where(sorted_hashes[places] == hashes, places, -1)


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The words of both sides."""

    source: TermVocabulary
    target: TermVocabulary


@dataclass(frozen=True, slots=True)
class TermCandidates:
    """Terms with their usual renderings, [n] each.

    `sources`, `targets`: hashes; `source_words`, `target_words`: int64[n, longest], -1 after the last word. Numbers of
    pairs: `both` have the term with this rendering, `with_source` the term, `with_target` the rendering, however it
    came there.
    """

    sources: Hashes
    targets: Hashes
    source_words: Numbers
    target_words: Numbers
    both: Numbers
    with_source: Numbers
    with_target: Numbers

    def __len__(self) -> int:
        return len(self.sources)

    def at(self, rows: Numbers | Flags) -> "TermCandidates":
        """Some of them."""
        return TermCandidates(
            self.sources[rows],
            self.targets[rows],
            self.source_words[rows],
            self.target_words[rows],
            self.both[rows],
            self.with_source[rows],
            self.with_target[rows],
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """Phrase pairs that may be terms: the pair that each is in, both hashes, both sides' words."""

    pair: Numbers
    sources: Hashes
    targets: Hashes
    source_words: Numbers
    target_words: Numbers


def sketch_of(sketch: Sketch, pairs: Pairs, words: Vocabularies, options: TermOptions) -> None:
    """The first pass: counts the phrase pairs of some pairs in the sketch."""
    found = _found(pairs, words, options)
    sketch.add(_once(found.pair, joint(found.sources, found.targets)))


Passes = Callable[[], Iterable[Pairs]]
"""All pairs, anew each time that it is called."""


def count_candidates(parts: Passes, sketch: Sketch, words: Vocabularies, options: TermOptions) -> TermCandidates:
    """The second and the third pass: counts those that may be frequent, and how often their sides occur."""
    tally = Tally(2 + 2 * options.max_words)
    for pairs in parts():
        found = _found(pairs, words, options)
        hashes = joint(found.sources, found.targets)
        kept = np.flatnonzero(sketch.may_reach(hashes, options.min_count))
        kept = kept[_first_ones(found.pair[kept], hashes[kept])]
        sides = np.stack((found.sources[kept], found.targets[kept])).view(np.int64).T
        what = np.concatenate((sides, found.source_words[kept], found.target_words[kept]), axis=1)
        tally.add(hashes[kept], np.ones(len(kept), np.int64), what)
    hashes, counts, what = tally.found()
    frequent = counts[:, 0] >= options.min_count
    hashes, what = hashes[frequent], what[frequent]
    return _usual(hashes, what, _totals(parts, hashes, what, words, options), options)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Numbers of pairs: with phrase pairs, by their hashes' order; with sources and with targets, by theirs."""

    both: Numbers
    sources: Hashes
    with_source: Numbers
    targets: Hashes
    with_target: Numbers


def _found(pairs: Pairs, words: Vocabularies, options: TermOptions) -> _Found:
    longest = options.max_words
    source, target = sides_of(pairs, words.source, words.target, longest)
    linked = source.linked()
    parts = []
    for length in range(1, longest + 1):
        begins = source.phrases(length)
        begins = begins[linked[begins] & linked[begins + length - 1]]
        some = rendered(source, target, begins, length)
        fit = may_be_terms(target, some.others, some.lengths) & (np.maximum(some.lengths, length) >= options.min_words)
        begins, others, lengths = some.begins[fit], some.others[fit], some.lengths[fit]
        parts.append(
            (
                source.pair[begins],
                source.hashes[length - 1][begins],
                of_lengths(target.hashes, others, lengths),
                rows_of(words.source.folded[source.words], begins, np.full(len(begins), length), longest),
                rows_of(words.target.folded[target.words], others, lengths, longest),
            )
        )
    return _Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _first_ones(pair: Numbers, hashes: Hashes) -> Numbers:
    """Where each hash is met first in each pair."""
    order = np.lexsort((hashes, pair))
    new = np.ones(len(order), np.bool_)
    new[1:] = (pair[order][1:] != pair[order][:-1]) | (hashes[order][1:] != hashes[order][:-1])
    return np.sort(order[new])


def _once(pair: Numbers, hashes: Hashes) -> Hashes:
    return hashes[_first_ones(pair, hashes)]


def _totals(parts: Passes, hashes: Hashes, what: Numbers, words: Vocabularies, options: TermOptions) -> _Totals:
    sides = [np.unique(np.ascontiguousarray(what[:, k]).view(np.uint64)) for k in (0, 1)]
    both, with_source, with_target = (np.zeros(len(some), np.int64) for some in (hashes, *sides))
    for pairs in parts() if len(hashes) else ():
        source, target = sides_of(pairs, words.source, words.target, options.max_words)
        _count_pairs(with_source, _met(source, sides[0]), len(pairs.ids))
        _count_pairs(with_target, _met(target, sides[1]), len(pairs.ids))
        _count_pairs(both, _met_pairs(source, target, hashes, sides[0]), len(pairs.ids))
    return _Totals(both, sides[0], with_source, sides[1], with_target)


Met = Iterator[tuple[Numbers, Numbers]]
"""Places of what is counted, and the pairs that it was met in."""


def _met(side: Side, wanted: Hashes) -> Met:
    for length in range(1, len(side.hashes) + 1):
        begins = side.phrases(length)
        places = places_among(wanted, side.hashes[length - 1][begins])
        yield places[places >= 0], side.pair[begins[places >= 0]]


def _met_pairs(source: Side, target: Side, wanted: Hashes, sources: Hashes) -> Met:
    for length in range(1, len(source.hashes) + 1):
        begins = source.phrases(length)
        begins = begins[places_among(sources, source.hashes[length - 1][begins]) >= 0]
        some = rendered(source, target, begins, length)
        targets = of_lengths(target.hashes, some.others, some.lengths)
        places = places_among(wanted, joint(source.hashes[length - 1][some.begins], targets))
        yield places[places >= 0], source.pair[some.begins[places >= 0]]


def _count_pairs(counts: Numbers, met: Met, pairs: int) -> None:
    """Adds 1 for each pair in which something was met, however often."""
    columns = [np.concatenate(column) for column in zip(*met, strict=True)]
    np.add.at(counts, np.unique(columns[0] * max(pairs, 1) + columns[1]) // max(pairs, 1), 1)


def _usual(hashes: Hashes, what: Numbers, totals: _Totals, options: TermOptions) -> TermCandidates:
    """Of each source the phrase pair that most pairs have; of two the one with the rarer target, then by its words."""
    sources, targets = (np.ascontiguousarray(what[:, k]).view(np.uint64) for k in (0, 1))
    of_source, of_target = places_among(totals.sources, sources), places_among(totals.targets, targets)
    with_target = totals.with_target[of_target]
    words = what[:, 2:]
    order = np.lexsort((*words.T[::-1], with_target, -totals.both, of_source))
    best = np.ones(len(order), np.bool_)
    best[1:] = of_source[order][1:] != of_source[order][:-1]
    chosen = order[best]
    longest = options.max_words
    return TermCandidates(
        sources[chosen],
        targets[chosen],
        words[chosen][:, :longest],
        words[chosen][:, longest:],
        totals.both[chosen],
        totals.with_source[of_source[chosen]],
        with_target[chosen],
    )
