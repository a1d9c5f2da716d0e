"""The links that a store keeps of its pairs, and the aligner's counts that follow from them.

Words are texts in the store and numbers in the sampler.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction, Side, make_direction, read_side
from hierogram.samplers.alignment.chain import MOST_FERTILITY
from hierogram.samplers.alignment.prior_counts import WIDEST_JUMP, PriorCounts, counts_of_links
from hierogram.storage.records import AlignerChange, AlignerCounts, LinkRow, PairRow, WordCounts
from hierogram.storage.store import Store

SIDES = ("source", "target")
"""By direction, the side whose words others are linked to: forward, target words to source words."""
DIRECTIONS = ("forward", "backward")

BothCounts = tuple[PriorCounts, PriorCounts]
"""Forward and backward."""

_NO_WORD = ""


def prior_counts_of(
    counts: AlignerCounts, source: Side, target: Side, vocabulary: tuple[int, int]
) -> tuple[PriorCounts, PriorCounts]:
    """Return the counts, in the numbers of the two sides' words, forward and backward; other words' are left out.

    `vocabulary` sizes of source and target side, of the store with the words at hand.
    """
    numbers = [{word: n for n, word in enumerate((*side.vocabulary, _NO_WORD))} for side in (source, target)]
    pairs: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    for source_word, target_word, forward, backward in counts.lexicon:
        s, t = numbers[0].get(source_word), numbers[1].get(target_word)
        if s is None or t is None:
            continue
        if forward and target_word != _NO_WORD:
            pairs[0].append((s, t, forward))
        if backward and source_word != _NO_WORD:
            pairs[1].append((t, s, backward))
    jumps = np.zeros((len(DIRECTIONS), 2 * WIDEST_JUMP + 1), np.int64)
    for direction, width, count in counts.jumps:
        jumps[DIRECTIONS.index(direction), width + WIDEST_JUMP] = count
    words = [np.zeros((len(side.vocabulary) + 1, MOST_FERTILITY + 2), np.int64) for side in (source, target)]
    for row in counts.words:
        k = SIDES.index(row.side)
        number = numbers[k].get(row.word)
        if number is not None:
            words[k][number] = row[2:]
    found = []
    for k, (conditioning, emitted_words) in enumerate(((source, vocabulary[1]), (target, vocabulary[0]))):
        table = np.array(pairs[k], np.int64).reshape(-1, 3)
        size = len(conditioning.vocabulary)
        found.append(
            PriorCounts(
                table[:, 0].astype(np.int32),
                table[:, 1].astype(np.int32),
                table[:, 2].copy(),
                words[k][:, 0].copy(),
                words[k][:size, 1:].copy(),
                jumps[k],
                emitted_words,
            )
        )
    return found[0], found[1]


def enter_counts(change: AlignerChange, both: BothCounts, source: Side, target: Side) -> None:
    """Write the counts of both directions into a change, for the store."""
    forward, backward = both
    words = (*source.vocabulary, _NO_WORD), (*target.vocabulary, _NO_WORD)
    lexicon: dict[tuple[str, str], list[int]] = {}
    for conditioning, emitted, count in _rows(forward):
        lexicon[words[0][conditioning], words[1][emitted]] = [count, 0]
    for conditioning, emitted, count in _rows(backward):
        lexicon.setdefault((words[0][emitted], words[1][conditioning]), [0, 0])[1] = count
    change.lexicon += [(s, t, counts[0], counts[1]) for (s, t), counts in lexicon.items()]
    for k, way in enumerate(both):
        table = np.zeros((len(words[k]), MOST_FERTILITY + 2), np.int64)
        table[:, 0] = way.links
        table[:-1, 1:] = way.fertility
        changed = np.flatnonzero(table.any(axis=1))
        rows = zip(changed.tolist(), table[changed].tolist(), strict=True)
        change.words += [WordCounts(SIDES[k], words[k][n], *row) for n, row in rows]
        widths = np.flatnonzero(way.jumps)
        change.jumps += [
            (DIRECTIONS[k], width - WIDEST_JUMP, count)
            for width, count in zip(widths.tolist(), way.jumps[widths].tolist(), strict=True)
        ]


def _rows(counts: PriorCounts) -> Iterable[tuple[int, int, int]]:
    return zip(counts.conditioning.tolist(), counts.emitted.tolist(), counts.counts.tolist(), strict=True)


_LINK = np.dtype("<i2")

Links = tuple[NDArray[np.int16], NDArray[np.int16]]
"""Forward and backward."""


class LinkedTexts(NamedTuple):
    """Both sides of some pairs, and both directions between them."""

    source: Side
    target: Side
    directions: tuple[Direction, Direction]

    @classmethod
    def of(cls, rows: Sequence[PairRow | LinkRow]) -> "LinkedTexts":
        """Read the sides of the pairs."""
        source, target = read_side(row.source for row in rows), read_side(row.target for row in rows)
        return cls(source, target, (make_direction(target, source), make_direction(source, target)))

    def counts(self, links: Links, weight: NDArray[np.int64]) -> BothCounts:
        """Return the counts that both directions' links cause, pairs weighted."""
        forward, backward = self.directions
        return (
            counts_of_links(forward.sides, links[0], weight, len(forward.conditioning.vocabulary)),
            counts_of_links(backward.sides, links[1], weight, len(backward.conditioning.vocabulary)),
        )

    def blobs(self, links: Links) -> list[tuple[bytes, bytes]]:
        """Return both directions' links of each pair, as the store keeps them."""
        columns = []
        for direction, of_direction in zip(self.directions, links, strict=True):
            whole, bounds = of_direction.astype(_LINK).tobytes(), (2 * direction.sides.emitted_offset).tolist()
            columns.append([whole[start:stop] for start, stop in pairwise(bounds)])
        return list(zip(columns[0], columns[1], strict=True))


def read_blobs(rows: Sequence[LinkRow]) -> Links:
    """Return both directions' links of pairs, one after the other."""
    forward = np.frombuffer(b"".join(row.forward or b"" for row in rows), _LINK)
    backward = np.frombuffer(b"".join(row.backward or b"" for row in rows), _LINK)
    return forward.astype(np.int16), backward.astype(np.int16)


def withdrawal_of(store: Store, ids: Sequence[int]) -> AlignerChange:
    """Return what leaves the aligner with the pairs: to be written in the transaction that deletes them."""
    rows = store.links_by_id(ids)
    change = AlignerChange(withdrawn=[row.id for row in rows])
    if rows:
        count_links(rows, change, -1)
    return change


def count_links(rows: Sequence[LinkRow], change: AlignerChange, weight: int = 1) -> None:
    """Count the stored links of the pairs into a change, each so many times; keys may come more than once."""
    texts = LinkedTexts.of(rows)
    counts = texts.counts(read_blobs(rows), np.full(len(rows), weight, np.int64))
    enter_counts(change, counts, texts.source, texts.target)
