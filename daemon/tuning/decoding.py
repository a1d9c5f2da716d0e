"""A grammar and sentences as tuning sees them: from weights to candidates with features."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.decoding.grammars import TranslationGrammar
from hierogram.daemon.decoding.opening import Equipment
from hierogram.daemon.decoding.weights import WORDS
from hierogram.daemon.progress import Progress
from hierogram.daemon.tuning.tuning import Candidates


class GrammarDecoder:
    """Translates the same sentences with a grammar, round by round.

    `names` are the features in their order, `words` is the place among them of the number of target words.
    """

    def __init__(
        self,
        equipment: Equipment,
        grammar: TranslationGrammar,
        lines: Sequence[str],
        shown: Progress,
        *,
        best: int,
        rounds: int,
        threads: int = 0,
    ) -> None:
        """`best` candidates of each line, in so many `rounds` at most; threads: 0 is one for each core."""
        self.names = equipment.translator(grammar).names
        self.words = self.names.index(WORDS)
        self._equipment = equipment
        self._grammar = grammar
        self._lines = lines
        self._shown = shown
        self._best = best
        self._rounds = rounds
        self._threads = threads
        self._done = 0

    def start(self) -> NDArray[np.float64]:
        """The weights that the equipment has, float64[F]."""
        return np.array([float(self._equipment.weights.get(name, 0.0)) for name in self.names])

    def by_name(self, weights: NDArray[np.float64]) -> dict[str, float]:
        """Weights by the names of their features."""
        return dict(zip(self.names, weights.tolist(), strict=True))

    def __call__(self, weights: NDArray[np.float64]) -> list[Candidates]:
        """The candidates of each line, best first; none of a line without words."""
        translator = self._equipment.translator(self._grammar, self.by_name(weights))
        markup = self._equipment.options.markup
        found = []
        done = translator.translate_all(self._lines, self._best, markup=markup, distinct=True, threads=self._threads)
        for number, translation in enumerate(done, 1):
            rows = [[own.features.get(name, 0.0) for name in self.names] for own in translation.candidates]
            features = np.array(rows, np.float64).reshape(-1, len(self.names))
            found.append(Candidates([own.words for own in translation.candidates], features))
            part = self._done + number / len(self._lines)
            self._shown.update(part, self._rounds, self._done * len(self._lines) + number, f"round {self._done + 1}")
        self._done += 1
        return found


def split_references(references: Iterable[Sequence[str]], sentences: int) -> list[list[tuple[str, ...]]]:
    """The references of each sentence as words, from lists of lines; empty lines are left out."""
    split: list[list[tuple[str, ...]]] = [[] for _ in range(sentences)]
    for lines in references:
        for own, line in zip(split, lines, strict=True):
            if words := tuple(word for word in line.replace("\t", " ").split(" ") if word):
                own.append(words)
    return split
