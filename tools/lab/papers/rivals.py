"""Compare BLEU of the default export, other grammars and Hiero's grammar, over several chains.

    python -m hierogram.tools.lab.papers.rivals corpus.es corpus.en --work rivals --chains 4

Weights are tuned for each grammar. The same command continues an interrupted run.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exports.options import SMOOTHING
from hierogram.daemon.text.lines import read_sentences
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.tools.lab.comparison.pruning import ENTROPY, MASS, SIGNIFICANCE, Pruning
from hierogram.tools.lab.measures.results import write_json
from hierogram.tools.lab.papers.translations import (
    DEFAULT_STORE,
    HIERO,
    MAX_SCOPE,
    MEANS,
    Experiment,
    ExperimentOptions,
    GrammarFile,
    Split,
    TranslationSystem,
    begin_experiment,
    format_p,
)
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.tuning import References, corpus_bleu

TRANSLATION = "translation grammar"
"""Name of the default export."""
ALL_FEATURES = "all features"
_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class RivalOptions(ExperimentOptions):
    """Options of the comparison."""

    chains: Annotated[int, Option("Number of stores with different seeds.", min=1)] = 4
    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 8
    only: Annotated[
        tuple[str, ...], Option("Compare only grammars whose names contain one of these texts.", metavar="NAMES")
    ] = ()


@dataclass(frozen=True, slots=True)
class RivalRow:
    """Row of the table. `rules`, `ratio` and `bleu` are means over chains."""

    name: str
    chains: int
    # Rules up to `MAX_SCOPE` before the filter for held-out sentences, and their ratio to the rules of the first row.
    rules: float
    ratio: float
    bleu: float
    # Lowest and highest BLEU of a chain.
    spread: list[float]
    # p-value of the difference in BLEU from the first row, over sentences and chains.
    p: float | None = None


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A tokenized bitext.")],
    options: RivalOptions,
) -> None:
    """Make each grammar, tune weights for it, translate, and compare BLEU."""
    experiment = begin_experiment(files, options)
    table = RivalTable(options, experiment)
    rows = table.with_p_values([table.row(systems) for systems in table.rivals()])
    write_json(options.work / "rivals.json", [asdict(row) for row in rows])
    print_rivals(rows, experiment.parts)


class RivalTable:
    """Measurement of the rows of the table: `row` for each of `rivals` in order, then `with_p_values`."""

    def __init__(self, options: RivalOptions, experiment: Experiment) -> None:
        self.options, self._experiment = options, experiment
        self._bitext = experiment.aligned_files()
        self._resources = experiment.load_resources(TranslateOptions())
        self._references = [
            References([tuple(line.split()) for line in references]) for references in experiment.parts.test.references
        ]
        self._bleu_statistics: dict[str, NDArray[np.float64]] = {}
        self._rules_of_first = 0

    def rivals(self) -> Sequence[Sequence[TranslationSystem]]:
        """Return the systems of each row: one, or one per chain. The first row is Hiero with all features."""
        seeds = range(1, self.options.chains + 1)
        hiero = TranslationSystem(
            f"{HIERO}, {ALL_FEATURES}", DEFAULT_STORE, heuristic=True, features=None, smoothing=SMOOTHING
        )
        default = TranslationSystem(TRANSLATION, DEFAULT_STORE, CountKind.TRANSLATION, features=None)
        default_rules = self._rules(self._experiment.make_grammar(default, self._bitext))
        rows = [
            [hiero],
            [replace(default, seed=seed) for seed in seeds],
            [TranslationSystem(MEANS, DEFAULT_STORE, seed=seed) for seed in seeds],
            [TranslationSystem(HIERO, DEFAULT_STORE, heuristic=True)],
            *(
                [
                    replace(
                        hiero,
                        name=f"{HIERO} pruned by {by}",
                        pruning=Pruning(by, default_rules, MAX_SCOPE),
                    )
                ]
                for by in (MASS, SIGNIFICANCE, ENTROPY)
            ),
        ]
        only, names = self.options.only, {row[0].name for row in rows}
        # A text that is the name of a grammar selects only this grammar.
        chosen_names = {name for text in only for name in ({text} & names or names) if text in name}
        return [row for row in rows if not only or row[0] == hiero or row[0].name in chosen_names]

    def row(self, systems: Sequence[TranslationSystem]) -> RivalRow:
        """Make the grammars of a row, translate, and return the row without a p-value. Cached."""
        grammars = [self._experiment.make_grammar(system, self._bitext) for system in systems]
        bleu = [self._bleu(grammar) for grammar in grammars]
        name = systems[0].name
        texts = [[tuple(line.split()) for line in read_sentences(str(grammar.output))] for grammar in grammars]
        self._bleu_statistics[name] = np.array(
            [
                [reference.statistics(words) for reference, words in zip(self._references, text, strict=True)]
                for text in texts
            ]
        )
        self._rules_of_first = self._rules_of_first or self._rules(grammars[0])
        rules = float(np.mean([self._rules(grammar) for grammar in grammars]))
        ratio = rules / max(self._rules_of_first, 1)
        return RivalRow(name, len(systems), rules, ratio, float(np.mean(bleu)), [min(bleu), max(bleu)])

    def with_p_values(self, rows: Sequence[RivalRow]) -> list[RivalRow]:
        """Return the rows with p-values of the difference in BLEU from the first row."""
        first, *others = rows
        baseline = self._bleu_statistics[first.name]
        return [
            first,
            *(replace(row, p=bootstrap_p_value(baseline, self._bleu_statistics[row.name])) for row in others),
        ]

    def _rules(self, grammar: GrammarFile) -> int:
        return sum(grammar.by_scope[: MAX_SCOPE + 1])

    def _bleu(self, grammar: GrammarFile) -> float:
        make = partial(self._experiment.tune_and_score, self._resources, grammar, self.options.iterations)
        return self._experiment.cache.get_or_make(f"{grammar.system.full_name}: BLEU", make, grammar.output)


def bootstrap_p_value(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    resamples: int = _RESAMPLES,
) -> float:
    """Return the bootstrap p-value of the difference in mean BLEU, over sentences and chains.

    Arguments are BLEU statistics float64[chains, sentences, …]. Both arguments have the same sentences, which are
    resampled together. Chains are resampled separately. The p-value is the share of resamples that deviate from the
    observed difference by at least its absolute value, with 1 added to both counts.
    """
    rng = np.random.default_rng(1)

    def mean(statistics: NDArray[np.float64], chains: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
        return float(np.mean([corpus_bleu(statistics[chain][rows].sum(axis=0)).score for chain in chains]))

    sentences = first.shape[1]
    all_sentences = np.arange(sentences)
    observed = mean(second, np.arange(len(second)), all_sentences) - mean(first, np.arange(len(first)), all_sentences)
    at_least = 0
    for _ in range(resamples):
        rows = rng.integers(sentences, size=(sentences,))
        difference = mean(second, rng.integers(len(second), size=(len(second),)), rows) - mean(
            first, rng.integers(len(first), size=(len(first),)), rows
        )
        at_least += abs(difference - observed) >= abs(observed)
    return (at_least + 1) / (resamples + 1)


def print_rivals(rows: Sequence[RivalRow], parts: Split) -> None:
    """Print the table and a note on its data and grammars."""
    columns = ["grammar", "rules", "ratio to the first", "BLEU", "BLEU of chains", "p against the first"]
    cells = []
    for row in rows:
        spread = f"{row.spread[0]:.2f} to {row.spread[1]:.2f}" if row.chains > 1 else ""
        figures = f"{row.rules:,.0f}", f"{100 * row.ratio:.1f} %", f"{row.bleu:.2f}"
        cells.append([row.name, *figures, spread, format_p(row.p)])
    print_table(columns, cells, numeric=range(1, len(columns)))
    print()
    print(f"{parts}; weights tuned for each grammar; {HIERO} pruned to the size of the {TRANSLATION}")


if __name__ == "__main__":
    typer.run(main)
