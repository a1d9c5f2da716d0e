"""Tuning runs: decode sentences with a grammar, and write the tuned weights as a TOML file."""

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.formats import WORDS
from hierogram.daemon.files import open_output
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import write_lines
from hierogram.daemon.text.segments import WordView
from hierogram.samplers.decoding.grammar import COUNTED
from hierogram.storage.database.connection import parse_url, sqlite_file
from hierogram.storage.store import Store, open_store
from hierogram.tools.translation.fixed_words import split_words
from hierogram.tools.translation.grammars import TranslationGrammar, toml_table, translation_kind
from hierogram.tools.translation.language_models.estimation import build_model
from hierogram.tools.translation.resources import STORE_MODEL_OPTIONS, TranslationResources
from hierogram.tools.translation.translating import in_threads
from hierogram.tools.translation.tuning.tuning import Iteration, NBest, Tuned

PAIRS_PER_HELD_OUT = 10
"""Hold out up to one pair in ten, because the grammar of fewer pairs would differ too much."""


@contextmanager
def hold_out(store: Store, pairs: int, seed: int, bar: Progress) -> Iterator[tuple[Store, str, list[str], list[str]]]:
    """Hold out up to `pairs` random pairs, in a copy of the store that is deleted when the context ends.

    Yields the copy, the file of a language model of its target side, and the source and target lines of the held-out
    pairs. Raises `WrongKindError`, and `UsageError` if the store is not an SQLite store or has too few pairs.
    """
    translation_kind(store)
    if sqlite_file(parse_url(store.url)) is None:
        raise UsageError(f"{store.url}: holding out pairs requires an SQLite store: pass sentences to tune on")
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        store.back_up(Path(folder, "copy.db"))
        with open_store(str(Path(folder, "copy.db"))) as copy:
            rows = copy.pairs()
            chosen = random.Random(seed).sample(rows, min(pairs, len(rows) // PAIRS_PER_HELD_OUT))
            if not chosen:
                raise UsageError(
                    f"{store.url}: too few pairs ({len(rows)}) to hold some out: pass sentences to tune on"
                )
            held_out_ids = {row.id for row in chosen}
            view = WordView(copy.settings().word_parts)
            training_targets = [row.target for row in rows if row.id not in held_out_ids]
            withdraw_all(copy, sorted(held_out_ids), lambda done: bar.update(done, len(held_out_ids), done))
            text, model = Path(folder, "target"), Path(folder, "target.lm")
            write_lines(text, training_targets)
            build_model([str(text)], [model], STORE_MODEL_OPTIONS, bar)
            yield copy, str(model), [view.line(row.source) for row in chosen], [view.line(row.target) for row in chosen]


@dataclass
class GrammarDecoder:
    """Decoder of the same sentences in several rounds.

    `names` are the feature names in order, and `words_index` is the index of the feature that counts target tokens.
    """

    resources: TranslationResources
    grammar: TranslationGrammar
    lines: Sequence[str]
    bar: Progress
    best: int
    rounds: int
    threads: int = 0

    def __post_init__(self) -> None:
        self.names = (*self.grammar.features, *COUNTED)
        self.words_index = self.names.index(WORDS)
        self._view = WordView(self.grammar.pipeline.word_parts)
        self._round = self._translated = 0

    def start(self) -> NDArray[np.float64]:
        """Return the starting weights float64[F]."""
        weights = self.resources.start_weights()
        return np.array([float(weights.get(name, 0.0)) for name in self.names])

    def by_name(self, weights: NDArray[np.float64]) -> dict[str, float]:
        """Return weights by feature name."""
        return dict(zip(self.names, weights.tolist(), strict=True))

    def tokens(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return target words in NFC, split into parts if the grammar has parts of words."""
        line = normalize("NFC", " ".join(words))
        return split_words(self._view.parts(1, line) if self._view.word_parts else line)

    def __call__(self, weights: NDArray[np.float64]) -> Iterator[NBest]:
        """Yield the n-best list of each line, empty for a line without words."""
        translator = self.resources.translator(self.grammar, self.by_name(weights))
        translate = partial(translator.translate, best=self.best, markup=self.resources.options.markup)
        self._round += 1
        for number, translation in enumerate(in_threads(translate, self.lines, self.threads), 1):
            # Sort by score, because the first candidate is the consensus.
            candidates = sorted(translation.candidates, key=attrgetter("score"), reverse=True)
            rows = [[candidate.features.get(name, 0.0) for name in self.names] for candidate in candidates]
            features = np.array(rows, np.float64).reshape(-1, len(self.names))
            self._translated += 1
            part = self._round - 1 + number / len(self.lines)
            self.bar.update(part, self.rounds, self._translated, f"round {self._round}")
            yield NBest([self.tokens(candidate.words) for candidate in candidates], features)


def write_tuned(
    path: Path, tuned: Tuned, by_name: Callable[[NDArray[np.float64]], Mapping[str, float]], inputs: Mapping[str, Any]
) -> None:
    """Write tuned weights, `inputs` (files and options) and rounds to a TOML file. Raises `ExportError`."""
    lines = toml_table("[weights]", by_name(tuned.weights))
    lines += toml_table("[tuning]", {**inputs, "best_round": tuned.best + 1, "scale": tuned.scale})
    for iteration in tuned.history:
        lines += toml_table("[[rounds]]", as_plain(iteration))
        lines += toml_table("[rounds.weights]", by_name(iteration.weights))
    with open_output(path) as file:
        file.write("\n".join(lines[:-1]).encode() + b"\n")


def as_plain(iteration: Iteration) -> dict[str, Any]:
    """Return the scores of a round as JSON values, without its weights."""
    return {
        "bleu": round(iteration.bleu.score, 4),
        "ratio": round(iteration.bleu.ratio, 4),
        "candidates": iteration.new,
        "sentences": iteration.sentences,
    }
