"""Measure translation with a large grammar and a language model."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS
from hierogram.daemon.progress import progress
from hierogram.daemon.text.lines import write_lines
from hierogram.samplers.forests.forest import Bitext
from hierogram.storage.records.pairs import PairRow
from hierogram.tools.lab.comparison.bitexts import Numbering, to_bitext
from hierogram.tools.lab.comparison.extraction import HeuristicGrammar, rule_lines
from hierogram.tools.lab.measures.results import Corpus, Figures, temporary_folder, time_call
from hierogram.tools.lab.measures.sampling import read_rows
from hierogram.tools.translation.estimation import build_model
from hierogram.tools.translation.fixed_words import Glossary
from hierogram.tools.translation.grammars import open_grammar, write_grammar
from hierogram.tools.translation.language_models import open_language_model
from hierogram.tools.translation.options import EstimationOptions, TranslateOptions
from hierogram.tools.translation.resources import TranslationResources
from hierogram.tools.translation.translating import Translator

_PAIRS_PER_BITEXT = 1_000
_WORDS = 20
"""Number of words of the measured sentences."""
_MAX_SENTENCES = 100
_ORDERS = (3, 5)
"""Orders of the language models."""


def _bitexts(rows: list[PairRow]) -> tuple[list[Bitext], Numbering, Numbering]:
    """Return the pairs in bitexts, with the word numbers of the source and of the target."""
    source = Numbering(sorted({word for row in rows for word in row.source.split(" ")}))
    target = Numbering(sorted({word for row in rows for word in row.target.split(" ")}))
    parts = (rows[k : k + _PAIRS_PER_BITEXT] for k in range(0, len(rows), _PAIRS_PER_BITEXT))
    return [to_bitext(part, source, target) for part in parts], source, target


def measure_translating(corpus: Corpus) -> Figures:
    """Measure reading a grammar as text and packed, and translating sentences of 20 words on one thread.

    The grammar has up to `corpus.rules` rules that heuristic extraction finds more than once. Memory includes the
    grammar and the language models of both orders.
    """
    rows = read_rows(corpus)
    with temporary_folder() as folder:
        path = folder / "grammar.cdec"
        rules = _write_rules(path, rows, corpus.threads, corpus.rules)
        text = folder / "target.txt"
        write_lines(text, (row.target for row in rows))
        models = {order: _estimate_model(text, order) for order in _ORDERS}
        # Read a small grammar first, so that times do not include compiling or loading kernels.
        small = folder / "small.cdec"
        small.write_text("[X] ||| a ||| b ||| EGivenF=-1 ||| 0-0\n")
        _read_grammar(small)
        reading, grammar = time_call(lambda: _read_grammar(path))
        packed = folder / "grammar.packed"
        write_grammar(packed, grammar)
        mapping, grammar = time_call(lambda: _read_grammar(packed))
        with progress("read the language model", "n-grams") as bar:
            opened = {order: open_language_model(str(model), bar) for order, model in models.items()}
        figures: Figures = {
            "rules": rules,
            "reading_seconds": reading,
            "reading_packed_seconds": mapping,
            "ngrams": sum(opened[_ORDERS[-1]].counts()),
        }
        sentences = [row.source for row in rows if row.source.count(" ") == _WORDS - 1][:_MAX_SENTENCES]
        for order, model in opened.items():
            resources = TranslationResources(TranslateOptions(), dict(DEFAULT_WEIGHTS), model, Glossary())
            weighing, translator = time_call(partial(resources.translator, grammar))
            figures[f"weighing_seconds_{order}_grams"] = weighing
            figures[f"seconds_per_sentence_{order}_grams"] = _seconds_per_sentence(translator, sentences, 1)
            figures[f"seconds_per_sentence_{order}_grams_100_best"] = _seconds_per_sentence(translator, sentences, 100)
        figures["sentences"] = len(sentences)
    return figures


def _seconds_per_sentence(translator: Translator, sentences: list[str], best: int) -> float:
    """Measure the `best` best translations of sentences. Returns 0 without sentences."""
    # Do not measure the first translations, which load kernels.
    for line in sentences[:2]:
        translator.translate(line, best)
    seconds, _ = time_call(lambda: [translator.translate(line, best) for line in sentences])
    return seconds / max(len(sentences), 1)


def _read_grammar(path: Path) -> Any:
    with progress("read the grammar", "rules") as bar:
        return open_grammar(str(path), 2, bar)


def _estimate_model(text: Path, order: int) -> Path:
    path = text.with_name(f"target.{order}.lm")
    with progress("lm", "n-grams") as bar:
        build_model([str(text)], [path], EstimationOptions(order=order), bar)
    return path


def _write_rules(path: Path, rows: list[PairRow], threads: int, max_rules: int) -> int:
    """Write up to `max_rules` rules with several occurrences in cdec's format. Returns their number."""
    bitexts, source, target = _bitexts(rows)
    written = 0
    with HeuristicGrammar(threads=threads) as grammar, path.open("w", encoding="utf-8") as file:
        grammar.add(bitexts)
        for block in grammar.blocks():
            several = block[block[:, grammar.shape.occurrences] > 1][: max_rules - written]
            written += len(several)
            lines = rule_lines(several, grammar.shape, source.spellings, target.spellings).decode().splitlines()
            for line in lines:
                sides, _, mass = line.rpartition(" ||| ")
                value = np.log10(float(mass) + 1e-3)
                file.write(f"[X] ||| {sides} ||| EGivenF={value:.4f} FGivenE={value:.3f} LexEGivenF=-1 LexFGivenE=-1\n")
    return written
