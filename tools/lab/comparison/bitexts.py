"""Bitexts of word numbers, converted from stored pairs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.pairs import parse_alignments
from hierogram.samplers.counts.texts import spellings
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.rules import escape_terminal
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.pairs import PairRow

_PAIRS_PER_BITEXT = 1_000


class Numbering(dict[str, int]):
    """Word numbers of one side, in the order of `words`. Looking up an unknown word adds it."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(zip(words, range(len(words)), strict=True))
        self.spellings = spellings(words)

    def __missing__(self, word: str) -> int:
        return self.setdefault(word, len(self))

    def number_words(self, texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the word numbers of n texts, and int64[n+1]: the start of each text, and the end."""
        split = [text.split(" ") if text else [] for text in texts]
        starts = np.cumsum([0, *map(len, split)], dtype=np.int64)
        return np.array([self[word] for word in chain.from_iterable(split)], np.int32), starts


class SymbolNumbering(Numbering):
    """Symbol numbers of source sides of rules: words have their word numbers, nonterminal k has -k."""

    def __init__(self, words: Numbering) -> None:
        super().__init__([escape_terminal(word) for word in words])

    def __missing__(self, symbol: str) -> int:
        return self.setdefault(symbol, -int(symbol.removeprefix("[X,").removesuffix("]")))


def to_bitext(rows: Sequence[PairRow], source: Numbering, target: Numbering) -> Bitext:
    """Return the bitext of stored pairs with alignments. Adds unknown words to the numberings."""
    link_source, link_target, link_offset = parse_alignments([row.alignment for row in rows])
    return Bitext(
        *source.number_words(row.source for row in rows),
        *target.number_words(row.target for row in rows),
        link_source,
        link_target,
        link_offset,
    )


class Bitexts:
    """Bitexts of all pairs of a snapshot that have derivations. Counts words during iteration."""

    def __init__(self, snapshot: Snapshot, source: Numbering, target: Numbering) -> None:
        self._snapshot = snapshot
        self._source = source
        self._target = target
        self.source_words = self.target_words = 0

    def __iter__(self) -> Iterator[Bitext]:
        for rows in self._snapshot.iterate_derivations(_PAIRS_PER_BITEXT):
            bitext = to_bitext(rows, self._source, self._target)
            self.source_words += len(bitext.source)
            self.target_words += len(bitext.target)
            yield bitext
