"""The aligner's counts between store and sampler: words as texts there, as numbers here."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side
from hierogram.samplers.alignment.chain import MOST_FERTILITY
from hierogram.samplers.alignment.prior_counts import WIDEST_JUMP, Experience
from hierogram.storage.records import AlignerChange, AlignerCounts, WordCounts

SIDES = ("source", "target")
"""By direction, the side whose words others are linked to: forward, target words to source words."""
DIRECTIONS = ("forward", "backward")

BothTallies = tuple[Experience, Experience]
"""Forward and backward."""

_NO_WORD = ""


def experience_of(
    counts: AlignerCounts, source: Side, target: Side, vocabulary: tuple[int, int]
) -> tuple[Experience, Experience]:
    """The counts, in the numbers of the two sides' words, forward and backward; other words' are left out.

    `vocabulary` sizes of source and target side, of the store with the words at hand.
    """
    numbers = [_numbers(side) for side in (source, target)]
    pairs: tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]] = ([], [])
    for source_word, target_word, forward, backward in counts.lexicon:
        s, t = numbers[0].get(source_word), numbers[1].get(target_word)
        if s is None or t is None:
            continue
        if forward and target_word != _NO_WORD:
            pairs[0].append((s, t, forward))
        if backward and source_word != _NO_WORD:
            pairs[1].append((t, s, backward))
    found = []
    for k, (given, generated_words) in enumerate(((source, vocabulary[1]), (target, vocabulary[0]))):
        table = np.array(pairs[k], np.int64).reshape(-1, 3)
        size = len(given.vocabulary)
        words = np.zeros((size + 1, MOST_FERTILITY + 2), np.int64)
        for row in counts.words:
            number = numbers[k].get(row.word) if row.side == SIDES[k] else None
            if number is not None:
                words[number] = row[2:]
        jumps = np.zeros(2 * WIDEST_JUMP + 1, np.int64)
        for direction, width, count in counts.jumps:
            if direction == DIRECTIONS[k]:
                jumps[width + WIDEST_JUMP] = count
        found.append(
            Experience(
                table[:, 0].astype(np.int32),
                table[:, 1].astype(np.int32),
                table[:, 2].copy(),
                words[:, 0].copy(),
                words[:size, 1:].copy(),
                jumps,
                generated_words,
            )
        )
    return found[0], found[1]


def _numbers(side: Side) -> dict[str, int]:
    numbers = {word: number for number, word in enumerate(side.vocabulary)}
    numbers[_NO_WORD] = len(numbers)
    return numbers


def enter_counts(change: AlignerChange, tallies: BothTallies, source: Side, target: Side) -> None:
    """Write the counts of both directions' tallies into a change, for the store."""
    forward, backward = tallies
    words = (*source.vocabulary, _NO_WORD), (*target.vocabulary, _NO_WORD)
    lexicon: dict[tuple[str, str], list[int]] = {}
    for given, generated, count in _rows(forward):
        lexicon[words[0][given], words[1][generated]] = [count, 0]
    for given, generated, count in _rows(backward):
        lexicon.setdefault((words[0][generated], words[1][given]), [0, 0])[1] = count
    change.lexicon += [(s, t, counts[0], counts[1]) for (s, t), counts in lexicon.items()]
    for k, tally in enumerate((forward, backward)):
        change.words += _word_rows(SIDES[k], words[k], tally.links, tally.fertility)
        widths = np.flatnonzero(tally.jumps)
        change.jumps += [
            (DIRECTIONS[k], width - WIDEST_JUMP, count)
            for width, count in zip(widths.tolist(), tally.jumps[widths].tolist(), strict=True)
        ]


def _rows(tally: Experience) -> Iterable[tuple[int, int, int]]:
    return zip(tally.given.tolist(), tally.generated.tolist(), tally.counts.tolist(), strict=True)


def _word_rows(
    side: str, words: Sequence[str], links: NDArray[np.int64], fertility: NDArray[np.int64]
) -> list[WordCounts]:
    table = np.zeros((len(words), MOST_FERTILITY + 2), np.int64)
    table[:, 0] = links
    table[:-1, 1:] = fertility
    changed = np.flatnonzero(table.any(axis=1))
    return [WordCounts(side, words[n], *row) for n, row in zip(changed.tolist(), table[changed].tolist(), strict=True)]
