"""Tag placement: put tags around the target words that are linked to the tagged source words."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from hierogram.samplers.grammar.rules import Span
from hierogram.tools.translation.documents import TagPair

PlacedItem = int | str
"""Position of a target word, or a tag."""


def place_tags(
    pairs: Sequence[TagPair], text_spans: Sequence[Span], links: Sequence[tuple[int, int]], word_count: int
) -> Iterator[PlacedItem]:
    """Yield positions of target words with the paragraph's tags between them, nested as in the source."""
    linked: list[list[int]] = [[] for _ in text_spans]
    for i, j in links:
        linked[i].append(j)
    starts, ends = [start for start, _ in text_spans], [end for _, end in text_spans]

    def source_span(pair: TagPair) -> Span:
        first = bisect_right(ends, pair.start)
        return first, max(first, bisect_left(starts, pair.end))

    def inside(pairs: Sequence[TagPair], around: Span, within: Span) -> Iterator[PlacedItem]:
        """Yield the positions of `within`, the translation of the source span `around`, with tags between them."""
        sources = [source_span(pair) for pair in pairs]
        targets = _spans(sources, around, linked, within)
        position = within[0]
        for number in sorted(range(len(pairs)), key=lambda k: (*targets[k], k)):
            pair, (start, end) = pairs[number], targets[number]
            yield from range(position, start)
            yield pair.opening
            yield from inside(pair.inside, sources[number], (start, end))
            yield pair.closing
            position = end
        yield from range(position, within[1])

    return inside(pairs, (0, len(text_spans)), (0, word_count))


def _spans(sources: Sequence[Span], around: Span, linked: Sequence[Sequence[int]], within: Span) -> list[Span]:
    """Return disjoint target spans of source spans. A target word belongs to the span with the most links."""
    votes: dict[int, Counter[int]] = {}
    for number, (first, last) in enumerate(sources):
        if (first, last) == around and first < last:
            # A tag around all source words is placed around all target words. Other tags become empty, before or after.
            return [within if k == number else (within[k > number],) * 2 for k in range(len(sources))]
        for word in range(first, last):
            for target in linked[word]:
                if within[0] <= target < within[1]:
                    votes.setdefault(target, Counter())[number] += 1
    owner = {target: max(source_votes, key=lambda k: (source_votes[k], -k)) for target, source_votes in votes.items()}
    spans = [_longest(owner, number) for number in range(len(sources))]
    occupied = [span for span in spans if span]
    return [span or _empty_span(source, linked, within, occupied) for source, span in zip(sources, spans, strict=True)]


def _longest(owner: dict[int, int], number: int) -> Span | None:
    """Return the longest run of the target words of span `number`, uninterrupted by other spans."""
    best: list[int] = []
    run: list[int] = []
    for target in sorted(owner):
        run = [*run, target] if owner[target] == number else []
        if len(run) > len(best):
            best = run
    return (best[0], best[-1] + 1) if best else None


def _empty_span(source: Span, linked: Sequence[Sequence[int]], within: Span, occupied: Sequence[Span]) -> Span:
    # Prefer the position after the translation of the nearest linked word before the tag.
    before = (target + 1 for word in range(source[0] - 1, -1, -1) for target in sorted(linked[word], reverse=True))
    after = (target for word in range(source[1], len(linked)) for target in linked[word])
    position = next((place for place in chain(before, after) if within[0] <= place <= within[1]), within[0])
    for start, end in occupied:
        if start < position < end:
            position = end
    return position, position
