"""Notes on the words of an input: sides that seem to be swapped, and words outside NFC."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import log
from threading import Lock
from unicodedata import is_normalized

from hierogram.daemon.text.inspection import Note
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, find_grammar_kind
from hierogram.storage.records.pairs import NewPairs
from hierogram.storage.records.parts import join_parts
from hierogram.storage.store import Store

_MAX_NON_NFC_WORDS = 1_000
"""Number of words per side after which the search for words outside NFC ends."""
_MAX_COUNTED_PAIRS = 2_000
"""Maximum number of pairs read to detect swapped sides in a store of word parts."""
_PAIRS_PER_READ = 5_000
_WORD_ODDS = 3.0
"""Maximum absolute contribution of a word to the log-odds."""


class WordSideCounts:
    """Counts of the words of a store by side, for detecting the side to which a text belongs. Thread-safe.

    In a store of word parts, whole words are counted in the first `max_pairs` pairs, because parts would indicate the
    side that is split, regardless of the language.
    """

    def __init__(self, store: Store, max_pairs: int) -> None:
        self._store = store
        self._max_pairs = max_pairs
        self._lock = Lock()
        self._pairs_read = self._last_id = 0
        self._counts: dict[str, Counter[str]] = {SOURCE: Counter(), TARGET: Counter()}

    def source_log_odds(self, words: Iterable[str]) -> tuple[float, int]:
        """Return log-odds that words belong to the source side, and the number of distinct words found."""
        distinct_words = list(dict.fromkeys(words))
        counts: Mapping[str, Mapping[str, int]]
        has_parts = bool(self._store.settings().word_parts)
        counts = self._count_whole_words() if has_parts else self._store.word_counts(distinct_words)
        log_odds, found = 0.0, 0
        for word in distinct_words:
            source, target = counts[SOURCE].get(word, 0), counts[TARGET].get(word, 0)
            log_odds += max(-_WORD_ODDS, min(_WORD_ODDS, log((source + 0.5) / (target + 0.5))))
            found += source + target > 0
        return log_odds, found

    def _count_whole_words(self) -> dict[str, Counter[str]]:
        with self._lock:
            while self._pairs_read < self._max_pairs:
                limit = min(_PAIRS_PER_READ, self._max_pairs - self._pairs_read)
                pair_texts = self._store.pair_texts(self._last_id, limit)
                if not pair_texts:
                    break
                for side, texts in zip((SOURCE, TARGET), list(zip(*pair_texts, strict=True))[1:], strict=True):
                    self._counts[side].update(join_parts(" ".join(texts)).split(" "))
                self._pairs_read += len(pair_texts)
                self._last_id = pair_texts[-1][0]
            return self._counts


_SWAPPED_ODDS = 6.0
"""Minimum log-odds that a side belongs to the other side, for a note on swapped sides."""
_SWAPPED_ODDS_PER_WORD = 1.0
"""Minimum of these log-odds, divided by the number of words that the store contains."""
_MAX_SIDE_WORDS = 1_000
"""Maximum number of distinct words per side that are looked up in the store."""


def _are_swapped(words: WordSideCounts, sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Check if the words of both sides are more frequent on the opposite side of the store."""
    for texts, sign in ((sources, -1), (targets, 1)):
        distinct_words = dict.fromkeys(join_parts(" ".join(texts)).split(" "))
        log_odds, found = words.source_log_odds(islice(distinct_words, _MAX_SIDE_WORDS))
        if sign * log_odds < max(_SWAPPED_ODDS, _SWAPPED_ODDS_PER_WORD * found):
            return False
    return True


class VocabularyNotes:
    """Collector of notes on words. Only the first pairs are compared with the store, for speed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._swapped = False
        self._non_nfc: dict[str, dict[str, None]] | None = None
        """Words that are not in NFC, by side. None before the first pairs."""

    def inspect(self, pairs: NewPairs) -> None:
        """Inspect the next pairs of the input before they are stored."""
        texts = {SOURCE: pairs.sources, TARGET: pairs.targets}
        if self._non_nfc is None and len(pairs):
            # Skip the trees of a treebank, because they are not words.
            self._non_nfc = {side: {} for side in find_grammar_kind(self._store.settings().grammar).pair_words}
            if len(self._non_nfc) == len(texts):
                words = WordSideCounts(self._store, _MAX_COUNTED_PAIRS)
                self._swapped = _are_swapped(words, pairs.sources, pairs.targets)
        for side, odd in (self._non_nfc or {}).items():
            for text in texts[side]:
                if len(odd) < _MAX_NON_NFC_WORDS and not is_normalized("NFC", text):
                    odd |= {word: None for word in text.split(" ") if not is_normalized("NFC", word)}

    def collect(self) -> Iterator[Note]:
        """Yield the notes on the pairs inspected so far."""
        if self._swapped:
            reason = "the source words of the input are more frequent on the target side of the store"
            advice = "withdraw the input (hierogram withdraw --origin NAME) and ingest it with the sides exchanged"
            seen = f"the sides seem to be swapped: {reason}, and the target words on its source side"
            yield Note("swapped-sides", f"{seen}; {advice}")
        odd = [word for words in (self._non_nfc or {}).values() for word in words]
        if odd:
            text = f"{len(odd):,} {'word is' if len(odd) == 1 else 'words are'} not in Unicode form NFC"
            yield Note("not-nfc", f"{text}, such as {odd[0]!a}: convert the text (uconv -x nfc)")
