"""Divide words into parts that a text's own words have in common, and join them again.

Parts are learned by byte pair encoding [Sennrich, Haddow & Birch 2016]: beginning with letters, the two parts that most
often follow each other within words are joined, again and again. The joins, in their order, are all there is to a
division of words. So it is a setting of a store, a text, and new words are divided as old ones whatever comes later.

People read words: `InWords` makes them of what a store has.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.samplers.grammar.numbers import LONGEST_SIDE
from hierogram.samplers.grammar.rules import Side, Span, Symbol, parse_side, render_side
from hierogram.storage.records import MAX_BPE_MERGES, PART_MARK, Settings

if TYPE_CHECKING:
    from hierogram.daemon.text.validation import LineColumns

WITHIN = "-"
"""What people read before a part whose word began elsewhere."""
_GUARD = "￬"
"""Stands before a mark that a word has of its own."""
_ONCE = 2
"""Parts that follow each other less often than this stay apart."""

_SAMPLE = 20_000
"""Words of a side that are looked at, about, to see whether they are rich in forms."""
_RICH = 0.1
"""The share of these that are there only once, above which they are."""

Parts = tuple[str, ...]


class Segmenter:
    """Divides words into parts; may be used from several threads."""

    def __init__(self, joins: Sequence[tuple[str, str]]) -> None:
        """`joins` are pairs of parts, those that were joined first come first; without any, words stay whole."""
        self.joins = tuple(joins)
        self._ranks = {pair: rank for rank, pair in enumerate(self.joins)}
        self._known: dict[str, str] = {}

    def tokens(self, text: str) -> str:
        """Return a line of words as a line of their parts."""
        return " ".join([self._parts_of(word) for word in text.replace("\t", " ").split(" ") if word])

    def counts(self, text: str) -> list[int]:
        """Return the number of parts of each word of a line."""
        return [self._parts_of(word).count(" ") + 1 for word in text.replace("\t", " ").split(" ") if word]

    def _parts_of(self, word: str) -> str:
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = self._divided(word)
        return known

    def _divided(self, word: str) -> str:
        if PART_MARK in word:
            return word.replace(PART_MARK, _GUARD + PART_MARK)
        if not self.joins:
            return word
        parts = list(word)
        while len(parts) > 1:
            ranked = [(self._ranks[pair], k) for k, pair in enumerate(pairwise(parts)) if pair in self._ranks]
            if not ranked:
                break
            _, at = min(ranked)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return f" {PART_MARK}".join(parts)


def joined(tokens: str) -> str:
    """Return the words of a line of parts; what has no mark at its beginning is a word, or the first part of one.

    A mark at the beginning of the line joins nothing and is left out.
    """
    if PART_MARK not in tokens:
        return tokens
    return tokens.removeprefix(PART_MARK).replace(f" {PART_MARK}", "").replace(_GUARD + PART_MARK, PART_MARK)


def learn_joins(lines: Iterable[str], most: int) -> list[tuple[str, str]]:
    """Return at most `most` joins of parts, learned from lines of words.

    Words count as often as they are there. Of pairs that are equally frequent the first in the order of their letters
    is joined, so the same words give the same joins in whatever order they come.
    """
    counts = Counter(
        word for line in lines for word in line.replace("\t", " ").split(" ") if word and PART_MARK not in word
    )
    words = sorted(counts)
    parts = [list(word) for word in words]
    often = [counts[word] for word in words]
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    where: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, own in enumerate(parts):
        for pair in pairwise(own):
            pairs[pair] += often[number]
            where[pair].add(number)
    waiting = [(-count, pair) for pair, count in pairs.items() if count >= _ONCE]
    heapq.heapify(waiting)
    joins: list[tuple[str, str]] = []
    while waiting and len(joins) < most:
        count, pair = heapq.heappop(waiting)
        if -count != pairs[pair]:
            # Counts only matter as they are now: what has become rarer waits again, what is commoner is there already.
            if -count > pairs[pair] >= _ONCE:
                heapq.heappush(waiting, (-pairs[pair], pair))
            continue
        joins.append(pair)
        left, right = pair
        whole = left + right
        changed: set[tuple[str, str]] = set()
        for number in sorted(where.pop(pair)):
            own, times = parts[number], often[number]
            fresh, k = [], 0
            while k < len(own):
                if own[k] != left or tuple(own[k : k + 2]) != pair:
                    fresh.append(own[k])
                    k += 1
                    continue
                # Only the pairs on both sides of what is joined become others.
                neighbours = [((own[k - 1], left), (fresh[-1], whole))] if fresh else []
                after = own[k + 2 : k + 4]
                if after and tuple(after) != pair:
                    neighbours.append(((right, after[0]), (whole, after[0])))
                for old, new in neighbours:
                    pairs[old] -= times
                    pairs[new] += times
                    where[new].add(number)
                    changed.add(new)
                fresh.append(whole)
                k += 2
            parts[number] = fresh
        del pairs[pair]
        for each in changed:
            if pairs[each] >= _ONCE:
                heapq.heappush(waiting, (-pairs[each], each))
    return joins


def joins_as_text(joins: Iterable[tuple[str, str]]) -> str:
    """Return joins as a setting of a store: a join a line, its two parts with a space between them."""
    return "\n".join(f"{left} {right}" for left, right in joins)


def is_rich(lines: Sequence[str]) -> bool:
    """Return whether words have so many forms that they should be divided: of a sample many are there only once.

    The share of words that are there once is about that of words of new text that are not known [Good 1953]. It falls
    with the length of a text, so texts are compared by samples of the same length.
    """
    words = sum(line.count(" ") + 1 for line in lines)
    taken = lines[:: max(1, words // _SAMPLE)]
    counts = Counter(word for line in taken for word in line.split())
    return sum(count == 1 for count in counts.values()) > _RICH * counts.total()


def settings_in_parts(
    settings: Settings, sources: Sequence[str], targets: Sequence[str], most: tuple[int | None, int | None]
) -> Settings:
    """Return the settings of a store whose words are divided into parts that are learned from lines of its words.

    `most` are the joins of each side at most; with 0 its words stay whole, with None they do unless they are rich in
    forms.
    """
    joins = []
    for lines, own in zip((sources, targets), most, strict=True):
        number = own if own is not None else MAX_BPE_MERGES if is_rich(lines) else 0
        joins.append(joins_as_text(learn_joins(lines, number)))
    # Classes were those of whole words.
    return replace(settings, bpe_merges=tuple(joins), max_tokens=LONGEST_SIDE)


@cache
def segmenter_of(text: str) -> Segmenter:
    """Return what divides words by joins as `joins_as_text` writes them."""
    return Segmenter([(left, right) for left, _, right in (line.partition(" ") for line in text.split("\n") if line)])


def spread_links(fields: "LineColumns", places: Iterable[int], source: Segmenter, target: Segmenter) -> "LineColumns":
    """Return the lines, those at the places with their words in parts and with links between all parts of linked words.

    A line with links that cannot be read, or of words that are not there, stays as it is, for validation to name.
    """
    changed = replace(fields, sources=list(fields.sources), targets=list(fields.targets), known=dict(fields.known))
    alignments = list(fields.alignments)
    for k in places:
        try:
            texts = fields.sources[k].decode(), fields.targets[k].decode()
            own = [_spans(side.counts(text)) for side, text in zip((source, target), texts, strict=True)]
            line = alignments[k]
            if line is not None:
                links = [_link(link) for link in line.decode().split()]
                alignments[k] = " ".join(f"{i}-{j}" for i, j in _between_parts(links, *own)).encode()
            if k in fields.known:
                known = fields.known[k]
                changed.known[k] = KnownLinks(*(frozenset(_between_parts(links, *own)) for links in known))
        except (ValueError, IndexError):
            continue
        changed.sources[k], changed.targets[k] = source.tokens(texts[0]).encode(), target.tokens(texts[1]).encode()
    changed.alignments = alignments
    return changed


def _link(text: str) -> Link:
    source, _, target = text.partition("-")
    if not (source.isdecimal() and target.isdecimal()):
        raise ValueError(text)
    return int(source), int(target)


def _spans(counts: Sequence[int]) -> list[range]:
    ends = list(accumulate(counts))
    return [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


def _between_parts(links: Iterable[Link], source: Sequence[range], target: Sequence[range]) -> list[Link]:
    return [(i, j) for s, t in sorted(links) for i in source[s] for j in target[t]]


def words_of_parts(tokens: Sequence[str]) -> list[int]:
    """Return which word of a line each token belongs to, and how many words there are."""
    begun = [int(k > 0 and not token.startswith(PART_MARK)) for k, token in enumerate(tokens)]
    return [*accumulate(begun), sum(begun) + 1] if tokens else [0]


def words_of_span(places: Sequence[int], tokens: Span) -> Span:
    """Return the words that tokens belong to, half-open both; `places` are those of `words_of_parts`."""
    first, last = tokens
    return places[first], places[first] if first == last else places[last - 1] + 1


class PairInWords(NamedTuple):
    """A pair as people read it: words, links between them, and the word that each token of a side belongs to.

    The last of the places is the number of words.
    """

    source: str
    target: str
    alignment: str
    source_places: list[int]
    target_places: list[int]

    def known(self, links: KnownLinks) -> KnownLinks:
        """Return what people say of links of words, from links of tokens."""
        source, target = self.source_places, self.target_places
        return KnownLinks(*(frozenset((source[i], target[j]) for i, j in some) for some in links))

    def of_tokens(self, known: KnownLinks) -> KnownLinks:
        """Return links between all tokens of words, from links of words.

        Raises `ValueError` where a word is not there, or a link is both fixed and forbidden.
        """
        if problem := known.problem(self.source_places[-1], self.target_places[-1]):
            raise ValueError(problem)
        own = [_spans([places[:-1].count(word) for word in range(places[-1])]) for places in self[3:]]
        return KnownLinks(*(frozenset(_between_parts(some, *own)) for some in known))


@dataclass(frozen=True, slots=True)
class InWords:
    """Show people a store with these settings of `joins`: words, also where it has parts of them."""

    joins: tuple[str, ...]

    def parts(self, side: int, words: str) -> str:
        """Return words as the store has them on its source (0) or target (1) side."""
        return segmenter_of(self.joins[side]).tokens(words) if self.joins else words

    def symbols(self, side: Side) -> list[Symbol]:
        """Return the symbols of a rule's side, parts that follow each other joined."""
        if not self.joins:
            return list(side)
        found: list[Symbol] = []
        for symbol in side:
            if not isinstance(symbol, str):
                found.append(symbol)
            elif not symbol.startswith(PART_MARK):
                found.append(joined(symbol))
            elif found and isinstance(found[-1], str):
                found[-1] += joined(symbol)
            else:
                found.append(WITHIN + joined(symbol))
        return found

    def side(self, text: str) -> str:
        """Return a rule's side, in the notation of rules, with its parts joined; what is no side stays as it is."""
        if PART_MARK not in text or not self.joins:
            return text
        try:
            return render_side(tuple(self.symbols(parse_side(text))))
        except ValueError:
            return text

    def line(self, tokens: str) -> str:
        """Return the words of a stored line."""
        return joined(tokens) if self.joins else tokens

    def pair(self, source: str, target: str, alignment: str = "") -> PairInWords:
        """Return a stored pair in words; words are linked where any of their parts are."""
        sides = [text.split(" ") for text in (source, target)]
        if not self.joins:
            return PairInWords(source, target, alignment, *(list(range(len(side) + 1)) for side in sides))
        places, others = (words_of_parts(side) for side in sides)
        links = sorted({(places[i], others[j]) for i, j in map(_link, alignment.split())})
        line = " ".join(f"{i}-{j}" for i, j in links)
        return PairInWords(joined(source), joined(target), line, places, others)
