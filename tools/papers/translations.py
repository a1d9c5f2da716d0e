"""Translations with grammars that are compared: weights tuned once, that of target words fitted to each."""

import time
from pathlib import Path

from hierogram.daemon.alignment.files import write_lines
from hierogram.daemon.decoding.opening import Equipment
from hierogram.daemon.language_models.making import make
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.decoding import GrammarDecoder
from hierogram.daemon.tuning.options import TuningOptions
from hierogram.daemon.tuning.tuning import tune
from hierogram.tools.papers.lengths import WORDS, fitted_words
from hierogram.tools.papers.splitting import HeldOut, Split
from hierogram.tools.papers.systems import Made

_LM_ORDER = 3


def language_model(parts: Split, folder: Path) -> Path:
    """The file of a language model of the target side, estimated unless it is there."""
    model = folder / "target.lm"
    if not model.exists():
        with progress("lm", "n-grams") as shown:
            make([parts.files[1]], [model], EstimationOptions(order=_LM_ORDER), shown)
    return model


def tuned_weights(equipment: Equipment, made: Made, held: HeldOut, iterations: int, threads: int) -> dict[str, float]:
    """Weights that are tuned with one grammar."""
    grammar = equipment.grammar(str(made.file))
    options = TuningOptions(iterations=iterations)
    references = [[tuple(line.split()) for line in own] for own in held.references]
    with progress("tune", "sentences") as shown:
        decode = GrammarDecoder(
            equipment,
            grammar,
            held.sources,
            shown,
            best=options.best,
            rounds=options.iterations + 1,
            threads=threads,
        )
        found = tune(decode, references, decode.start(), options, decode.words)
    return decode.by_name(found.weights)


def translate(equipment: Equipment, made: Made, parts: Split, threads: int) -> list[float]:
    """Translate with a grammar into its file; processor seconds a sentence (one thread), weight of words."""
    grammar = equipment.grammar(str(made.file))
    words = fitted_words(equipment, grammar, parts.tuning, threads)
    translator = equipment.translator(grammar, {**equipment.weights, WORDS: words})
    sources = parts.test.sources
    translator.translate(sources[0])
    started = time.process_time()
    lines = [found.text for found in translator.translate_all(sources, threads=1)]
    seconds = (time.process_time() - started) / len(sources)
    write_lines(made.output, lines)
    return [seconds, words]
