"""Tuning runs: decode sentences with a grammar, and write the tuned weights as a TOML file.

The file is an input of `translate`, and also records how the weights were found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.compressing import written
from hierogram.daemon.exports.formats.format import WORDS
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.segments import InWords
from hierogram.storage.options import all_plain
from hierogram.tools.translation.fixed_words import split_words
from hierogram.tools.translation.grammars import TranslationGrammar, toml_table
from hierogram.tools.translation.opening import TranslationResources
from hierogram.tools.translation.tuning.options import TuningOptions
from hierogram.tools.translation.tuning.tuning import Iteration, KBest, Tuned


class GrammarDecoder:
    """Decoder of the same sentences in each round. Its tokens are those of the grammar: words or parts of words.

    `names` are the feature names in order. `words` is the index of the number of target tokens among them.
    """

    def __init__(
        self,
        equipment: TranslationResources,
        grammar: TranslationGrammar,
        lines: Sequence[str],
        shown: Progress,
        *,
        best: int,
        rounds: int,
        threads: int = 0,
    ) -> None:
        """Set up n-best lists of `best` candidates in up to `rounds` rounds. `threads` 0: one per core."""
        self.names = equipment.translator(grammar).names
        self.words = self.names.index(WORDS)
        self._equipment = equipment
        self._grammar = grammar
        self._lines = lines
        self._shown = shown
        self._best = best
        self._rounds = rounds
        self._threads = threads
        self._view = InWords(grammar.texts.joins)
        self._done = self._translated = 0

    def start(self) -> NDArray[np.float64]:
        """Return the starting weights float64[F]."""
        return np.array([float(self._equipment.weights.get(name, 0.0)) for name in self.names])

    def by_name(self, weights: NDArray[np.float64]) -> dict[str, float]:
        """Return weights by feature name."""
        return dict(zip(self.names, weights.tolist(), strict=True))

    def tokens(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the tokens of target words, in NFC."""
        line = normalize("NFC", " ".join(words))
        return split_words(self._view.parts(1, line) if self._view.joins else line)

    def __call__(self, weights: NDArray[np.float64]) -> Iterator[KBest]:
        """Yield the n-best list of each line, empty for a line without words."""
        translator = self._equipment.translator(self._grammar, self.by_name(weights))
        markup = self._equipment.options.markup
        self._done += 1
        done = translator.translate_all(self._lines, self._best, markup=markup, threads=self._threads)
        for number, translation in enumerate(done, 1):
            rows = [[own.features.get(name, 0.0) for name in self.names] for own in translation.candidates]
            features = np.array(rows, np.float64).reshape(-1, len(self.names))
            self._translated += 1
            part = self._done - 1 + number / len(self._lines)
            self._shown.update(part, self._rounds, self._translated, f"round {self._done}")
            yield KBest([self.tokens(own.words) for own in translation.candidates], features)


def split_references(
    references: Iterable[Sequence[str]], sentences: int, tokens: Callable[[Sequence[str]], tuple[str, ...]]
) -> list[list[tuple[str, ...]]]:
    """Return the tokenized references of each sentence, from lists of lines.

    Empty lines are skipped. A sentence with only empty lines has an empty reference.
    """
    split: list[list[tuple[str, ...]]] = [[] for _ in range(sentences)]
    for lines in references:
        for own, line in zip(split, lines, strict=True):
            if words := split_words(line):
                own.append(tokens(words))
    return [own or [()] for own in split]


def write_tuned(
    path: Path,
    tuned: Tuned,
    by_name: Callable[[NDArray[np.float64]], Mapping[str, float]],
    options: TuningOptions,
    inputs: Mapping[str, Any],
) -> None:
    """Write weights, scores of the rounds, options and input names.

    Raises `ExportError` if the file cannot be written.

    `[weights]` are the weights of the best round, whose number is `best_round` (1: the starting weights). Each
    `[[rounds]]` has the BLEU of its own weights, the length ratio to the references, and the numbers of new candidates
    and of translated sentences.
    """
    lines = [
        *toml_table("[weights]", by_name(tuned.weights)),
        *toml_table("[tuning]", {**inputs, **all_plain(options), "best_round": tuned.best + 1}),
    ]
    for iteration in tuned.history:
        lines += toml_table("[[rounds]]", as_plain(iteration))
        lines += toml_table("[rounds.weights]", by_name(iteration.weights))
    with written(path) as file:
        file.write("\n".join(lines[:-1]).encode() + b"\n")


def as_plain(iteration: Iteration) -> dict[str, Any]:
    """Return the scores of a round as JSON values, without its weights."""
    return {
        "bleu": round(iteration.bleu.score, 4),
        "ratio": round(iteration.bleu.ratio, 4),
        "candidates": iteration.new,
        "sentences": iteration.sentences,
    }
