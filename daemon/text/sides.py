"""Detect which side of a store a text belongs to, from the frequency of its words on each side.

Words are not split into parts, because parts would indicate the side that is split, regardless of the language.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import log
from threading import Lock

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.records.parts import join_parts
from hierogram.storage.store import Store

_PAIRS_PER_READ = 5_000
_WORD_ODDS = 3.0
"""Maximum contribution of a word to the log-odds."""


class WordSideCounts:
    """Word counts by side. In a store of word parts, only the first `max_pairs` pairs are counted. Thread-safe."""

    def __init__(self, store: Store, max_pairs: int) -> None:
        self._store = store
        self._max_pairs = max_pairs
        self._lock = Lock()
        self._read = self._last = 0
        self._counts: dict[str, Counter[str]] = {SOURCE: Counter(), TARGET: Counter()}

    def odds(self, words: Iterable[str]) -> tuple[float, int]:
        """Return the log-odds that words belong to the source side, and the number of distinct known words."""
        distinct_words = list(dict.fromkeys(words))
        counts: Mapping[str, Mapping[str, int]]
        counts = self._read_pairs() if self._store.settings().word_parts else self._store.word_counts(distinct_words)
        log_odds, known = 0.0, 0
        for word in distinct_words:
            source, target = counts[SOURCE].get(word, 0), counts[TARGET].get(word, 0)
            log_odds += max(-_WORD_ODDS, min(_WORD_ODDS, log((source + 0.5) / (target + 0.5))))
            known += source + target > 0
        return log_odds, known

    def _read_pairs(self) -> dict[str, Counter[str]]:
        with self._lock:
            while self._read < self._max_pairs:
                pair_texts = self._store.pair_texts(self._last, min(_PAIRS_PER_READ, self._max_pairs - self._read))
                if not pair_texts:
                    break
                for side, texts in zip((SOURCE, TARGET), list(zip(*pair_texts, strict=True))[1:], strict=True):
                    self._counts[side].update(join_parts(" ".join(texts)).split(" "))
                self._read += len(pair_texts)
                self._last = pair_texts[-1][0]
            return self._counts


_SWAPPED_ODDS = 6.0
"""Minimum log-odds that a text belongs to the other side."""
_SWAPPED_ODDS_PER_WORD = 1.0
"""Minimum log-odds per known word."""
_MAX_WORDS = 1_000
"""Maximum number of distinct words per side that are looked up in the store."""


def are_swapped(words: WordSideCounts, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Check if the source words are on the store's target side, and the target words on its source side."""
    for texts, sign in ((sources, -1), (targets, 1)):
        log_odds, known = words.odds(islice(dict.fromkeys(join_parts(" ".join(texts)).split(" ")), _MAX_WORDS))
        if sign * log_odds < max(_SWAPPED_ODDS, _SWAPPED_ODDS_PER_WORD * known):
            return False
    return True
