"""Stored links of pairs, and conversion of the aligner's counts between store and sampler.

Words are strings in the store and numbers in the sampler. Words and stems have separate counts, so the aligner has two
*units*. The name of a stem is its letters and a space, which cannot occur in a word.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import ALIGNMENT, LINKS, UNREADABLE, Damage, DamagedPairsError
from hierogram.daemon.learning.kinds.pairs import parse_alignments
from hierogram.samplers.alignment.bitext import Direction, Side, make_direction, read_side, stem_side
from hierogram.samplers.alignment.chain import MAX_FERTILITY, first_width, jump_events
from hierogram.samplers.alignment.prior_counts import (
    MAX_EVENT,
    PriorCounts,
    PriorsByUnit,
    count_direction_links,
    split_directions,
)
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.counts.chain import CountsError
from hierogram.storage.records.aligner import AlignerChange, AlignerCounts, FertilityCounts, LinkRow
from hierogram.storage.records.columns import SIDES
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.store import Store

DIRECTIONS = ("forward", "backward")
"""Forward links condition target words on source words, so their conditioning side is `SIDES[0]`."""

_WORD, _STEM = "", " "
"""Suffix of the name of a word, and suffix of the name of a stem."""

Units = Sequence[tuple[Side, Side]]
"""Sides of pairs by unit: (source side, target side) as words, then as stems."""
Names = tuple[list[str], list[str]]
"""Names of the source and target words (or stems) by number. The last is that of the null word."""


def words_and_stems(source: Side, target: Side) -> Units:
    """Return sides of words as units: the sides themselves, and the same sides as stems."""
    return (source, target), (stem_side(source), stem_side(target))


def unit_names(units: Units) -> list[Names]:
    """Return the names in the store of the words and of the stems."""
    names = []
    for sides, suffix in zip(units, (_WORD, _STEM), strict=True):
        source, target = ([word + suffix for word in (*side.vocabulary, "")] for side in sides)
        names.append((source, target))
    return names


_UNCOUNTED = (0,) * (MAX_FERTILITY + 2)


class NamedCounts:
    """Counts of the aligner, indexed by name. Raises `CountsError` if a count is implausible."""

    def __init__(self, counts: AlignerCounts) -> None:
        if not _is_plausible(counts):
            raise CountsError("the aligner's counts are damaged: run `hierogram repair`")
        self._linked: dict[str, list[tuple[str, int, int]]] = {}
        for source, target, forward, backward in counts.lexicon:
            self._linked.setdefault(source, []).append((target, forward, backward))
        self._words: tuple[dict[str, Sequence[int]], dict[str, Sequence[int]]] = ({}, {})
        for side, word, *word_counts in counts.words:
            self._words[side == SIDES[1]][word] = word_counts
        self._jumps = np.zeros((len(DIRECTIONS), 2 * MAX_EVENT + 1), np.int64)
        if counts.jumps:
            directions, widths, jumps = zip(*counts.jumps, strict=True)
            is_backward = np.array([direction == DIRECTIONS[1] for direction in directions])
            self._jumps[is_backward.astype(np.int64), jump_events(np.array(widths)) + MAX_EVENT] = jumps

    def select(self, names: Iterable[Names], vocabulary: tuple[int, int]) -> PriorsByUnit:
        """Return the counts of words and stems by number. `vocabulary` is the vocabulary size of each side."""
        return [self._select_unit(unit, vocabulary) for unit in names]

    def _select_unit(self, names: Names, vocabulary: tuple[int, int]) -> list[PriorCounts]:
        target_numbers = {name: number for number, name in enumerate(names[1])}
        rows = [
            (source, target_numbers[target], forward, backward)
            for source, name in enumerate(names[0])
            for target, forward, backward in self._linked.get(name, ())
            if target in target_numbers
        ]
        pairs = np.array(rows, np.int64).reshape(-1, 4).T
        directions = []
        for k in range(len(DIRECTIONS)):
            emitted, linked = pairs[1 - k], pairs[2 + k]
            # Exclude the null word, which is never emitted.
            nonzero = np.flatnonzero((linked != 0) & (emitted != len(names[1 - k]) - 1))
            words = np.array([self._words[k].get(name, _UNCOUNTED) for name in names[k]], np.int64)
            lexicon = pairs[k][nonzero].astype(np.int32), emitted[nonzero].astype(np.int32), linked[nonzero]
            fertilities = words[:, 0].copy(), words[:-1, 1:].copy()
            directions.append(PriorCounts(*lexicon, *fertilities, self._jumps[k], vocabulary[1 - k]))
        return directions


def _is_plausible(counts: AlignerCounts) -> bool:
    events = jump_events(np.array([width for _, width, _ in counts.jumps], np.int64)).tolist()
    return (
        all(forward >= 0 and backward >= 0 for _, _, forward, backward in counts.lexicon)
        and all(min(word_counts) >= 0 for _, _, *word_counts in counts.words)
        and all(
            # A jump event is stored under the smallest width in its bin. Any other width is damage.
            direction in DIRECTIONS and abs(event) <= MAX_EVENT and first_width(event) == width and count >= 0
            for event, (direction, width, count) in zip(events, counts.jumps, strict=True)
        )
    )


def load_counts(store: Store, units: Units) -> PriorsByUnit:
    """Return the store's current counts for the words and stems of pairs, which need not be stored."""
    names = unit_names(units)
    source, target = (
        max(size, len(side.vocabulary)) for size, side in zip(store.vocabulary_sizes(), units[0], strict=True)
    )
    return NamedCounts(store.aligner_counts(*names)).select(names, (source, target))


def add_link_counts(change: AlignerChange, learned: PriorsByUnit, units: Units) -> None:
    """Add the counts of `units`, which may be negative, to a change of the aligner's tables."""
    for both, words in zip(learned, unit_names(units), strict=True):
        lexicon: dict[tuple[str, str], list[int]] = {}
        for conditioning, emitted, count in _lexicon_rows(both[0]):
            lexicon[words[0][conditioning], words[1][emitted]] = [count, 0]
        for conditioning, emitted, count in _lexicon_rows(both[1]):
            lexicon.setdefault((words[0][emitted], words[1][conditioning]), [0, 0])[1] = count
        change.lexicon += [(s, t, counts[0], counts[1]) for (s, t), counts in lexicon.items()]
        for k, direction_counts in enumerate(both):
            table = np.zeros((len(words[k]), MAX_FERTILITY + 2), np.int64)
            table[:, 0] = direction_counts.link_counts
            table[:-1, 1:] = direction_counts.fertility
            changed = np.flatnonzero(table.any(axis=1))
            rows = zip(changed.tolist(), table[changed].tolist(), strict=True)
            change.words += [FertilityCounts(SIDES[k], words[k][n], *row) for n, row in rows]
    # Add the jumps of words only, because stems have the same links.
    for direction, direction_counts in zip(DIRECTIONS, learned[0], strict=True):
        events = np.flatnonzero(direction_counts.jumps)
        change.jumps += [
            (direction, first_width(event - MAX_EVENT), count)
            for event, count in zip(events.tolist(), direction_counts.jumps[events].tolist(), strict=True)
        ]


def _lexicon_rows(counts: PriorCounts) -> Iterable[tuple[int, int, int]]:
    return zip(counts.conditioning.tolist(), counts.emitted.tolist(), counts.counts.tolist(), strict=True)


_LINK_DTYPE = np.dtype("<i2")

LinksByDirection = tuple[NDArray[np.int16], NDArray[np.int16]]
"""Forward and backward links of pairs, concatenated.
Forward links are int16[target words]: position of the source word to which each target word is linked, or -1. Backward
links are int16[source words]: position of a target word, or -1.
"""


class LinkedTexts(NamedTuple):
    """Texts of pairs for counting links. `directions` are (forward, backward) of words, then stems."""

    source: Side
    target: Side
    directions: Sequence[tuple[Direction, Direction]]

    @classmethod
    def from_rows(cls, rows: Sequence[PairRow | LinkRow]) -> "LinkedTexts":
        """Read the texts of stored pairs."""
        return cls.from_sides(read_side(row.source for row in rows), read_side(row.target for row in rows))

    @classmethod
    def from_sides(cls, source: Side, target: Side) -> "LinkedTexts":
        """Build the directions between words and between stems from sides of words."""
        directions = [
            (make_direction(target_side, source_side), make_direction(source_side, target_side))
            for source_side, target_side in words_and_stems(source, target)
        ]
        return cls(source, target, directions)

    @property
    def units(self) -> Units:
        """Sides by unit."""
        return [(forward.conditioning, forward.emitted) for forward, _ in self.directions]

    def counts(self, links: LinksByDirection, weight: NDArray[np.int64] | None = None) -> PriorsByUnit:
        """Count the links of words and of stems, with a `weight` for each pair, also negative (default 1)."""
        weights = np.ones(len(self.source.offset) - 1, np.int64) if weight is None else weight

        def count(direction: Direction, direction_links: NDArray[np.int16]) -> PriorCounts:
            words = len(direction.conditioning.vocabulary)
            return count_direction_links(direction.bitext, direction_links, weights, words)

        return [list(map(count, both, links)) for both in self.directions]

    def parse_alignments(self, alignments: Sequence[str]) -> LinksByDirection:
        """Return links of Pharaoh lines, one per word and direction. Raises one of `UNREADABLE`."""
        return split_directions(LinkList(*parse_alignments(alignments)), self.source, self.target)

    def encode_links(self, links: LinksByDirection) -> list[tuple[bytes, bytes]]:
        """Return the forward and backward links of each pair in the store's format."""
        columns = []
        for direction, direction_links in zip(self.directions[0], links, strict=True):
            content = direction_links.astype(_LINK_DTYPE).tobytes()
            bounds = (2 * direction.bitext.emitted_offset).tolist()
            columns.append([content[start:stop] for start, stop in pairwise(bounds)])
        return list(zip(columns[0], columns[1], strict=True))


def decode_stored_links(rows: Sequence[LinkRow]) -> LinksByDirection:
    """Return the stored links of pairs. Raises `DamagedPairsError` if they do not fit the words."""
    sizes = np.array([(row.source.count(" ") + 1, row.target.count(" ") + 1) for row in rows], np.int64).reshape(-1, 2)
    is_damaged = np.zeros(len(rows), np.bool_)
    directions = []
    for blobs, emitted_sizes, conditioning_sizes in (
        ([row.forward or b"" for row in rows], sizes[:, 1], sizes[:, 0]),
        ([row.backward or b"" for row in rows], sizes[:, 0], sizes[:, 1]),
    ):
        lengths = _LINK_DTYPE.itemsize * emitted_sizes
        for k in np.flatnonzero(np.array(list(map(len, blobs)), np.int64) != lengths).tolist():
            is_damaged[k] = True
            # Replace the links by zeros of the right length, so that the links of later pairs can be checked.
            blobs[k] = bytes(int(lengths[k]))
        links = np.frombuffer(b"".join(blobs), _LINK_DTYPE).astype(np.int16)
        out_of_range = (links < -1) | (links >= np.repeat(conditioning_sizes, emitted_sizes))
        is_damaged[np.repeat(np.arange(len(rows)), emitted_sizes)[out_of_range]] = True
        directions.append(links)
    if is_damaged.any():
        reason = "its links do not fit its words"
        damaged = [Damage(rows[k].id, reason, LINKS) for k in np.flatnonzero(is_damaged).tolist()]
        raise DamagedPairsError(sorted(damaged))
    return directions[0], directions[1]


def check_alignments(rows: Sequence[LinkRow | PairRow]) -> None:
    """Raise `DamagedPairsError` if alignments are malformed or have positions after the last word."""
    if not _alignments_fit(rows):
        reason = "its alignment cannot be read or does not fit its words"
        raise DamagedPairsError([Damage(row.id, reason, ALIGNMENT) for row in rows if not _alignments_fit([row])])


def valid_alignments(rows: Sequence[LinkRow | PairRow]) -> list[str]:
    """Return the alignment of each pair, or "" if it is malformed or has positions after the last word."""
    if _alignments_fit(rows):
        return [row.alignment for row in rows]
    return [row.alignment if _alignments_fit([row]) else "" for row in rows]


def _alignments_fit(rows: Sequence[LinkRow | PairRow]) -> bool:
    try:
        source, target, offset = parse_alignments([row.alignment for row in rows])
    except UNREADABLE:
        return False
    links = np.diff(offset)
    last_source, last_target = (
        np.repeat(np.array([side.count(" ") for side in sides], np.int64), links)
        for sides in ([row.source for row in rows], [row.target for row in rows])
    )
    return bool((source <= last_source).all() and (target <= last_target).all())


def make_withdrawal(store: Store, ids: Sequence[int]) -> AlignerChange:
    """Return a change that removes links and their counts, to commit when the pairs are deleted."""
    rows = store.links_by_id(ids)
    change = count_links(rows, -1)
    change.withdrawn = [row.id for row in rows]
    return change


def count_links(rows: Sequence[LinkRow], weight: int = 1) -> AlignerChange:
    """Return a change that adds the counts of stored links, times `weight`. Raises `DamagedPairsError`."""
    texts, change = LinkedTexts.from_rows(rows), AlignerChange()
    add_link_counts(change, texts.counts(decode_stored_links(rows), np.full(len(rows), weight, np.int64)), texts.units)
    return change
