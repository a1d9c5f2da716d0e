"""Word-aligned pairs and their phrases as integer arrays.

Pairs are read from the store once, in blocks of a few thousand, and spooled to a file for later passes. A phrase is
linked to its rendering, and neither has links to words outside the other [Koehn, Och & Marcu 2003].
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.storage.exports.snapshot import Block

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
HashArray = NDArray[np.uint64]

_COMMON_SHARE = 0.002
"""Share of a side's tokens above which a word counts as common."""
_NEVER_COMMON_COUNT = 50
"""A word with a count up to this limit is never common, even in a small corpus."""
HASH_STEP = np.uint64(0x9E3779B97F4A7C15)


def mix_bits(values: HashArray) -> HashArray:
    """Mix the bits of hashes: every output bit depends on every input bit (finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class TermVocabulary:
    """Vocabulary of one side, indexed by word id.

    `folded` maps each word to the first word that is equal except for case. `values` are random numbers for hashes of
    phrases, the same for words that differ only in case. `ends` is True if a term may start or end with the word,
    `inside` if a term may contain the word. `counts` are token counts, ignoring case.
    """

    tokens: list[str]
    numbers: dict[str, int]
    folded: IntArray
    values: HashArray
    ends: BoolArray
    inside: BoolArray
    counts: IntArray

    def text(self, words: IntArray) -> str:
        """Return the words with these ids, joined by spaces. Negative ids are skipped."""
        return " ".join(self.tokens[word] for word in words.tolist() if word >= 0)


Vocabularies = tuple[TermVocabulary, TermVocabulary]


def make_vocabulary(counted: Sequence[tuple[str, int]]) -> TermVocabulary:
    """Return the vocabulary of one side from its `(word, count)` pairs."""
    tokens = [token for token, _ in counted]
    first: dict[str, int] = {}
    folded = np.fromiter((first.setdefault(token.lower(), k) for k, token in enumerate(tokens)), np.int64, len(tokens))
    counts = np.zeros(len(tokens), np.int64)
    np.add.at(counts, folded, [count for _, count in counted])
    rare = counts <= max(_COMMON_SHARE * counts.sum(), _NEVER_COMMON_COUNT)
    letters = np.fromiter((any(map(str.isalpha, token)) for token in tokens), np.bool_, len(tokens))
    inside = np.fromiter((any(map(str.isalnum, token)) for token in tokens), np.bool_, len(tokens))
    numbers = {token: k for k, token in enumerate(tokens)}
    values = mix_bits((folded.astype(np.uint64) + np.uint64(1)) * HASH_STEP)
    return TermVocabulary(tokens, numbers, folded, values, rare[folded] & letters, inside, counts[folded])


class TermPairs(NamedTuple):
    """Block of word-aligned pairs, with the words of all pairs concatenated.

    `ids`, `corpora` and `days` (since 1970) are int64[n]. `source` and `target`, int64[words], are word ids.
    `source_ends` and `target_ends`, int64[n], are the end offsets of each pair. `source_links` and `target_links`,
    int64[links], are offsets of linked words.
    """

    ids: IntArray
    corpora: IntArray
    days: IntArray
    source: IntArray
    target: IntArray
    source_ends: IntArray
    target_ends: IntArray
    source_links: IntArray
    target_links: IntArray

    def texts(self, pair: int, words: Vocabularies) -> tuple[str, str]:
        """Return the source and target text of one pair."""
        columns = ((self.source, self.source_ends, words[0]), (self.target, self.target_ends, words[1]))
        source, target = (
            vocabulary.text(side[ends[pair - 1] if pair else 0 : ends[pair]]) for side, ends, vocabulary in columns
        )
        return source, target


def parse_block(block: Block, words: Vocabularies) -> TermPairs:
    """Parse a block of pairs with the columns `TERM_COLUMNS`."""
    _, (*numbers, sources, targets, alignments) = block
    ids, corpora, days, links = (
        np.array(texts.split(), np.int64) for texts in (*numbers, alignments.replace("-", " "))
    )
    source_words, source_ends = _parse_words(sources, words[0])
    target_words, target_ends = _parse_words(targets, words[1])
    per_pair = np.array([line.count("-") for line in alignments.split("\n")], np.int64)
    links[::2] += np.repeat(np.append(0, source_ends[:-1]), per_pair)
    links[1::2] += np.repeat(np.append(0, target_ends[:-1]), per_pair)
    return TermPairs(ids, corpora, days, source_words, target_words, source_ends, target_ends, links[::2], links[1::2])


def _parse_words(texts: str, words: TermVocabulary) -> tuple[IntArray, IntArray]:
    lines = [line.split(" ") for line in texts.split("\n")]
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    return np.fromiter(map(words.numbers.__getitem__, chain.from_iterable(lines)), np.int64, int(ends[-1])), ends


class PairSpool:
    """Temporary file of pairs that can be read several times."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._blocks = 0
        self.pairs = 0

    def add(self, pairs: TermPairs) -> None:
        """Append a block of pairs."""
        for column in pairs:
            np.save(self._file, column.astype(np.int32))
        self._blocks += 1
        self.pairs += len(pairs.ids)

    def read(self, report: Callable[[int], None]) -> Iterator[TermPairs]:
        """Yield the blocks in order. `report` is called with the number of pairs read."""
        self._file.seek(0)
        pairs_read = 0
        for _ in range(self._blocks):
            part = TermPairs(*(np.load(self._file).astype(np.int64) for _ in TermPairs._fields))
            yield part
            pairs_read += len(part.ids)
            report(pairs_read)


_NO_LINK = 1 << 40


def extend_hashes(hashes: HashArray, values: HashArray) -> HashArray:
    """Return the hashes of phrases extended by one word each."""
    return hashes * np.uint64(0xD1342543DE82EF95) + values


def pair_hashes(sources: HashArray, targets: HashArray) -> HashArray:
    """Return hashes of phrase pairs, given the hashes of both phrases."""
    return mix_bits(sources * np.uint64(0xDA942042E4DD58B5) + mix_bits(targets))


@dataclass(frozen=True, slots=True)
class SidePhrases:
    """All phrases of one side of a block, up to a maximum length.

    The phrase of `length` words from the word `begin` has the index `(length - 1) * len(words) + begin`. Words are
    numbered over all pairs of the block. `words` contains word ids, `pair` the index of each word's pair, and `first`
    is True for the first word of a pair. The other arrays are indexed by phrase: `hashes` ignore case. `allowed` is
    True if the phrase is within one pair and may be a term. `low` and `high` are the first and last word of the other
    side linked to the phrase (`high` < `low` without links).
    """

    words: IntArray
    pair: IntArray
    first: BoolArray
    hashes: HashArray
    allowed: BoolArray
    low: IntArray
    high: IntArray

    def begins(self, phrases: IntArray) -> IntArray:
        """Return the number of the first word of each phrase."""
        return phrases % len(self.words)

    def lengths(self, phrases: IntArray) -> IntArray:
        """Return the lengths of phrases in words."""
        return phrases // len(self.words) + 1

    def rows(self, words: IntArray, phrases: IntArray) -> IntArray:
        """Return the elements of `words` for each phrase as rows, int64[n, max_length], padded with -1."""
        offsets = np.arange(len(self.hashes) // len(words))
        positions = np.minimum(self.begins(phrases)[:, None] + offsets, len(words) - 1)
        return np.where(offsets < self.lengths(phrases)[:, None], words[positions], -1)


def make_sides(pairs: TermPairs, words: Vocabularies, max_length: int) -> tuple[SidePhrases, SidePhrases]:
    """Return the phrases of both sides, up to `max_length` words long."""
    source_links, target_links = pairs.source_links, pairs.target_links
    return (
        _make_side(pairs.source, pairs.source_ends, words[0], source_links, target_links, max_length),
        _make_side(pairs.target, pairs.target_ends, words[1], target_links, source_links, max_length),
    )


def _make_side(
    words: IntArray, ends: IntArray, vocabulary: TermVocabulary, own_links: IntArray, other_links: IntArray,
    max_length: int,
) -> SidePhrases:  # fmt: skip
    size = len(words)
    lengths = np.diff(ends, prepend=0)
    pair = np.repeat(np.arange(len(ends)), lengths)
    room = ends[pair] - np.arange(size)
    first = np.zeros(size, np.bool_)
    first[(ends - lengths)[lengths > 0]] = True
    values, inside = vocabulary.values[words], vocabulary.inside[words]
    end, excluded = vocabulary.ends[words], np.cumsum(~inside)
    low, high = np.full(size, _NO_LINK), np.full(size, -1)
    np.minimum.at(low, own_links, other_links)
    np.maximum.at(high, own_links, other_links)
    hashes, allowed, lows, highs = [values], [end & inside], [low], [high]
    for length in range(2, max_length + 1):
        last = np.minimum(np.arange(size) + length - 1, size - 1)
        hashes.append(extend_hashes(hashes[-1], values[last]))
        allowed.append((room >= length) & end & end[last] & inside & (excluded[last] == excluded))
        lows.append(np.minimum(lows[-1], low[last]))
        highs.append(np.maximum(highs[-1], high[last]))
    all_allowed, all_lows, all_highs = np.concatenate(allowed), np.concatenate(lows), np.concatenate(highs)
    return SidePhrases(words, pair, first, np.concatenate(hashes), all_allowed, all_lows, all_highs)


def linked_phrases(side: SidePhrases, other_side: SidePhrases, phrases: IntArray) -> tuple[IntArray, IntArray]:
    """Return the phrases that have a rendering, and the index of each rendering in `other_side`."""
    low, high = side.low[phrases], side.high[phrases]
    renderings = (high - low) * len(other_side.words) + low
    short = (low <= high) & (renderings < len(other_side.low))
    phrases, renderings = phrases[short], renderings[short]
    begins = side.begins(phrases)
    closed = other_side.low[renderings] >= begins
    closed &= other_side.high[renderings] < begins + side.lengths(phrases)
    return phrases[closed], renderings[closed]
