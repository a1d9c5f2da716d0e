"""Compare the translations of the default exported grammar and its rivals, over several chains.

    python -m hierogram.tools.lab.papers.rivals corpus.es corpus.en --work rivals --chains 4

Weights are tuned for each grammar, as users do; and once, with Hiero's grammar and all features. Results are cached in
the folder step by step, so the same command continues an interrupted run.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.cli.common import plural, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exports.options import SMOOTHING
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.tools.lab.comparison.pruning import ENTROPY, MASS, SIGNIFICANCE, Pruning
from hierogram.tools.lab.papers.translations import (
    AVERAGED,
    DEFAULT,
    HIERO,
    MEANS,
    SAMPLES,
    Experiment,
    ExperimentOptions,
    GrammarFile,
    Split,
    TranslationSystem,
    aligned,
    begin,
    timed_translations,
    write_weights,
)
from hierogram.tools.translation.grammars import read_weights
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.tuning.options import EvaluationOptions
from hierogram.tools.translation.tuning.tuning import References, bleu_of

TRANSLATION = "translation grammar"
ALL = "all features"
_TENTH = 10
_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class RivalOptions(ExperimentOptions):
    """Options of the comparison."""

    chains: Annotated[int, Option("Number of stores, each learned with its own seed.", min=1)] = 4
    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 8
    seeds: Annotated[int, Option("Number of tuning seeds for each grammar, averaged. 0: tune weights once.", min=0)] = 1
    only: Annotated[
        tuple[str, ...], Option("Use only grammars whose names contain one of these.", metavar="NAMES")
    ] = ()


@dataclass(frozen=True, slots=True)
class RivalRow:
    """Row of the table; figures are means over chains, `spread` is from the lowest BLEU to the highest.

    `rules` is the number of rules of the whole grammar up to the scope, `bytes` the size of the file filtered for the
    held-out text. Seconds are for writing that file, and processor seconds for translating a sentence. `untuned`: BLEU
    with the built-in weights, `once` with weights tuned with the first grammar. `start_is_best`: number of times that
    tuning did not improve the initial weights. `p`: probability that its BLEU differs from the first row's by chance,
    over sentences and chains; `p_of_means`: the same, compared with posterior means.
    """

    name: str
    chains: int
    rules: float
    share: float
    bytes: float
    export_seconds: float
    seconds: float
    bleu: float
    spread: list[float]
    chrf: float
    once: float
    untuned: float
    start_is_best: int
    p: float | None = None
    p_of_means: float | None = None


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A tokenized bitext.")],
    options: RivalOptions,
) -> None:
    """Learn, extract, prune, export, tune for each grammar, translate, and compare."""
    experiment = begin(files, options)
    table = RivalTable(options, experiment)
    rows = table.compared([table.row(systems) for systems in table.rivals()])
    content = json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False)
    (options.work / "rivals.json").write_text(content + "\n")
    print_rivals(rows, experiment.parts, options)


class RivalTable:
    """Inputs of the comparison, and its results."""

    def __init__(self, options: RivalOptions, experiment: Experiment) -> None:
        self.options, self._experiment = options, experiment
        self._bitext = aligned(experiment.parts.files, options.work, options.threads)
        self._equipment = experiment.equip(TranslateOptions(pops=options.pops, max_scope=options.max_scope))
        self._statistics = [
            References([tuple(line.split()) for line in references]) for references in experiment.parts.test.references
        ]
        self._found: dict[str, NDArray[np.float64]] = {}
        self._rules_of_first = 0

    def rivals(self) -> Sequence[Sequence[TranslationSystem]]:
        """Return the grammars of each row: one grammar, or one per chain. Hiero with all features is first."""
        chains = range(1, self.options.chains + 1)
        hiero = TranslationSystem(f"{HIERO}, {ALL}", DEFAULT, heuristic=True, features=None, smoothing=SMOOTHING)
        default = TranslationSystem(TRANSLATION, DEFAULT, CountKind.TRANSLATION, features=None)
        rules, default_rules = (self._rules(self._experiment.made(system, self._bitext)) for system in (hiero, default))
        rows = [
            [hiero],
            [replace(default, chain=chain) for chain in chains],
            [TranslationSystem(MEANS, DEFAULT, chain=chain) for chain in chains],
            [
                TranslationSystem(f"{MEANS}, {ALL}", DEFAULT, features=None, smoothing=SMOOTHING, chain=chain)
                for chain in chains
            ],
            [TranslationSystem(HIERO, DEFAULT, heuristic=True)],
            *(
                [replace(hiero, name=f"{HIERO} {label} {by}", pruning=Pruning(by, number, self.options.max_scope))]
                for label, by, number in (
                    ("of our size by", MASS, default_rules),
                    ("of our size by", SIGNIFICANCE, default_rules),
                    ("of our size by", ENTROPY, default_rules),
                    ("best tenth by", MASS, rules // _TENTH),
                )
            ),
            [TranslationSystem(AVERAGED, SAMPLES)],
            [TranslationSystem(f"{AVERAGED}, {ALL}", SAMPLES, features=None, smoothing=SMOOTHING)],
        ]
        only, names = self.options.only, {row[0].name for row in rows}
        chosen_names = {name for part in only for name in ({part} & names or names) if part in name}
        return [row for row in rows if not only or row[0] == hiero or row[0].name in chosen_names]

    def row(self, systems: Sequence[TranslationSystem]) -> RivalRow:
        """Return the row of a grammar, over its chains."""
        made = [self._experiment.made(system, self._bitext) for system in systems]
        bleu_rows = [self._figures(grammar) for grammar in made]
        name = systems[0].name
        texts = [[tuple(line.split()) for line in read_sentences(str(grammar.output))] for grammar in made]
        self._found[name] = np.array(
            [
                [reference.statistics(words) for reference, words in zip(self._statistics, text, strict=True)]
                for text in texts
            ]
        )
        self._rules_of_first = self._rules_of_first or self._rules(made[0])
        bleu = [figures["tuned"] for figures in bleu_rows]
        rules = float(np.mean([self._rules(grammar) for grammar in made]))

        def mean(name: str) -> float:
            return float(np.mean([figures[name] for figures in bleu_rows]))

        return RivalRow(
            name,
            len(systems),
            rules,
            rules / max(self._rules_of_first, 1),
            float(np.mean([grammar.file.stat().st_size for grammar in made])),
            float(np.mean([grammar.seconds for grammar in made])),
            mean("seconds"),
            float(np.mean(bleu)),
            [min(bleu), max(bleu)],
            mean("chrf"),
            mean("once"),
            mean("untuned"),
            sum(int(figures["start_is_best"]) for figures in bleu_rows),
        )

    def compared(self, rows: Sequence[RivalRow]) -> list[RivalRow]:
        """Return the rows with their p against the first one, and against posterior means if they are included."""

        def p(name: str, baseline: str) -> float | None:
            is_compared = baseline in self._found and name != baseline
            return bootstrap_p_value(self._found[baseline], self._found[name]) if is_compared else None

        return [replace(row, p=p(row.name, rows[0].name), p_of_means=p(row.name, MEANS)) for row in rows]

    def _rules(self, made: GrammarFile) -> int:
        return sum(made.by_scope[: self.options.max_scope + 1])

    def _figures(self, made: GrammarFile) -> dict[str, float]:
        """Translate with a grammar and its own tuned weights, and return its figures."""
        rival_options, resources = self.options, self._equipment

        def find() -> dict[str, float]:
            grammar = resources.grammar(str(made.file))

            def scores(weights: dict[str, float]) -> tuple[float, float, float]:
                """Return BLEU, chrF and seconds per sentence."""
                translator = resources.translator(grammar, weights)
                lines, seconds = timed_translations(
                    translator, self._experiment.parts.test.sources, rival_options.threads
                )
                write_lines(made.output, lines)
                options = EvaluationOptions(metrics=("bleu", "chrf"), tokenizer="none")
                bleu, chrf = self._experiment.evaluated([("translation", lines)], options)
                return bleu.scores[0].score, chrf.scores[0].score, seconds

            untuned, _, _ = scores(resources.weights)
            once_file = rival_options.work / "once.toml"
            figures = []
            won = 0
            once = None
            if once_file.exists():
                weights = read_weights(str(once_file))
                by_once = scores(weights)
                once = by_once[0]
                figures += [by_once] * (not rival_options.seeds)
            for seed in range(rival_options.seeds or int(once is None), 0, -1):
                weights, start_is_best = self._experiment.tuned(resources, made, rival_options.iterations, seed)
                won += start_is_best
                figures.append(scores(weights))
            write_weights(made.file.with_suffix(".toml"), weights)
            if once is None:
                write_weights(once_file, weights)
                once = figures[-1][0]
            bleu, chrf, seconds = np.mean(figures, axis=0).tolist()
            return {
                "untuned": untuned,
                "once": once,
                "chrf": chrf,
                "seconds": seconds,
                "tuned": bleu,
                "start_is_best": float(won),
            }

        return self._experiment.cache.find(f"{made.system.named}: translations", find, made.output)


def bootstrap_p_value(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    resamples: int = _RESAMPLES,
    score: Callable[[NDArray[np.float64]], float] = lambda statistics: bleu_of(statistics).score,
) -> float:
    """Return the probability of such a difference in the mean score by chance, over sentences and chains.

    Statistics are float64[chains, sentences, …], summed for `score` (default: BLEU). Sentences are resampled jointly,
    chains separately. The result is the share of resamples that deviate from the actual difference by at least its
    size.
    """
    random = np.random.default_rng(1)

    def mean(statistics: NDArray[np.float64], chains: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
        return float(np.mean([score(statistics[chain][rows].sum(axis=0)) for chain in chains]))

    sentences = first.shape[1]
    all_sentences = np.arange(sentences)
    observed = mean(second, np.arange(len(second)), all_sentences) - mean(first, np.arange(len(first)), all_sentences)
    larger = 0
    for _ in range(resamples):
        rows = random.integers(sentences, size=(sentences,))
        difference = mean(second, random.integers(len(second), size=(len(second),)), rows) - mean(
            first, random.integers(len(first), size=(len(first),)), rows
        )
        larger += abs(difference - observed) >= abs(observed)
    return (larger + 1) / (resamples + 1)


def print_rivals(rows: Sequence[RivalRow], parts: Split, options: RivalOptions) -> None:
    """Print the table."""
    columns = ["grammar", "rules", "share", "BLEU", "chains", "chrF", "p", "p of means", "once", "untuned"]
    columns += ["s to write", "s a sentence"]
    cells = [
        [
            row.name,
            f"{row.rules:,.0f}",
            f"{100 * row.share:.1f} %",
            f"{row.bleu:.2f}",
            f"{row.spread[0]:.2f} to {row.spread[1]:.2f}" if row.chains > 1 else "",
            f"{row.chrf:.2f}",
            *("" if p is None else f"{p:.3f}" for p in (row.p, row.p_of_means)),
            f"{row.once:.2f}",
            f"{row.untuned:.2f}",
            f"{row.export_seconds:.0f}",
            f"{row.seconds:.3f}",
        ]
        for row in rows
    ]
    print_table(columns, cells, numeric=range(1, len(columns)))
    print()
    won = sum(row.start_is_best for row in rows)
    tuned = f"for each grammar, {plural(options.seeds, 'seed')}" if options.seeds else "once"
    print(
        f"{plural(parts.pairs, 'pair')} to learn from, {len(parts.tuning.sources):,} sentences to tune on, "
        f"{len(parts.test.sources):,} to test with; weights tuned {tuned}, "
        f"`once` with {rows[0].name} alone, `untuned` as built in; the starting weights were best "
        f"{plural(won, 'time')}"
    )


if __name__ == "__main__":
    typer.run(main)
