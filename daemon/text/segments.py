"""Subword segmentation: split words into parts that the words of a text share, and join the parts again.

Parts are learned by byte pair encoding [Sennrich, Haddow & Birch 2016]: starting from letters, the two most frequent
adjacent parts within words are joined repeatedly. The ordered list of joins fully defines a segmentation. It is
therefore stored as a text setting of the store, and new words are always split like old ones.

Users read whole words: `WordView` converts stored parts to words.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.samplers.grammar.numbers import MAX_SIDE_LENGTH
from hierogram.samplers.grammar.rules import Side, Span, Symbol, parse_side, render_side
from hierogram.storage.records import MAX_BPE_MERGES, PART_MARK, Settings

if TYPE_CHECKING:
    from hierogram.daemon.text.validation import LineColumns

WITHIN = "-"
"""Displayed prefix of a part whose word begins elsewhere."""
_GUARD = "￬"
"""Escape before a mark that is part of the word itself."""
_ONCE = 2
"""Minimum frequency of adjacent parts that are joined."""

_SAMPLE = 20_000
"""Approximate number of words per side that are sampled to measure morphological richness."""
_MIN_RARE_SHARE = 0.1
"""Share of words that occur once in the sample, above which a side is morphologically rich."""
_RICHER = 1.5
"""Minimum ratio of the shares of source and target if the source is split into parts."""

Parts = tuple[str, ...]


class SubwordSegmenter:
    """Splits words into parts. Thread-safe."""

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        """Store `merges`, pairs of parts in the order in which they were joined. Without merges, words remain whole."""
        self.merges = tuple(merges)
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[str, str] = {}

    def tokens(self, text: str) -> str:
        """Split a line of words into a line of parts."""
        return " ".join([self._parts_of(word) for word in text.replace("\t", " ").split(" ") if word])

    def counts(self, text: str) -> list[int]:
        """Return the number of parts of each word of a line."""
        return [self._parts_of(word).count(" ") + 1 for word in text.replace("\t", " ").split(" ") if word]

    def _parts_of(self, word: str) -> str:
        cached = self._known.get(word)
        if cached is None:
            cached = self._known[word] = self._divided(word)
        return cached

    def _divided(self, word: str) -> str:
        if PART_MARK in word:
            return word.replace(PART_MARK, _GUARD + PART_MARK)
        if not self.merges:
            return word
        parts = list(word)
        while len(parts) > 1:
            ranked = [(self._ranks[pair], k) for k, pair in enumerate(pairwise(parts)) if pair in self._ranks]
            if not ranked:
                break
            _, position = min(ranked)
            parts[position : position + 2] = [parts[position] + parts[position + 1]]
        return f" {PART_MARK}".join(parts)


def join_parts(tokens: str) -> str:
    """Join a line of parts into words. A part without a mark at its beginning begins a word.

    A mark at the beginning of the line joins nothing and is removed.
    """
    if PART_MARK not in tokens:
        return tokens
    return tokens.removeprefix(PART_MARK).replace(f" {PART_MARK}", "").replace(_GUARD + PART_MARK, PART_MARK)


def learn_merges(lines: Iterable[str], limit: int) -> list[tuple[str, str]]:
    """Learn up to `limit` joins of parts from lines of words.

    Words are weighted by frequency. Ties between equally frequent pairs are broken alphabetically, so the same words
    give the same joins in any order.
    """
    counts = Counter(
        word for line in lines for word in line.replace("\t", " ").split(" ") if word and PART_MARK not in word
    )
    words = sorted(counts)
    parts = [list(word) for word in words]
    often = [counts[word] for word in words]
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    where: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, word_parts in enumerate(parts):
        for pair in pairwise(word_parts):
            pairs[pair] += often[number]
            where[pair].add(number)
    waiting = [(-count, pair) for pair, count in pairs.items() if count >= _ONCE]
    heapq.heapify(waiting)
    merges: list[tuple[str, str]] = []
    while waiting and len(merges) < limit:
        count, pair = heapq.heappop(waiting)
        if -count != pairs[pair]:
            # Only current counts matter: a pair that became rarer is queued again, a more frequent pair is already
            # queued.
            if -count > pairs[pair] >= _ONCE:
                heapq.heappush(waiting, (-pairs[pair], pair))
            continue
        merges.append(pair)
        left, right = pair
        merged = left + right
        changed: set[tuple[str, str]] = set()
        for number in sorted(where.pop(pair)):
            word_parts, times = parts[number], often[number]
            fresh, k = [], 0
            while k < len(word_parts):
                if word_parts[k] != left or tuple(word_parts[k : k + 2]) != pair:
                    fresh.append(word_parts[k])
                    k += 1
                    continue
                # Only the pairs adjacent to the joined pair change.
                neighbours = [((word_parts[k - 1], left), (fresh[-1], merged))] if fresh else []
                after = word_parts[k + 2 : k + 4]
                if after and tuple(after) != pair:
                    neighbours.append(((right, after[0]), (merged, after[0])))
                for old, new in neighbours:
                    pairs[old] -= times
                    pairs[new] += times
                    where[new].add(number)
                    changed.add(new)
                fresh.append(merged)
                k += 2
            parts[number] = fresh
        del pairs[pair]
        for each in changed:
            if pairs[each] >= _ONCE:
                heapq.heappush(waiting, (-pairs[each], each))
    return merges


def format_merges(merges: Iterable[tuple[str, str]]) -> str:
    """Return joins as a store setting: one join per line, its two parts separated by a space."""
    return "\n".join(f"{left} {right}" for left, right in merges)


def measure_rare_share(lines: Sequence[str]) -> float:
    """Return the share of words of a sample that occur only once.

    The share of words that occur once estimates the share of unknown words in new text [Good 1953]. The share falls
    with the length of a text, so texts are compared by samples of the same length.
    """
    words = sum(line.count(" ") + 1 for line in lines)
    sample = lines[:: max(1, words // _SAMPLE)]
    counts = Counter(word for line in sample for word in line.split())
    return sum(count == 1 for count in counts.values()) / max(counts.total(), 1)


def subword_settings(
    settings: Settings, sources: Sequence[str], targets: Sequence[str], max_merges: tuple[int | None, int | None]
) -> Settings:
    """Return the settings of a store of subwords, whose parts are learned from the given lines.

    `max_merges` is the maximum number of joins of each side. 0 keeps the side's words whole. None keeps target words
    whole, and source words unless the source is morphologically rich, and richer than the target.
    """
    source, target = max_merges
    if source is None:
        share = measure_rare_share(sources)
        is_split = share > _MIN_RARE_SHARE and share > _RICHER * measure_rare_share(targets)
        source = MAX_BPE_MERGES if is_split else 0
    merges = [format_merges(learn_merges(*side)) for side in ((sources, source), (targets, target or 0))]
    # Word classes of whole words do not apply to parts.
    return replace(settings, bpe_merges=tuple(merges), max_tokens=MAX_SIDE_LENGTH)


@cache
def make_segmenter(text: str) -> SubwordSegmenter:
    """Return the segmenter for joins in the notation of `format_merges`."""
    return SubwordSegmenter(
        [(left, right) for left, _, right in (line.partition(" ") for line in text.split("\n") if line)]
    )


def spread_links(
    fields: "LineColumns", line_numbers: Iterable[int], source: SubwordSegmenter, target: SubwordSegmenter
) -> "LineColumns":
    """Split the words of the selected lines into parts, and link all parts of linked words.

    A line whose links are malformed or out of range is returned unchanged, and validation rejects it.
    """
    changed = replace(fields, sources=list(fields.sources), targets=list(fields.targets), known=dict(fields.known))
    alignments = list(fields.alignments)
    for k in line_numbers:
        try:
            texts = fields.sources[k].decode(), fields.targets[k].decode()
            token_spans = [_spans(side.counts(text)) for side, text in zip((source, target), texts, strict=True)]
            line = alignments[k]
            if line is not None:
                links = [_link(link) for link in line.decode().split()]
                alignments[k] = " ".join(f"{i}-{j}" for i, j in _between_parts(links, *token_spans)).encode()
            if k in fields.known:
                known_links = fields.known[k]
                changed.known[k] = KnownLinks(
                    *(frozenset(_between_parts(links, *token_spans)) for links in known_links)
                )
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


def index_words(tokens: Sequence[str]) -> list[int]:
    """Return the word index of each token of a line, followed by the number of words."""
    starts = [int(k > 0 and not token.startswith(PART_MARK)) for k, token in enumerate(tokens)]
    return [*accumulate(starts), sum(starts) + 1] if tokens else [0]


def find_word_span(word_indices: Sequence[int], tokens: Span) -> Span:
    """Return the word span of a token span, both half-open. `word_indices` is the result of `index_words`."""
    first, last = tokens
    return word_indices[first], word_indices[first] if first == last else word_indices[last - 1] + 1


class PairInWords(NamedTuple):
    """Sentence pair in whole words: words, links between words, and the word index of each token of a side.

    The last word index is the number of words.
    """

    source: str
    target: str
    alignment: str
    source_places: list[int]
    target_places: list[int]

    def known(self, links: KnownLinks) -> KnownLinks:
        """Convert fixed and forbidden links between tokens to links between words."""
        source, target = self.source_places, self.target_places
        return KnownLinks(*(frozenset((source[i], target[j]) for i, j in part_links) for part_links in links))

    def of_tokens(self, word_links: KnownLinks) -> KnownLinks:
        """Convert fixed and forbidden links between words to links between all tokens of the words.

        Raises `ValueError` if a word does not exist, or a link is both fixed and forbidden.
        """
        if problem := word_links.problem(self.source_places[-1], self.target_places[-1]):
            raise ValueError(problem)
        part_spans = [
            _spans([word_indices[:-1].count(word) for word in range(word_indices[-1])]) for word_indices in self[3:]
        ]
        return KnownLinks(*(frozenset(_between_parts(links, *part_spans)) for links in word_links))


@dataclass(frozen=True, slots=True)
class WordView:
    """Whole-word view of a store with these `merges` settings."""

    merges: tuple[str, ...]

    def parts(self, side: int, words: str) -> str:
        """Split words into the parts of the store's source (0) or target (1) side."""
        return make_segmenter(self.merges[side]).tokens(words) if self.merges else words

    def symbols(self, side: Side) -> list[Symbol]:
        """Return the symbols of a rule's side, with adjacent parts joined."""
        if not self.merges:
            return list(side)
        symbols: list[Symbol] = []
        for symbol in side:
            if not isinstance(symbol, str):
                symbols.append(symbol)
            elif not symbol.startswith(PART_MARK):
                symbols.append(join_parts(symbol))
            elif symbols and isinstance(symbols[-1], str):
                symbols[-1] += join_parts(symbol)
            else:
                symbols.append(WITHIN + join_parts(symbol))
        return symbols

    def side(self, text: str) -> str:
        """Return a rule's side in rule notation, with its parts joined. Malformed text is returned unchanged."""
        if PART_MARK not in text or not self.merges:
            return text
        try:
            return render_side(tuple(self.symbols(parse_side(text))))
        except ValueError:
            return text

    def line(self, tokens: str) -> str:
        """Return the words of a stored line."""
        return join_parts(tokens) if self.merges else tokens

    def pair(self, source: str, target: str, alignment: str = "") -> PairInWords:
        """Return a stored pair in whole words. Words are linked if any of their parts are linked."""
        sides = [text.split(" ") for text in (source, target)]
        if not self.merges:
            return PairInWords(source, target, alignment, *(list(range(len(side) + 1)) for side in sides))
        source_indices, target_indices = (index_words(side) for side in sides)
        links = sorted({(source_indices[i], target_indices[j]) for i, j in map(_link, alignment.split())})
        line = " ".join(f"{i}-{j}" for i, j in links)
        return PairInWords(join_parts(source), join_parts(target), line, source_indices, target_indices)
