"""Which source sides can match a sentence of a test set: their words in order, gaps where they have nonterminals."""

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence

from hierogram.daemon.exports.tables.notation import NONTERMINAL
from hierogram.samplers.grammar.rules import escape_terminal

_INDEXED = 3
"""Runs of words are found by their first three words, then compared."""

_IS_NONTERMINAL = re.compile(NONTERMINAL + r"\Z")

Run = tuple[str, ...]


class TestSet:
    """Sentences, indexed by their n-grams of at most three words."""

    __test__ = False

    def __init__(self, sentences: Iterable[str]) -> None:
        self.texts = [" ".join(sentence.split()) for sentence in sentences]
        self.sentences: list[list[str]] = [
            [escape_terminal(word) for word in sentence.split()] for sentence in self.texts
        ]
        places: dict[Run, list[tuple[int, int]]] = defaultdict(list)
        for number, words in enumerate(self.sentences):
            for start in range(len(words)):
                for size in range(1, min(_INDEXED, len(words) - start) + 1):
                    places[tuple(words[start : start + size])].append((number, start))
        self._places = dict(places)
        self._by_length: list[tuple[int, int]] = []
        for number, words in enumerate(self.sentences):
            insort(self._by_length, (len(words), number))

    def matches(self, side: str) -> list[int]:
        """Numbers of the sentences that a rule with the source side can match some span of, ascending."""
        runs, gaps = _runs(side)
        if not runs:
            first = bisect_left(self._by_length, (gaps[0], -1))
            return sorted(number for _, number in self._by_length[first:])
        places = []
        for run in runs:
            found = self._find(run)
            if not found:
                return []
            places.append(found)
        common = set(places[0]).intersection(*places[1:])
        return sorted(
            number
            for number in common
            if _fits([found[number] for found in places], runs, gaps, len(self.sentences[number]))
        )

    def _find(self, run: Run) -> dict[int, list[int]]:
        """Where the run of words begins, by sentence, ascending."""
        found: dict[int, list[int]] = {}
        for number, start in self._places.get(run[:_INDEXED], ()):
            if len(run) <= _INDEXED or tuple(self.sentences[number][start : start + len(run)]) == run:
                found.setdefault(number, []).append(start)
        return found


def _runs(side: str) -> tuple[list[Run], list[int]]:
    """The side's runs of words, and the numbers of nonterminals before, between and after them."""
    runs: list[Run] = []
    gaps = [0]
    words: list[str] = []
    for symbol in side.split(" ") if side else []:
        if not _IS_NONTERMINAL.match(symbol):
            words.append(symbol)
            continue
        if words:
            runs.append(tuple(words))
            words = []
            gaps.append(0)
        gaps[-1] += 1
    if words:
        runs.append(tuple(words))
        gaps.append(0)
    return runs, gaps


def _fits(starts: Sequence[Sequence[int]], runs: Sequence[Run], gaps: Sequence[int], length: int) -> bool:
    """Whether the runs fit one after the other, a word at least for each nonterminal; each as far left as it goes.

    Runs on the two sides of a gap are apart; the first has a gap before it where the side begins with a nonterminal.
    """
    end = 0
    for number, (run, found) in enumerate(zip(runs, starts, strict=True)):
        place = bisect_left(found, end + gaps[number])
        if place == len(found):
            return False
        end = found[place] + len(run)
    return end + gaps[-1] <= length
