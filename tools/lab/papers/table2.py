"""Table 2 of [CFGŠ14] for any bitext: translation quality of sampled and heuristic grammars.

    python -m hierogram.tools.lab.papers.table2 corpus.zh corpus.en align.gdfa --work table2

The same command continues an interrupted run.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import plural, print_table
from hierogram.daemon.cli.flags import with_options
from hierogram.samplers.grammar.settings import DIRICHLET, PITMAN_YOR
from hierogram.storage.options import Option
from hierogram.storage.records.grammar import CountKind
from hierogram.tools.lab.measures.results import save_figure
from hierogram.tools.lab.papers.translations import (
    AVERAGED,
    DIRICHLETS,
    HIERO,
    MEANS,
    PAIRS,
    SAMPLES,
    START,
    ExperimentOptions,
    Split,
    TranslationSystem,
    begin,
    ensure_alignment,
)
from hierogram.tools.translation.options import TranslateOptions

ZEROTH, HUNDREDTH = "0th sample", "100th sample"
BY_LENGTH, LENGTH_FREE = "d = 0", "length-free Dirichlet"
"""Other processes: a Dirichlet process for each rule length [CFGŠ14 §5.4.2], and one for all rules (§4.1)."""
SYSTEMS = (
    TranslationSystem(HIERO, PAIRS, heuristic=True),
    TranslationSystem("no singletons", PAIRS, heuristic=True, singletons=False),
    TranslationSystem(ZEROTH, START, CountKind.CURRENT_SAMPLE),
    TranslationSystem(HUNDREDTH, PITMAN_YOR, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{HUNDREDTH}, Hiero's constraints", PITMAN_YOR, CountKind.CURRENT_SAMPLE, hiero=True),
    TranslationSystem(AVERAGED, SAMPLES),
    TranslationSystem(f"{AVERAGED}, Hiero's constraints", SAMPLES, hiero=True),
    TranslationSystem(MEANS, PITMAN_YOR),
    TranslationSystem(f"{HUNDREDTH}, {BY_LENGTH}", DIRICHLETS, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{MEANS}, {BY_LENGTH}", DIRICHLETS),
    TranslationSystem(f"{HUNDREDTH}, {LENGTH_FREE}", DIRICHLET, CountKind.CURRENT_SAMPLE),
    TranslationSystem(f"{MEANS}, {LENGTH_FREE}", DIRICHLET),
)


@dataclass(frozen=True, kw_only=True)
class TableOptions(ExperimentOptions):
    """Options of the table."""

    iterations: Annotated[int, Option("Rounds of tuning.", min=1)] = 5
    figure: Annotated[Path | None, Option("PNG file of BLEU against the number of rules.", metavar="FILE")] = None


@dataclass(frozen=True, slots=True)
class SystemRow:
    """Row of the table."""

    name: str
    # Rules of scope 0, 1, …, their sum, and ratio of the sum to Hiero's.
    by_scope: list[int]
    rules: int
    ratio: float
    # BLEU, half its 95 % interval, and p-value of the difference from Hiero.
    bleu: float
    plus_minus: float
    p: float | None
    # Processor seconds per sentence.
    seconds: float
    # Weight of target words.
    words: float


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A tokenized bitext.")],
    table_options: TableOptions,
) -> None:
    """Make all grammars, tune weights with Hiero's grammar, translate, and print the table."""
    experiment = begin(files, table_options)
    parts, scopes = experiment.parts, table_options.max_scope + 1
    bitext = ensure_alignment(parts.files, table_options.work, table_options.threads)
    grammars = [experiment.make_grammar(system, bitext) for system in SYSTEMS]
    options = TranslateOptions(pops=table_options.pops, max_scope=table_options.max_scope, min_count=0.0)
    costs = experiment.translate(grammars, options, table_options.iterations)
    sampling = experiment.score_bleu([grammar for grammar in grammars if grammar.system.name in (ZEROTH, HUNDREDTH)])
    hiero_rules = sum(grammars[0].by_scope[:scopes])
    rows = []
    for grammar, score in zip(grammars, experiment.score_bleu(grammars), strict=True):
        by_scope = (grammar.by_scope + [0] * scopes)[:scopes]
        rules, half = sum(by_scope), (score.high - score.low) / 2
        ratio = rules / max(hiero_rules, 1)
        rows.append(SystemRow(score.name, by_scope, rules, ratio, score.score, half, score.p, *costs[score.name]))
    _print_table(rows, sampling[1].p, parts, table_options)
    if table_options.figure is not None:
        draw(rows, table_options.figure, f"{parts.pairs:,} pairs")


def _print_table(rows: list[SystemRow], p_of_sampling: float | None, parts: Split, options: TableOptions) -> None:
    content = {"pairs": parts.pairs, "p_of_sampling": p_of_sampling, "rows": [asdict(row) for row in rows]}
    (options.work / "table2.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    columns = ["grammar", *(f"scope {k}" for k in range(options.max_scope + 1)), "rules", "ratio", "BLEU", "±"]
    columns += [f"p against {HIERO}", "s a sentence"]
    cells = []
    for row in rows:
        numbers = *(f"{number:,}" for number in row.by_scope), f"{row.rules:,}", f"{100 * row.ratio:.1f} %"
        bleu = f"{row.bleu:.2f}", f"{row.plus_minus:.2f}", _format_p(row.p)
        cells.append([row.name, *numbers, *bleu, f"{row.seconds:.3f}"])
    print_table(columns, cells, numeric=range(1, len(columns)))
    print()
    print(
        f"{plural(parts.pairs, 'pair')} to learn from, {len(parts.tuning.sources):,} sentences to tune on, "
        f"{len(parts.test.sources):,} to test with; {HUNDREDTH} against {ZEROTH}: p {_format_p(p_of_sampling)}; "
        f"weights tuned once, with {HIERO}'s grammar, the word weight fitted to each; {AVERAGED}: eight samples, from "
        f"the 0th to the one after the last level; {MEANS}: expected uses over the sweeps after burn-in"
    )


def _format_p(p: float | None) -> str:
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


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
