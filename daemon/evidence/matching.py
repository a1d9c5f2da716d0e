"""Where the source side of a rule matches a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hierogram.samplers.grammar.rules import escape_terminal, terminal_of

MOST_PLACES = 5
"""Places of a side in a sentence that are told."""

Span = tuple[int, int]
"""Words from the first to before the second, counted from 0."""


class Place(NamedTuple):
    """Where a side matches: the spans of its words, and those that its gaps stand for.

    A gap at an end reaches to the end of the sentence. Gaps next to each other share a span, which has a word for each.
    """

    words: tuple[Span, ...]
    gaps: tuple[Span, ...]

    @property
    def covered(self) -> list[int]:
        """The positions of its words."""
        return [position for first, last in self.words for position in range(first, last)]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A side as `chunks` of words, and how many gaps there are before each of them and after the last one."""

    chunks: tuple[tuple[str, ...], ...]
    gaps: tuple[int, ...]

    @property
    def length(self) -> int:
        """How many words it has."""
        return sum(map(len, self.chunks))

    @property
    def plain(self) -> bool:
        """Whether it has no gap."""
        return not any(self.gaps)


class Sentence:
    """A sentence whose words are found by their symbols in rules."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._symbols = {escape_terminal(word): word for word in words}
        self._places: dict[str, list[int]] = {}
        for position, word in enumerate(words):
            self._places.setdefault(word, []).append(position)

    def pattern(self, side: str) -> Pattern | None:
        """The side, where all its words are those of the sentence and it has any; None elsewhere."""
        chunks: list[tuple[str, ...]] = []
        gaps = [0]
        current: list[str] = []
        for symbol in side.split(" "):
            word = self._symbols.get(symbol)
            if word is not None:
                current.append(word)
                continue
            if terminal_of(symbol) is not None:
                return None
            if current:
                chunks.append(tuple(current))
                gaps.append(0)
                current = []
            gaps[-1] += 1
        if current:
            chunks.append(tuple(current))
            gaps.append(0)
        return Pattern(tuple(chunks), tuple(gaps)) if chunks else None

    def places(self, pattern: Pattern) -> list[Place]:
        """Where the pattern matches, its words as far left as they can be first."""
        starts = [self._starts(chunk) for chunk in pattern.chunks]
        found: list[Place] = []
        if not all(starts):
            return found
        for chosen in self._ways(pattern, starts, 0, 0):
            found.append(self._place(pattern, chosen))
            if len(found) == MOST_PLACES:
                break
        return found

    def _starts(self, chunk: tuple[str, ...]) -> list[int]:
        size = len(chunk)
        return [start for start in self._places.get(chunk[0], ()) if self.words[start : start + size] == chunk]

    def _ways(self, pattern: Pattern, starts: list[list[int]], number: int, after: int) -> Iterator[tuple[int, ...]]:
        if number == len(starts):
            if len(self.words) - after >= pattern.gaps[-1]:
                yield ()
            return
        for start in starts[number]:
            if start >= after + pattern.gaps[number]:
                for rest in self._ways(pattern, starts, number + 1, start + len(pattern.chunks[number])):
                    yield (start, *rest)

    def _place(self, pattern: Pattern, chosen: tuple[int, ...]) -> Place:
        words = [(start, start + len(chunk)) for start, chunk in zip(chosen, pattern.chunks, strict=True)]
        edges = [0, *(edge for span in words for edge in span), len(self.words)]
        gaps = [(edges[2 * n], edges[2 * n + 1]) for n, number in enumerate(pattern.gaps) if number]
        return Place(tuple(words), tuple(gaps))
