"""Candidates: phrases with the rendering that they have most often, counted in three passes over the pairs.

The passes count what is frequent among very many things in bounded memory [Park, Chen & Yu 1995].
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from hierogram.daemon.terms.options import TermOptions
from hierogram.daemon.terms.phrases import (
    Flags,
    Hashes,
    Numbers,
    Pairs,
    Side,
    Vocabularies,
    joint,
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
        """Count each of them once."""
        np.add.at(self._cells, hashes >> self._shift, 1)

    def may_reach(self, hashes: Hashes, count: int) -> Flags:
        """Return whether each may have been counted `count` times; False for none that has."""
        found: Flags = self._cells[hashes >> self._shift] >= count
        return found


class Tally:
    """Exact counts of hashes, each with `width` numbers that describe it: those that came with it first."""

    def __init__(self, width: int, rows: int = _ROWS) -> None:
        self._width = width
        self._rows = rows
        self._waiting: list[tuple[Hashes, Numbers, Numbers]] = []
        self._number = 0

    def add(self, hashes: Hashes, counts: Numbers, what: Numbers) -> None:
        """Add counts, int64[n] or int64[n, k]; `what` is int64[n, width]."""
        if not len(hashes):
            return
        self._waiting.append((hashes, counts.reshape(len(hashes), -1), what))
        self._number += len(hashes)
        if self._number > self._rows:
            kept = self._merge()
            # Twice as many, so that merging again costs no more than adding did.
            self._rows = max(self._rows, 2 * kept)

    def found(self) -> tuple[Hashes, Numbers, Numbers]:
        """Return hashes, ascending; their counts, int64[n, k]; what they are."""
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
    """Return the place of each hash among sorted ones; -1 where it is none of them."""
    if not len(sorted_hashes):
        return np.full(len(hashes), -1)
    places = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return np.where(sorted_hashes[places] == hashes, places, -1)


class TermCandidates(NamedTuple):
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

    def at(self, rows: Numbers | Flags) -> "TermCandidates":
        """Return some of them."""
        return TermCandidates(*(column[rows] for column in self))


def sketch_of(sketch: Sketch, pairs: Pairs, words: Vocabularies, options: TermOptions) -> None:
    """Count the phrase pairs of some pairs in the sketch: the first pass."""
    pair, sources, targets, _, _ = _found(pairs, words, options)
    hashes = joint(sources, targets)
    sketch.add(hashes[_first_ones(pair, hashes)])


Passes = Callable[[], Iterable[Pairs]]
"""All pairs, from the first on each time that it is called."""


def count_candidates(parts: Passes, sketch: Sketch, words: Vocabularies, options: TermOptions) -> TermCandidates:
    """Count those that may be frequent, and how often their sides occur: the second and the third pass."""
    tally = Tally(2 + 2 * options.max_words)
    for pairs in parts():
        pair, sources, targets, source_words, target_words = _found(pairs, words, options)
        hashes = joint(sources, targets)
        kept = np.flatnonzero(sketch.may_reach(hashes, options.min_count))
        kept = kept[_first_ones(pair[kept], hashes[kept])]
        sides = np.stack((sources[kept], targets[kept])).view(np.int64).T
        what = np.concatenate((sides, source_words[kept], target_words[kept]), axis=1)
        tally.add(hashes[kept], np.ones(len(kept), np.int64), what)
    hashes, counts, what = tally.found()
    frequent = counts[:, 0] >= options.min_count
    return _usual(parts, hashes[frequent], what[frequent], words, options)


def _found(pairs: Pairs, words: Vocabularies, options: TermOptions) -> tuple[Numbers, Hashes, Hashes, Numbers, Numbers]:
    """Return phrase pairs that may be terms: the pair that each is in, both hashes, both sides' words."""
    longest = options.max_words
    source, target = sides_of(pairs, words, longest)
    linked = source.high[0] >= source.low[0]
    parts = []
    for length in range(1, longest + 1):
        begins = source.phrases(length)
        begins = begins[linked[begins] & linked[begins + length - 1]]
        begins, others, lengths = rendered(source, target, begins, length)
        fit = of_lengths(target.allowed, others, lengths) & (np.maximum(lengths, length) >= options.min_words)
        begins, others, lengths = begins[fit], others[fit], lengths[fit]
        parts.append(
            (
                source.pair[begins],
                source.hashes[length - 1][begins],
                of_lengths(target.hashes, others, lengths),
                rows_of(words[0].folded[source.words], begins, np.full(len(begins), length), longest),
                rows_of(words[1].folded[target.words], others, lengths, longest),
            )
        )
    pair, sources, targets, source_words, target_words = zip(*parts, strict=True)
    return (
        np.concatenate(pair),
        np.concatenate(sources),
        np.concatenate(targets),
        np.concatenate(source_words),
        np.concatenate(target_words),
    )


def _first_ones(pair: Numbers, hashes: Hashes) -> Numbers:
    """Return where each hash is met first in each pair."""
    order = np.lexsort((hashes, pair))
    new = np.ones(len(order), np.bool_)
    new[1:] = (pair[order][1:] != pair[order][:-1]) | (hashes[order][1:] != hashes[order][:-1])
    return np.sort(order[new])


def _usual(parts: Passes, hashes: Hashes, what: Numbers, words: Vocabularies, options: TermOptions) -> TermCandidates:
    """Return of each source the phrase pair that most pairs have; of two the one with the rarer target, then by words.

    Numbers of pairs are counted for it: of phrase pairs, by their hashes, and of their sources and targets.
    """
    longest = options.max_words
    sources, targets = (np.ascontiguousarray(what[:, k]).view(np.uint64) for k in (0, 1))
    wanted = np.unique(sources), np.unique(targets)
    both, with_source, with_target = (np.zeros(len(some), np.int64) for some in (hashes, *wanted))
    for pairs in parts() if len(hashes) else ():
        sides = sides_of(pairs, words, longest)
        _count_pairs(with_source, _met(sides[0], wanted[0]), len(pairs.ids))
        _count_pairs(with_target, _met(sides[1], wanted[1]), len(pairs.ids))
        _count_pairs(both, _met_pairs(*sides, hashes, wanted[0]), len(pairs.ids))
    of_source = places_among(wanted[0], sources)
    of_target = with_target[places_among(wanted[1], targets)]
    texts = what[:, 2:]
    order = np.lexsort((*texts.T[::-1], of_target, -both, of_source))
    best = np.ones(len(order), np.bool_)
    best[1:] = of_source[order][1:] != of_source[order][:-1]
    chosen = order[best]
    return TermCandidates(
        sources[chosen],
        targets[chosen],
        texts[chosen][:, :longest],
        texts[chosen][:, longest:],
        both[chosen],
        with_source[of_source[chosen]],
        of_target[chosen],
    )


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
        begins, others, lengths = rendered(source, target, begins, length)
        targets = of_lengths(target.hashes, others, lengths)
        places = places_among(wanted, joint(source.hashes[length - 1][begins], targets))
        yield places[places >= 0], source.pair[begins[places >= 0]]


def _count_pairs(counts: Numbers, met: Met, pairs: int) -> None:
    """Add 1 for each pair in which something was met, however often."""
    columns = [np.concatenate(column) for column in zip(*met, strict=True)]
    np.add.at(counts, np.unique(columns[0] * max(pairs, 1) + columns[1]) // max(pairs, 1), 1)
