"""Pairs and their phrases as arrays of numbers: words by number, links, and what links make of a phrase.

Pairs are read from the store once, some thousand at a time, and kept in a file for later passes. A phrase's rendering
is the phrase of the other side that its words' links lead to, and back [Koehn, Och & Marcu 2003].
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.storage.exports.snapshot import Block

Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_COMMON = 0.002
"""Share of a side's words above which a word is common."""
_FEW = 50
"""A word that occurs no more often than this is not common, however small the corpus."""
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))


def mixed(values: Hashes) -> Hashes:
    """Return values whose bits all depend on all bits of those given (the last steps of SplitMix64)."""
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])


@dataclass(frozen=True, slots=True)
class TermVocabulary:
    """The words of a side, by number.

    `folded` has for each word the number of the first one that differs in case alone. `values` are random numbers that
    words have their share of a phrase's hash by, equal for words that differ in case alone. `ends`: a term may begin
    and end with the word; `inside`: the word may stand in one. `counts`: how often the word occurs, in any case.
    """

    tokens: list[str]
    numbers: dict[str, int]
    folded: Numbers
    values: Hashes
    ends: Flags
    inside: Flags
    counts: Numbers

    def text(self, words: Numbers) -> str:
        """Return the words with these numbers; negative numbers are left out."""
        return " ".join(self.tokens[word] for word in words.tolist() if word >= 0)


Vocabularies = tuple[TermVocabulary, TermVocabulary]
"""Of source and target."""


def make_vocabulary(counted: Sequence[tuple[str, int]]) -> TermVocabulary:
    """Return the words of a side with their counts; a word with more than the share `_COMMON` of all ends no term.

    Words without a letter or digit stand in no term, and one without a letter ends none.
    """
    tokens = [token for token, _ in counted]
    first: dict[str, int] = {}
    folded = np.fromiter((first.setdefault(token.lower(), k) for k, token in enumerate(tokens)), np.int64, len(tokens))
    counts = np.zeros(len(tokens), np.int64)
    np.add.at(counts, folded, [count for _, count in counted])
    rare = counts <= max(_COMMON * counts.sum(), _FEW)
    letters = np.fromiter((any(map(str.isalpha, token)) for token in tokens), np.bool_, len(tokens))
    inside = np.fromiter((any(map(str.isalnum, token)) for token in tokens), np.bool_, len(tokens))
    numbers = {token: k for k, token in enumerate(tokens)}
    values = mixed((folded.astype(np.uint64) + np.uint64(1)) * _STEP)
    return TermVocabulary(tokens, numbers, folded, values, rare[folded] & letters, inside, counts[folded])


class Pairs(NamedTuple):
    """Some pairs. Words are numbers of their side's vocabulary, one pair's after the other's.

    `ids`, `corpora`, `days` int64[n]; `source_ends`, `target_ends` int64[n], where each pair's words end; `source`,
    `target` int64[words]; `source_links`, `target_links` int64[links], the places of linked words among these.
    """

    ids: Numbers
    corpora: Numbers
    days: Numbers
    source: Numbers
    target: Numbers
    source_ends: Numbers
    target_ends: Numbers
    source_links: Numbers
    target_links: Numbers

    def texts(self, pair: int, words: Vocabularies) -> tuple[str, str]:
        """Return the source and the target of a pair."""
        source, target = (
            known.text(side[ends[pair - 1] if pair else 0 : ends[pair]])
            for side, ends, known in zip(
                (self.source, self.target), (self.source_ends, self.target_ends), words, strict=True
            )
        )
        return source, target


def pairs_of(block: Block, words: Vocabularies) -> Pairs:
    """Return the pairs of a block of `TERM_COLUMNS`."""
    _, (ids, corpora, days, sources, targets, alignments) = block
    source_words, source_ends = _words(sources, words[0])
    target_words, target_ends = _words(targets, words[1])
    links = _numbers(alignments.replace("-", " "))
    per_pair = np.array([line.count("-") for line in alignments.split("\n")], np.int64)
    return Pairs(
        _numbers(ids),
        _numbers(corpora),
        _numbers(days),
        source_words,
        target_words,
        source_ends,
        target_ends,
        links[::2] + np.repeat(np.append(0, source_ends[:-1]), per_pair),
        links[1::2] + np.repeat(np.append(0, target_ends[:-1]), per_pair),
    )


def _numbers(texts: str) -> Numbers:
    return np.array(texts.split(), np.int64)


def _words(texts: str, words: TermVocabulary) -> tuple[Numbers, Numbers]:
    lines = [line.split(" ") for line in texts.split("\n")]
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    return np.fromiter(map(words.numbers.__getitem__, chain.from_iterable(lines)), np.int64, int(ends[-1])), ends


class Spool:
    """Pairs in a file, to be read again and again."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._parts = 0
        self.pairs = 0

    def add(self, pairs: Pairs) -> None:
        """Put pairs at the end."""
        for column in pairs:
            np.save(self._file, column.astype(np.int32))
        self._parts += 1
        self.pairs += len(pairs.ids)

    def read(self, heard: Callable[[int], None] | None = None) -> Iterator[Pairs]:
        """Yield all pairs, in the order and in the parts in which they were added; `heard` hears how many so far."""
        self._file.seek(0)
        read = 0
        for _ in range(self._parts):
            columns: list[NDArray[np.int32]] = [np.load(self._file) for _ in Pairs._fields]
            part = Pairs(*(column.astype(np.int64) for column in columns))
            yield part
            read += len(part.ids)
            if heard:
                heard(read)


_BASE = np.uint64(0xD1342543DE82EF95)
_OF_PAIRS = np.uint64(0xDA942042E4DD58B5)
_FAR = 1 << 40


def grown(hashes: Hashes, values: Hashes) -> Hashes:
    """Return hashes of phrases with one word more each."""
    return hashes * _BASE + values


def joint(sources: Hashes, targets: Hashes) -> Hashes:
    """Return hashes of phrase pairs."""
    return mixed(sources * _OF_PAIRS + mixed(targets))


@dataclass(frozen=True, slots=True)
class Side:
    """One side of some pairs; what begins at a word, in arrays of one entry a word, is listed by length, from 1 on.

    `hashes` of the phrases without case; `allowed`: the phrase lies in one sentence and may be a term; `low`, `high`:
    first and last word of the other side that is linked to a word of the phrase (`high` below `low`: none). `pair` is
    the pair of each word.
    """

    words: Numbers
    pair: Numbers
    first: Flags
    hashes: list[Hashes]
    allowed: list[Flags]
    low: list[Numbers]
    high: list[Numbers]

    def phrases(self, length: int) -> Numbers:
        """Return the words at which phrases of a length begin that may be terms."""
        return np.flatnonzero(self.allowed[length - 1])


def sides_of(pairs: Pairs, words: Vocabularies, longest: int) -> tuple[Side, Side]:
    """Return both sides of the pairs, with phrases of up to `longest` words."""
    links = pairs.source_links, pairs.target_links
    return (
        _side(pairs.source, pairs.source_ends, words[0], links, longest),
        _side(pairs.target, pairs.target_ends, words[1], links[::-1], longest),
    )


def _side(words: Numbers, ends: Numbers, known: TermVocabulary, links: tuple[Numbers, Numbers], longest: int) -> Side:
    size = len(words)
    lengths = np.diff(ends, prepend=0)
    pair = np.repeat(np.arange(len(ends)), lengths)
    room = ends[pair] - np.arange(size)
    first = np.zeros(size, np.bool_)
    first[(ends - lengths)[lengths > 0]] = True
    values, end, barred = known.values[words], known.ends[words], np.cumsum(~known.inside[words])
    own, other = links
    low, high = np.full(size, _FAR), np.full(size, -1)
    np.minimum.at(low, own, other)
    np.maximum.at(high, own, other)
    side = Side(words, pair, first, [values], [end & known.inside[words]], [low], [high])
    for length in range(2, longest + 1):
        last = np.minimum(np.arange(size) + length - 1, size - 1)
        side.hashes.append(grown(side.hashes[-1], values[last]))
        side.allowed.append((room >= length) & end & end[last] & known.inside[words] & (barred[last] == barred))
        side.low.append(np.minimum(side.low[-1], low[last]))
        side.high.append(np.maximum(side.high[-1], high[last]))
    return side


def rendered(side: Side, other: Side, begins: Numbers, length: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the phrases whose linked words are linked to a phrase of the other side whose links lead to none outside.

    `begins` of phrases of `length` words: those that have such a rendering, and its begin and length.
    """
    low, high = side.low[length - 1][begins], side.high[length - 1][begins]
    lengths = high - low + 1
    short = (lengths >= 1) & (lengths <= len(other.low))
    begins, low, lengths = begins[short], low[short], lengths[short]
    back_low, back_high = of_lengths(other.low, low, lengths), of_lengths(other.high, low, lengths)
    closed = (back_low >= begins) & (back_high < begins + length)
    return begins[closed], low[closed], lengths[closed]


_Value = TypeVar("_Value", bound=np.generic)


def of_lengths(columns: list[NDArray[_Value]], begins: Numbers, lengths: Numbers) -> NDArray[_Value]:
    """Return the values of phrases of several lengths, from columns by length from 1 on; 0 for other lengths."""
    found = np.zeros(len(begins), columns[0].dtype)
    for number, column in enumerate(columns, 1):
        chosen = lengths == number
        found[chosen] = column[begins[chosen]]
    return found


def rows_of(words: Numbers, begins: Numbers, lengths: Numbers, longest: int) -> Numbers:
    """Return the words of phrases as rows, int64[n, longest]; -1 after the last."""
    places = begins[:, None] + np.arange(longest)
    inside = np.arange(longest) < lengths[:, None]
    return np.where(inside, words[np.minimum(places, max(len(words) - 1, 0))], -1)
