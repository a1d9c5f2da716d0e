"""A bitext to learn from, tune on and test with, and translations with grammars that are compared."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hierogram.daemon.corpora.lines import read_sentences, write_lines
from hierogram.daemon.decoding.grammars import TranslationGrammar, read_weights, write_weights
from hierogram.daemon.decoding.opening import TranslationResources, equip
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.language_models.files import make
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.evaluation import SystemScore, evaluate
from hierogram.daemon.tuning.options import EvaluationOptions, TuningOptions
from hierogram.daemon.tuning.runs import GrammarDecoder
from hierogram.daemon.tuning.tuning import tune
from hierogram.tools.measures.results import Kept
from hierogram.tools.papers.systems import Made


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Source sentences, and of each its references; where there are fewer of some, the others are empty."""

    sources: list[str]
    references: list[list[str]]

    def columns(self) -> list[list[str]]:
        """References as files have them: the first of each sentence, the second, …"""
        most = max(map(len, self.references))
        return [[own[k] if k < len(own) else "" for own in self.references] for k in range(most)]


@dataclass(frozen=True, slots=True)
class Split:
    """Files to learn from (two, or three with the alignment), sentences to tune on and to test with."""

    files: list[str]
    tuning: HeldOut
    test: HeldOut
    pairs: int


def split(files: Sequence[str], folder: Path, *, tuning: int, test: int, longest: int, references: int = 1) -> Split:
    """Divide a bitext by its source sentences, evenly spaced; what is to be learned from goes to the folder.

    `tuning` and `test` sentences are held out, of `longest` words at most; those of the test have `references` or more.
    Raises `InputError` where there are too few sentences, or files of different lengths.
    """
    columns = [read_sentences(file) for file in files]
    if len({len(lines) for lines in columns}) != 1:
        raise InputError(f"{' and '.join(files)} differ in their numbers of lines")
    pairs: dict[str, list[int]] = {}
    for number, line in enumerate(columns[0]):
        pairs.setdefault(line, []).append(number)

    def references_of(source: str) -> list[str]:
        found = dict.fromkeys(columns[1][number] for number in pairs[source])
        return [line for line in found if line.strip()]

    def is_short(line: str) -> bool:
        return 0 < len(line.split()) <= longest

    suited = [source for source in pairs if is_short(source) and all(map(is_short, references_of(source)))]
    several = [source for source in suited if len(references_of(source)) >= references]
    tested = _spaced(several, test)
    chosen = set(tested)
    tuned = _spaced([source for source in suited if source not in chosen], tuning)
    if len(tested) < test or len(tuned) < tuning:
        raise InputError(
            f"{files[0]}: only {len(several):,} and {len(suited):,} sentences can be held out: ask for less"
        )
    chosen.update(tuned)
    left = [number for number, line in enumerate(columns[0]) if line not in chosen]
    names = []
    for side, lines in zip(("source", "target", "align"), columns, strict=False):
        path = folder / f"train.{side}"
        write_lines(path, (lines[number] for number in left))
        names.append(str(path))
    for_tuning, for_test = (HeldOut(part, [references_of(source) for source in part]) for part in (tuned, tested))
    return Split(names, for_tuning, for_test, len(left))


def _spaced(items: list[str], wanted: int) -> list[str]:
    """So many of the items, evenly spaced; all where there are fewer."""
    if len(items) <= wanted:
        return items
    return [items[k * len(items) // wanted] for k in range(wanted)]


WORDS = "words"
_TRIALS = 8


def fitted_words(equipment: TranslationResources, grammar: TranslationGrammar, held: HeldOut, threads: int) -> float:
    """Fit the weight of words, between 0 and twice what it is: translations have as many words as the references.

    Of several references the one whose length is closest counts. All other weights stay.
    """

    sizes = [[len(line.split()) for line in own] for own in held.references]

    def missing(weight: float) -> int:
        """By how many words translations are too short under this weight."""
        translator = equipment.translator(grammar, {**equipment.weights, WORDS: weight})
        lengths = [len(found.text.split()) for found in translator.translate_all(held.sources, threads=threads)]
        closest = [min(own, key=lambda size: abs(size - n)) for n, own in zip(lengths, sizes, strict=True)]
        return sum(closest) - sum(lengths)

    start = equipment.weights[WORDS]
    low, high = min(0.0, 2 * start), max(0.0, 2 * start)
    middle = start
    for _ in range(_TRIALS):
        short = missing(middle)
        if not short:
            break
        low, high = (middle, high) if short > 0 else (low, middle)
        middle = (low + high) / 2
    return middle


_LM_ORDER = 3
_RESAMPLES = 1000


def translated(
    made: Sequence[Made],
    parts: Split,
    folder: Path,
    options: TranslateOptions,
    iterations: int,
    threads: int,
    kept: Kept,
) -> dict[str, tuple[float, float]]:
    """Translate with each grammar into its file; return processor seconds a sentence and the weight of words, by name.

    Weights are tuned once, with the first grammar; the weight of target words is fitted to each, since a grammar of
    other rules makes translations of other lengths under the same weights. What the folder has already is taken.
    """
    model = folder / "target.lm"
    if not model.exists():
        with progress("lm", "n-grams") as shown:
            make([parts.files[1]], [model], EstimationOptions(order=_LM_ORDER), shown)
    equipment = equip(replace(options, lm=str(model)))
    tuned = folder / "weights.toml"
    if not tuned.exists():
        for one in made:
            one.output.unlink(missing_ok=True)
        write_weights(tuned, tuned_weights(equipment, made[0], parts.tuning, iterations, threads)[0])
    equipment = replace(equipment, weights=read_weights(str(tuned)))
    found = {}
    for one in made:
        own = partial(translate, equipment, one, parts, threads)
        name = one.system.name
        seconds, words = kept.find(f"{name}: seconds a sentence, weight of words", own, one.output)
        found[name] = seconds, words
    return found


def scored(made: Sequence[Made], parts: Split) -> list[SystemScore]:
    """Return the BLEU of what grammars have translated, each beside the first one."""
    outputs = [(one.system.name, read_sentences(str(one.output))) for one in made]
    references = [(f"reference {k + 1}", lines) for k, lines in enumerate(parts.test.columns())]
    options = EvaluationOptions(metrics=("bleu",), tokenizer="none", resamples=_RESAMPLES)
    with progress("evaluate", "metrics") as shown:
        [found] = evaluate(outputs, references, options, shown)
    return list(found.scores)


def tuned_weights(
    equipment: TranslationResources, made: Made, held: HeldOut, iterations: int, threads: int, seed: int = 1
) -> tuple[dict[str, float], bool]:
    """Return weights that are tuned with one grammar, and whether they are those that tuning began with."""
    grammar = equipment.grammar(str(made.file))
    options = TuningOptions(iterations=iterations, seed=seed)
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
    return decode.by_name(found.weights), found.best == 0


def translate(equipment: TranslationResources, made: Made, parts: Split, threads: int) -> list[float]:
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
