"""Table 2 of [CFGŠ14] for any bitext: translation quality of sampled and heuristic grammars.

    python -m hierogram.tools.lab.papers.table2 corpus.zh corpus.en align.gdfa --work table2

The same command continues an interrupted run.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.tools.lab.measures.results import save_figure, write_json
from hierogram.tools.lab.papers.translations import (
    AVERAGED,
    DEFAULT_STORE,
    DIRICHLET_STORE,
    DIRICHLETS_STORE,
    HIERO,
    MAX_SCOPE,
    MEANS,
    SAMPLES_STORE,
    START_STORE,
    ExperimentOptions,
    Split,
    TranslationSystem,
    begin_experiment,
    format_p,
)

ZEROTH, HUNDREDTH = "0th sample", "100th sample"
BY_LENGTH, LENGTH_FREE = "d = 0", "length-free Dirichlet"
"""Other processes: one Dirichlet process per rule length [CFGŠ14 §5.4.2], or one for all rules (§4.1)."""
SYSTEMS = (
    TranslationSystem(HIERO, DEFAULT_STORE, heuristic=True),
    TranslationSystem("no singletons", DEFAULT_STORE, heuristic=True, singletons=False),
    TranslationSystem(ZEROTH, START_STORE, CountKind.CURRENT_SAMPLE),
    TranslationSystem(HUNDREDTH, DEFAULT_STORE, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{HUNDREDTH}, Hiero's constraints", DEFAULT_STORE, CountKind.CURRENT_SAMPLE, hiero=True),
    TranslationSystem(AVERAGED, SAMPLES_STORE),
    TranslationSystem(f"{AVERAGED}, Hiero's constraints", SAMPLES_STORE, hiero=True),
    TranslationSystem(MEANS, DEFAULT_STORE),
    TranslationSystem(f"{HUNDREDTH}, {BY_LENGTH}", DIRICHLETS_STORE, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{MEANS}, {BY_LENGTH}", DIRICHLETS_STORE),
    TranslationSystem(f"{HUNDREDTH}, {LENGTH_FREE}", DIRICHLET_STORE, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{MEANS}, {LENGTH_FREE}", DIRICHLET_STORE),
)


@dataclass(frozen=True, kw_only=True)
class TableOptions(ExperimentOptions):
    """Options of the table."""

    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 5
    figure: Annotated[Path | None, Option("PNG file of BLEU against the number of rules.", metavar="FILE")] = None


@dataclass(frozen=True, slots=True)
class SystemRow:
    """Row of the table. `word_weight` is the weight of target words."""

    name: str
    # Rules of scope 0, 1, … up to `MAX_SCOPE`, their sum, and ratio of the sum to Hiero's.
    by_scope: list[int]
    rules: int
    ratio: float
    # BLEU, half its 95 % interval, and p-value of the difference from Hiero.
    bleu: float
    plus_minus: float
    p: float | None
    # Processor seconds per sentence.
    seconds: float
    word_weight: float


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A tokenized bitext.")],
    table_options: TableOptions,
) -> None:
    """Make all grammars, tune weights with Hiero's grammar, translate, and print the table."""
    experiment = begin_experiment(files, table_options)
    parts, scopes = experiment.parts, MAX_SCOPE + 1
    bitext = experiment.aligned_files()
    grammars = [experiment.make_grammar(system, bitext) for system in SYSTEMS]
    costs = experiment.translate_with_shared_weights(grammars, table_options.iterations)
    sampling = experiment.score_bleu([grammar for grammar in grammars if grammar.system.name in (ZEROTH, HUNDREDTH)])
    hiero_rules = sum(grammars[0].by_scope[:scopes])
    rows = []
    for grammar, score in zip(grammars, experiment.score_bleu(grammars), strict=True):
        by_scope = (grammar.by_scope + [0] * scopes)[:scopes]
        rules, half = sum(by_scope), (score.high - score.low) / 2
        ratio = rules / max(hiero_rules, 1)
        rows.append(SystemRow(score.name, by_scope, rules, ratio, score.score, half, score.p, *costs[score.name]))
    content = {"pairs": parts.pairs, "p_of_sampling": sampling[1].p, "rows": [asdict(row) for row in rows]}
    write_json(table_options.work / "table2.json", content)
    _print_table(rows, sampling[1].p, parts)
    if table_options.figure is not None:
        draw(rows, table_options.figure, f"{parts.pairs:,} pairs")


def _print_table(rows: list[SystemRow], p_of_sampling: float | None, parts: Split) -> None:
    columns = ["grammar", *(f"scope {k}" for k in range(MAX_SCOPE + 1)), "rules", f"ratio to {HIERO}", "BLEU", "±"]
    columns += [f"p against {HIERO}", "s per sentence"]
    cells = []
    for row in rows:
        numbers = *(f"{number:,}" for number in row.by_scope), f"{row.rules:,}", f"{100 * row.ratio:.1f} %"
        bleu = f"{row.bleu:.2f}", f"{row.plus_minus:.2f}", format_p(row.p)
        cells.append([row.name, *numbers, *bleu, f"{row.seconds:.3f}"])
    print_table(columns, cells, numeric=range(1, len(columns)))
    print()
    print(
        f"{parts}; BLEU of {HUNDREDTH} against {ZEROTH}: p {format_p(p_of_sampling)}; weights tuned with {HIERO}'s "
        f"grammar, except that the weight of target words is fitted for each grammar; {AVERAGED}: means of the initial "
        f"state and the states after each of seven levels; {MEANS}: expected uses over the sweeps after the burn-in"
    )


def draw(rows: Sequence[SystemRow], path: Path, title: str) -> None:
    """Draw BLEU with its 95 % interval against the number of rules, as PNG."""
    with save_figure(path, size=(8, 4.6)) as panel:
        for row, marker in zip(rows, cycle("os^vD<>PhXp*"), strict=False):
            panel.errorbar(row.rules, row.bleu, row.plus_minus, fmt=marker, capsize=3, label=row.name)
        panel.set_xscale("log")
        panel.set_xlabel(f"rules up to scope {len(rows[0].by_scope) - 1}")
        panel.set_ylabel("BLEU")
        panel.set_title(title)
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


if __name__ == "__main__":
    typer.run(main)
