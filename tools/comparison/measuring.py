"""What is measured of a grammar while its rules pass: rules by scope, covered n-grams, compressed size."""

from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from hierogram.samplers.extraction.coverage import NGrams, coverage, mark_covered

_LEVEL = 9


@dataclass(frozen=True, slots=True)
class GrammarFigures:
    """A row of the table.

    `rules_by_scope` counts the rules of scope 0, 1, …, up to the bound of the comparison, `rules` all of them,
    `left_out` those beyond the bound; `ratio` is `rules` over those of the first grammar; `covered` the shares of the
    held-out source n-grams, n = 1, 2, …, that occur as neighbouring words of some source side (empty without held-out
    text); `bytes` the size of the lines `source ||| target ||| count`, sorted and compressed by zstd.
    """

    name: str
    rules_by_scope: list[int]
    rules: int
    left_out: int
    ratio: float
    covered: list[float]
    bytes: int


class Measure:
    """A grammar as far as it has passed; rules of a scope above `max_scope` are only counted."""

    def __init__(self, name: str, max_scope: int, ngrams: NGrams | None) -> None:
        self.name = name
        self.max_scope = max_scope
        self._ngrams = ngrams
        self._covered = np.zeros(len(ngrams.sizes) if ngrams else 0, np.bool_)
        self._by_scope = np.zeros(max_scope + 1, np.int64)
        self._left_out = 0
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._bytes = 0

    def count(self, scopes: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Count rules by scope; which of them belong to the grammar."""
        within: NDArray[np.bool_] = scopes <= self.max_scope
        self._by_scope += np.bincount(scopes[within], minlength=self.max_scope + 1)
        self._left_out += int(np.count_nonzero(~within))
        return within

    def cover(self, symbols: NDArray[np.int32], starts: NDArray[np.int64]) -> None:
        """See the source sides of rules of the grammar (each once is enough)."""
        if self._ngrams is not None:
            mark_covered(symbols, starts, self._ngrams, self._covered)

    def write(self, lines: bytes) -> None:
        """Take the lines of rules of the grammar."""
        self._bytes += len(self._compressor.compress(lines))

    def figures(self, of: int | None = None) -> GrammarFigures:
        """The row of the table, `of` being the rules of the first grammar (None: this is the first). Call it once."""
        rules = int(self._by_scope.sum())
        size = self._bytes + len(self._compressor.flush())
        covered = coverage(self._ngrams, self._covered) if self._ngrams else []
        whole = rules if of is None else of
        return GrammarFigures(
            self.name, self._by_scope.tolist(), rules, self._left_out, rules / max(whole, 1), covered, size
        )
