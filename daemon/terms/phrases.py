"""Phrases of pairs, and what their words' links make of them on the other side [Koehn, Och & Marcu 2003]."""

from dataclasses import dataclass

import numpy as np

from hierogram.daemon.terms.pairs import Pairs
from hierogram.daemon.terms.vocabulary import Flags, Hashes, Numbers, Vocabulary, mixed

_BASE = np.uint64(0xD1342543DE82EF95)
_OF_PAIRS = np.uint64(0xDA942042E4DD58B5)
_FAR = 1 << 40


def grown(hashes: Hashes, values: Hashes) -> Hashes:
    """Hashes of phrases with one word more each."""
    return hashes * _BASE + values


def joint(sources: Hashes, targets: Hashes) -> Hashes:
    """Hashes of phrase pairs."""
    return mixed(sources * _OF_PAIRS + mixed(targets))


@dataclass(frozen=True, slots=True)
class Side:
    """One side of some pairs; what begins at a word, in arrays of one entry a word, is listed by length, from 1 on.

    `hashes` of the phrases without case; `fits`: the phrase lies in one sentence; `allowed`: it may be a term; `low`,
    `high`: first and last word of the other side that is linked to a word of the phrase (`high` below `low`: none).
    `pair` is the pair of each word.
    """

    words: Numbers
    pair: Numbers
    first: Flags
    hashes: list[Hashes]
    fits: list[Flags]
    allowed: list[Flags]
    low: list[Numbers]
    high: list[Numbers]

    def linked(self) -> Flags:
        """Whether the words have links."""
        return self.high[0] >= self.low[0]

    def phrases(self, length: int) -> Numbers:
        """The words at which phrases of so many words begin that may be terms."""
        return np.flatnonzero(self.allowed[length - 1])


def sides_of(pairs: Pairs, source: Vocabulary, target: Vocabulary, longest: int) -> tuple[Side, Side]:
    """Both sides of the pairs, with phrases of up to so many words."""
    links = pairs.source_links, pairs.target_links
    return (
        _side(pairs.source, pairs.source_ends, source, links, longest),
        _side(pairs.target, pairs.target_ends, target, links[::-1], longest),
    )


def _side(words: Numbers, ends: Numbers, known: Vocabulary, links: tuple[Numbers, Numbers], longest: int) -> Side:
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
    side = Side(words, pair, first, [values], [room > 0], [end & known.inside[words]], [low], [high])
    for length in range(2, longest + 1):
        last = np.minimum(np.arange(size) + length - 1, size - 1)
        fits = room >= length
        side.fits.append(fits)
        side.hashes.append(grown(side.hashes[-1], values[last]))
        side.allowed.append(fits & end & end[last] & known.inside[words] & (barred[last] == barred))
        side.low.append(np.minimum(side.low[-1], low[last]))
        side.high.append(np.maximum(side.high[-1], high[last]))
    return side


@dataclass(frozen=True, slots=True)
class Rendered:
    """Phrases of one side, those that have a rendering: a phrase of the other side that the links lead to, and back.

    `begins` of the phrases, all of `length` words; `others` and `lengths` of their renderings.
    """

    begins: Numbers
    length: int
    others: Numbers
    lengths: Numbers


def rendered(side: Side, other: Side, begins: Numbers, length: int) -> Rendered:
    """Those of the phrases whose linked words are linked to a phrase whose links lead to no word outside."""
    low, high = side.low[length - 1][begins], side.high[length - 1][begins]
    lengths = high - low + 1
    short = (lengths >= 1) & (lengths <= len(other.low))
    begins, low, lengths = begins[short], low[short], lengths[short]
    back_low, back_high = (np.zeros(len(begins), np.int64) for _ in range(2))
    for number in range(1, len(other.low) + 1):
        of_length = lengths == number
        back_low[of_length] = other.low[number - 1][low[of_length]]
        back_high[of_length] = other.high[number - 1][low[of_length]]
    closed = (back_low >= begins) & (back_high < begins + length)
    return Rendered(begins[closed], length, low[closed], lengths[closed])


def of_lengths(columns: list[Hashes], begins: Numbers, lengths: Numbers) -> Hashes:
    """Hashes of phrases of several lengths."""
    found = np.zeros(len(begins), np.uint64)
    for number, column in enumerate(columns, 1):
        chosen = lengths == number
        found[chosen] = column[begins[chosen]]
    return found


def may_be_terms(side: Side, begins: Numbers, lengths: Numbers) -> Flags:
    """Whether phrases of several lengths may be terms."""
    found = np.zeros(len(begins), np.bool_)
    for number, column in enumerate(side.allowed, 1):
        chosen = lengths == number
        found[chosen] = column[begins[chosen]]
    return found


def rows_of(words: Numbers, begins: Numbers, lengths: Numbers, longest: int) -> Numbers:
    """The words of phrases as rows, int64[n, longest]; -1 after the last."""
    places = begins[:, None] + np.arange(longest)
    inside = np.arange(longest) < lengths[:, None]
    return np.where(inside, words[np.minimum(places, max(len(words) - 1, 0))], -1)
