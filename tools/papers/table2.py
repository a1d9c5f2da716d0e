"""Table 2 of [CFGŠ14] for any bitext: what grammars translate, sampled ones beside heuristic ones.

python -m hierogram.tools.papers.table2 corpus.zh corpus.en align.gdfa --work table2

What is found is kept in the folder, step by step; the same command goes on where it was interrupted.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import typer

from hierogram.daemon.commands.common import note, plural, print_table
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.corpora.lines import write_lines
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.samplers.grammar.settings import DIRICHLET
from hierogram.storage.options import Option
from hierogram.tools.measures.results import Kept, check_settings, drawn
from hierogram.tools.papers.systems import (
    AVERAGED,
    HIERO,
    HUNDREDTH,
    MEANS,
    SYSTEMS,
    ZEROTH,
    Made,
    System,
    aligned,
    grammar_file,
    learned_store,
    make_grammar,
)
from hierogram.tools.papers.translations import Split, scored, split, translated


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of the table."""

    work: Annotated[Path, Option("Folder for all that is made; what is there already is taken.", metavar="FOLDER")]
    tuning: Annotated[int, Option("Sentences to tune on.", least=1)] = 400
    test: Annotated[int, Option("Sentences to test with.", least=1)] = 400
    longest: Annotated[int, Option("Words of a held-out sentence, at most.", least=1)] = 29
    references: Annotated[int, Option("References that a test sentence has at least.", least=1)] = 1
    max_scope: Annotated[int, Option("Leave out rules of a larger scope.", least=0)] = 2
    span: Annotated[int, Option("Words that a rule covers, at most.", least=1)] = 20
    pops: Annotated[int, Option("Places popped for each span.", least=0)] = 200
    iterations: Annotated[int, Option("Rounds of tuning.", least=1)] = 5
    threads: Annotated[int, Option("Threads of learning and tuning.", least=1)] = 2
    without_dirichlet: Annotated[
        bool, Option("Leave out the Dirichlet process: it is learned as long as the rest.")
    ] = False
    figure: Annotated[Path | None, Option("PNG to draw BLEU against the number of rules in.", metavar="FILE")] = None

    def of_results(self) -> dict[str, Any]:
        """Return the options that results depend on."""
        beside = ("work", "threads", "without_dirichlet", "figure")
        return {name: value for name, value in asdict(self).items() if name not in beside}


@dataclass(frozen=True, slots=True)
class SystemRow:
    """A row of the table: rules of scope 0, 1, …, all of them, their ratio to Hiero's, BLEU and half its 95 % interval,
    p against Hiero, processor seconds a sentence, the weight of target words.
    """

    name: str
    by_scope: list[int]
    rules: int
    ratio: float
    bleu: float
    plus_minus: float
    p: float | None
    seconds: float
    words: float


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A bitext, tokenised.")],
    wanted: TableOptions,
) -> None:
    """Make the whole table: learn, extract, tune once on Hiero's grammar, translate, compare."""
    wanted.work.mkdir(parents=True, exist_ok=True)
    check_settings(wanted.work / "settings.json", {"files": files, **wanted.of_results()})
    kept = Kept(wanted.work / "found.json")
    parts = split(
        files,
        wanted.work,
        tuning=wanted.tuning,
        test=wanted.test,
        longest=wanted.longest,
        references=wanted.references,
    )
    held_out = wanted.work / "held-out.source"
    write_lines(held_out, [*parts.tuning.sources, *parts.test.sources])
    bitext = aligned(parts.files, wanted.work, wanted.threads)
    made = []
    for system in SYSTEMS:
        if system.store == DIRICHLET and wanted.without_dirichlet:
            continue
        path = grammar_file(system, wanted.work)

        def make(system: System = system, path: Path = path) -> list[int]:
            url = learned_store(wanted.work, system.store, bitext, wanted.threads)
            return make_grammar(system, url, held_out, path, wanted.max_scope)

        made.append(Made(system, path, kept.find(f"{system.name}: rules by scope", make, path)))
        note(f"{system.name}: {plural(sum(made[-1].by_scope), 'rule')}")
    options = TranslateOptions(span=wanted.span, pops=wanted.pops, max_scope=wanted.max_scope, min_count=0.0)
    costs = translated(made, parts, wanted.work, options, wanted.iterations, wanted.threads, kept)
    scores = scored(made, parts)
    sampling = scored([one for one in made if one.system.name in (ZEROTH, HUNDREDTH)], parts)
    of_hiero = sum(made[0].by_scope[: wanted.max_scope + 1])
    rows = []
    for one, score in zip(made, scores, strict=True):
        by_scope = (one.by_scope + [0] * (wanted.max_scope + 1))[: wanted.max_scope + 1]
        rules = sum(by_scope)
        half = (score.high - score.low) / 2
        ratio = rules / max(of_hiero, 1)
        rows.append(SystemRow(score.name, by_scope, rules, ratio, score.score, half, score.p, *costs[score.name]))
    _say(rows, sampling[1].p, parts, wanted)
    if wanted.figure is not None:
        draw(rows, wanted.figure, f"{parts.pairs:,} pairs")


def _say(rows: list[SystemRow], p_of_sampling: float | None, parts: Split, wanted: TableOptions) -> None:
    content = {"pairs": parts.pairs, "p_of_sampling": p_of_sampling, "rows": [asdict(row) for row in rows]}
    (wanted.work / "table2.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    columns = [
        "grammar",
        *(f"scope {k}" for k in range(wanted.max_scope + 1)),
        "rules",
        "ratio",
        "BLEU",
        "±",
        f"p against {HIERO}",
        "s a sentence",
    ]
    cells = [
        [
            row.name,
            *(f"{number:,}" for number in row.by_scope),
            f"{row.rules:,}",
            f"{100 * row.ratio:.1f} %",
            f"{row.bleu:.2f}",
            f"{row.plus_minus:.2f}",
            _shown(row.p),
            f"{row.seconds:.3f}",
        ]
        for row in rows
    ]
    print_table(columns, cells, numeric=range(1, len(columns)))
    print()
    print(
        f"{plural(parts.pairs, 'pair')} to learn from, {len(parts.tuning.sources):,} sentences to tune on, "
        f"{len(parts.test.sources):,} to test with; {HUNDREDTH} against {ZEROTH}: p {_shown(p_of_sampling)}; "
        f"weights tuned once, with {HIERO}'s grammar, that of words fitted to each; {AVERAGED}: eight samples, the 0th "
        f"to that after the last level; {MEANS}: expected uses over the sweeps after burn-in"
    )


def _shown(p: float | None) -> str:
    """Return a probability as tables have it."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def draw(rows: Sequence[SystemRow], path: Path, title: str) -> None:
    """BLEU with its 95 % interval against the number of rules, as PNG."""
    with drawn(path, size=(8, 4.6)) as panel:
        for row, marker in zip(rows, cycle("os^vD<>PhX"), strict=False):
            panel.errorbar(row.rules, row.bleu, row.plus_minus, fmt=marker, capsize=3, label=row.name)
        panel.set_xscale("log")
        panel.set_xlabel(f"rules up to scope {len(rows[0].by_scope) - 1}")
        panel.set_ylabel("BLEU")
        panel.set_title(title)
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


if __name__ == "__main__":
    typer.run(main)
