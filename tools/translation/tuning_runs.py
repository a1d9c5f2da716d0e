"""Tuning of weights for `import hierogram`, with sentences from files or held-out pairs of a store."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.formats import WORDS
from hierogram.daemon.files import open_output
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.library.options import PathLike, check_integer, resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Progress, progress
from hierogram.daemon.shared_options import THREADS
from hierogram.daemon.text.inspection import text_advice
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.daemon.text.word_view import WordView
from hierogram.samplers.decoding.grammar import COUNTED_FEATURES
from hierogram.storage.database.connection import parse_url, sqlite_file
from hierogram.storage.exceptions import install_extra
from hierogram.storage.options import as_plain as options_as_plain
from hierogram.storage.store import Store, open_store
from hierogram.tools.translation.estimation import build_model
from hierogram.tools.translation.evaluation import check_lines
from hierogram.tools.translation.fixed_words import split_words
from hierogram.tools.translation.grammars import TranslationGrammar, toml_table, translation_kind
from hierogram.tools.translation.library import Files, list_paths, read_files
from hierogram.tools.translation.options import TranslateOptions, TuningOptions
from hierogram.tools.translation.resources import STORE_MODEL_OPTIONS, TranslationResources, load_resources
from hierogram.tools.translation.translating import in_threads
from hierogram.tools.translation.tuning import NBest
from hierogram.tools.translation.tuning import tune as tune_weights

if TYPE_CHECKING:
    from hierogram.tools.keywords import TuningKeywords

PAIRS_PER_HELD_OUT = 10
"""Hold out up to one pair in ten, because the grammar of fewer pairs would differ too much."""


@contextmanager
def hold_out(store: Store, pairs: int, seed: int, bar: Progress) -> Iterator[tuple[Store, str, list[str], list[str]]]:
    """Hold out up to `pairs` random pairs, in a copy of the store that is deleted when the context ends.

    Yields the copy, the file of a language model of its target side, and both sides of the held-out pairs. Raises
    `WrongKindError`, and `UsageError` if the store is not an SQLite store or has fewer than `PAIRS_PER_HELD_OUT` pairs.
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
            sources, targets = [view.line(row.source) for row in chosen], [view.line(row.target) for row in chosen]
            yield copy, str(model), sources, targets


@dataclass
class GrammarDecoder:
    """Decoder of the same sentences in several rounds, one per call.

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
        self.names = (*self.grammar.features, *COUNTED_FEATURES)
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
        """Return target words in NFC, split into parts if the grammar has parts of words, as for references."""
        return split_words(self._view.parts(1, normalize("NFC", " ".join(words))))

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


class TunedWeights(NamedTuple):
    """Tuned weights by feature, the number of their round (1 is the start), and the scores of all rounds."""

    weights: dict[str, float]
    best_round: int
    start_is_best: bool
    rounds: list[dict[str, Any]]


def tune(
    grammar: PathLike | GrammarStore,
    sentences: PathLike | None,
    references: Files,
    output: PathLike,
    *,
    options: TuningOptions | None = None,
    translate: TranslateOptions | None = None,
    threads: int | None = None,
    advise: Callable[[str], None] = lambda _: None,
    **chosen: Unpack[TuningKeywords],
) -> TunedWeights:
    """Tune feature weights to BLEU, and write the weights of the best round to a TOML file for `Decoder`.

    `sentences` and `references` are files of pairs outside the grammar. If they are None and (), pairs of the store are
    held out: tuning uses a copy of the store without these pairs, and a language model of the remaining target sides.
    Options are the fields of `TuningOptions`. `translate` contains the options of translation and the starting weights.
    `advise` receives advice on text that seems badly tokenized. Requires the extra `tune`. Raises `InputError`,
    `ExportError`, `UsageError`.
    """
    if find_spec("scipy") is None:
        raise UsageError(f"tuning requires scipy: {install_extra('tune')}")
    resolved = resolve_options(TuningOptions, options, chosen)
    threads = None if threads is None else check_integer("threads", threads, THREADS)
    translate = translate or TranslateOptions()
    inputs: dict[str, Any] = {"lm": translate.lm}
    with ExitStack() as stack:
        if sentences is None:
            if not isinstance(grammar, GrammarStore) or list_paths(references):
                raise UsageError("expected sentences and references, or only a store from which pairs are held out")
            bar = stack.enter_context(progress("hold out", "pairs"))
            held_out = hold_out(grammar.store, resolved.held_out, resolved.seed, bar)
            store, model, sources, targets = stack.enter_context(held_out)
            translate = replace(translate, lm=model, tokenize=None, tokenized=True)
            source_text, reference_texts = ("held-out pairs", sources), [("held-out pairs", targets)]
            inputs |= {"lm": None, "sentences": f"{len(sources)} pairs of the store"}
        else:
            source_text, reference_texts = (str(sentences), read_sentences(str(sentences))), read_files(references)
            check_lines([source_text], reference_texts)
            inputs |= {"sentences": str(sentences), "references": list_paths(references)}
        resources = load_resources(translate)
        if isinstance(grammar, GrammarStore):
            if sentences is not None:
                store = grammar.store
            rules = resources.read_store_grammar(store).grammar
            resources = resources.with_store_model(store)
            grammar_name = grammar.url
        else:
            rules, grammar_name = resources.grammar(str(grammar)), str(grammar)
        pipeline = resources.pipeline(rules)
        sides = [pipeline.source, *[pipeline.target] * len(reference_texts)]
        for side, (name, lines) in zip(sides, [source_text, *reference_texts], strict=True):
            advice = text_advice(side, name, lines, "--tokenize fr,en", "--tokenized")
            if advice is not None and not translate.tokenized:
                advise(advice)
        with progress("tune", "sentences") as bar:
            rounds = resolved.iterations + 1
            decode = GrammarDecoder(resources, rules, source_text[1], bar, resolved.best, rounds, threads or 0)
            # Skip empty references if a sentence has other references, because an empty reference would count as a
            # reference of length 0.
            reference_tokens = [
                [decode.tokens(words) for line in row if (words := split_words(pipeline.target.tokens(line)))] or [()]
                for row in zip(*(lines for _, lines in reference_texts), strict=True)
            ]
            tuned = tune_weights(decode, reference_tokens, decode.start(), resolved, decode.words_index)
    rounds_as_json = [
        {
            "bleu": round(iteration.bleu.score, 4),
            "ratio": round(iteration.bleu.ratio, 4),
            "candidates": iteration.new_candidates,
            "sentences": iteration.sentences,
        }
        for iteration in tuned.history
    ]
    result = TunedWeights(decode.by_name(tuned.weights), tuned.best + 1, not tuned.best, rounds_as_json)
    inputs = {"grammar": grammar_name, **inputs, **options_as_plain(resolved, with_defaults=True)}
    document = toml_table("[weights]", result.weights)
    document += toml_table("[tuning]", {**inputs, "best_round": result.best_round, "scale": tuned.scale})
    for scores, iteration in zip(rounds_as_json, tuned.history, strict=True):
        document += toml_table("[[rounds]]", scores)
        document += toml_table("[rounds.weights]", decode.by_name(iteration.weights))
    with open_output(Path(output)) as file:
        file.write("\n".join(document[:-1]).encode() + b"\n")
    return result
