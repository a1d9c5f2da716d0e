"""Run the experiments of the five papers on small data, and check the claims of the papers.

    python -m hierogram.tools.lab.papers.claims corpus.zh corpus.en all.ptb --work claims

docs/papers.md has the commands for the documented figures. The same command continues an interrupted run.
"""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN
from typing import Annotated, NamedTuple

import typer

from hierogram.daemon.cli.common import plural, print_note
from hierogram.tools.lab.measures.results import ResultCache, processor_seconds, run_module

_MAX_SHARE = 0.2
"""Share of the whole work up to which masks must be better than tic-tac-toe pruning."""


class Finding(NamedTuple):
    """Claim of a paper: table, figure or section, statement, True if it holds in this run, and figures."""

    citation: str
    claim: str
    holds: bool
    figures: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """Paths of the source sentences, the target sentences and the treebank, and the folder of all results."""

    source: str
    target: str
    trees: str
    work: Path

    def path(self, name: str) -> str:
        """Return the path of a result, relative to the folder of results, as text."""
        return str(self.work / name)


@dataclass(frozen=True, slots=True)
class PaperRun:
    """Module of `tools/lab`, its arguments, and the claims that its output supports or contradicts."""

    program: str
    arguments: Callable[[Inputs], list[str]]
    findings: Callable[[Inputs, str], Iterator[Finding]]


def above(citation: str, claim: str, value: float, bound: float) -> Finding:
    """Return a finding that holds if a figure is above a bound."""
    return Finding(citation, claim, value > bound, f"{value:,.6g} {'>' if value > bound else '≤'} {bound:,.6g}")


def _read_table(path: str, delimiter: str = ",") -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def _means_at_end(data: Inputs, name: str, column: str = "label") -> dict[str, tuple[float, float]]:
    """Return mean log-likelihood and seconds after the last sweep in `NAME.csv`, by values of `column`."""
    rows = _read_table(data.path(f"{name}.csv"))
    ends_by_label: dict[str, tuple[float, float]] = {}
    for label in dict.fromkeys(row[column] for row in rows):
        chosen_rows = [row for row in rows if row[column] == label]
        last = max(int(row["sweep"]) for row in chosen_rows)
        ends = [row for row in chosen_rows if int(row["sweep"]) == last]
        ends_by_label[label] = (
            sum(float(row["log_likelihood"]) for row in ends) / len(ends),
            sum(float(row["seconds"]) for row in ends) / len(ends),
        )
    return ends_by_label


def _sampling_arguments(name: str, pairs: int, sweeps: int, runs: int, data: Inputs) -> list[str]:
    options = f"--pairs {pairs} --sweeps {sweeps} --runs {runs} --figure".split()
    return [name, data.source, data.target, data.path("links.gdfa"), *options, data.path(f"{name}.png")]


def _figure_5(data: Inputs, output: str) -> Iterator[Finding]:
    ends = _means_at_end(data, "figure-5")
    claim = "log-likelihood: top-down above Metropolis-Hastings"
    yield above("[CFGŠ14] Figure 5", claim, ends["top-down"][0], ends["Metropolis-Hastings"][0])


def _figure_6(data: Inputs, output: str) -> Iterator[Finding]:
    first, second = (end for end, _ in _means_at_end(data, "figure-6").values())
    yield above("[CFGŠ14] Figure 6", "log-likelihood: with density factor above without", first, second)


def _stratified(data: Inputs, output: str) -> Iterator[Finding]:
    (stratified, seconds), (unstratified, unstratified_seconds) = _means_at_end(data, "stratified").values()
    claim, figures = (
        "log-likelihood: stratified within 1 % of every level",
        f"{stratified:,.0f} and {unstratified:,.0f}",
    )
    yield Finding("[CFGŠ14] §5.3", claim, abs(stratified / unstratified - 1) < 0.01, figures)
    yield above("[CFGŠ14] §5.3", "processor seconds: every level above stratified", unstratified_seconds, seconds)


def _processes(data: Inputs, output: str) -> Iterator[Finding]:
    ends = _means_at_end(data, "processes")
    pitman_yor, dirichlet = ends["Pitman-Yor, by length"][0], ends["Dirichlet, by length (d = 0)"][0]
    yield above("[CFGŠ14] §5.4.3", "log-likelihood: Pitman-Yor above d = 0", pitman_yor, dirichlet)


def _table_2(data: Inputs, output: str) -> Iterator[Finding]:
    table = json.loads(Path(data.path("table2/table2.json")).read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in table["rows"]}
    bleu, rules = ({name: row[figure] for name, row in rows.items()} for figure in ("bleu", "rules"))
    citation, single, averaged = "[CFGŠ14] Table 2", "100th sample", "averaged"
    yield above(citation, "BLEU: 100th sample above 0th", bleu[single], bleu["0th sample"])
    yield above(citation, "rules: averaged above one sample", rules[averaged], rules[single])
    yield above(citation, "rules: no singletons above averaged", rules["no singletons"], rules[averaged])
    yield above(citation, "BLEU: averaged above no singletons", bleu[averaged], bleu["no singletons"])
    p, scores = rows[averaged]["p"], f"{bleu[averaged]:.2f} and {bleu['Hiero']:.2f}"
    is_as_good = bleu[averaged] >= bleu["Hiero"] or p > 0.05
    yield Finding(citation, "BLEU: averaged not significantly below Hiero", is_as_good, f"{scores}, p {p:.3f}")
    yield above(citation, "BLEU: Pitman-Yor above d = 0", bleu[single], bleu[f"{single}, d = 0"])
    seconds = [rows[name]["seconds"] for name in (averaged, f"{averaged}, Hiero's constraints")]
    yield above("[CFGŠ14] §5.4.3", "s per sentence: averaged above Hiero's constraints", *seconds)


def _slices(data: Inputs, output: str) -> Iterator[Finding]:
    ends = _means_at_end(data, "slices/figure", "sampler")
    citation = "[BC10] Table 1, Figure 1"
    slices = [end for name, (end, _) in ends.items() if name.startswith("slice")]
    gibbs = [end for name, (end, _) in ends.items() if name.startswith("gibbs")]
    flat = [end for name, (end, _) in ends.items() if name.startswith("flat")]
    yield above(citation, "ln P: every slice run above every local run", min(slices), max(gibbs))
    yield above(citation, "ln P: every flat-slice run above every local run (not of the paper)", min(flat), max(gibbs))
    yield above(citation, "ln P, local: M4 above M1", ends["gibbs M4"][0], ends["gibbs M1"][0])
    yield above(citation, "ln P, local: M1 above LB", ends["gibbs M1"][0], ends["gibbs LB"][0])
    yield above(citation, "ln P, slices: M1 above LB", ends["slice a=0.15 M1"][0], ends["slice a=0.15 LB"][0])
    yield above(citation, "ln P, slices: a = 0.15 above 0.25", ends["slice a=0.15 M1"][0], ends["slice a=0.25 M1"][0])
    yield above(
        citation, "processor seconds: slices above local moves", ends["slice a=0.25 M1"][1], ends["gibbs M1"][1]
    )


def _slices_and_phrases(data: Inputs, output: str) -> Iterator[Finding]:
    ends = _means_at_end(data, "phrases/figure", "sampler")
    citation = "[BC10] Table 1, phrases in the local sampler"
    likelihoods = {
        name: [ends[f"{name} {start}"][0] for start in ("LB", "M1", "M4")] for name in ("gibbs", "flat a=0.15")
    }
    words = [ends[f"slice a=0.15 {start} words only"][0] for start in ("LB", "M1", "M4")]
    claim = "ln P: slices with words only above every local run with phrases"
    yield above(citation, claim, min(words), max(likelihoods["gibbs"]))
    flat = "ln P: flat slices with phrases above every local run with phrases (not of the paper)"
    yield above(citation, flat, min(likelihoods["flat a=0.15"]), max(likelihoods["gibbs"]))


def _aligners(data: Inputs, output: str) -> Iterator[Finding]:
    rows = json.loads(Path(data.path("aligners/figure1.json")).read_text(encoding="utf-8"))
    for symmetrization in ("directional", "symmetrized"):
        rows_by_aligner = {row["aligner"]: row for row in rows if row["symmetrization"] == symmetrization}
        citation = f"[SA16] Figure 1, {symmetrization}"
        links = rows_by_aligner["bhmm"]["links"]
        fewest = min(row["links"] for name, row in rows_by_aligner.items() if name != "bhmm")
        yield above(citation, "links: all other aligners above bhmm", fewest, links)
        bhmm, bhmm_z = rows_by_aligner["bhmm"], rows_by_aligner["bhmm-z"]
        yield above(citation, "phrases: bhmm above bhmm-z", bhmm["phrases"], bhmm_z["phrases"])
        yield above(citation, "BLEU of phrases: bhmm-z above bhmm", bhmm_z["bleu"]["phrases"], bhmm["bleu"]["phrases"])
    seconds = {row["aligner"]: row["seconds"] for row in rows}
    yield above("[SA16] §5", "processor seconds: bhmm-z above bhmm", seconds["bhmm-z"], seconds["bhmm"])


def _trees(data: Inputs, output: str) -> Iterator[Finding]:
    runs = list(json.loads(Path(data.path("trees.json")).read_text(encoding="utf-8")).values())
    [pcfg] = [run for run in runs if run["grammar"] == "PCFG"]
    for base, name in (("uniform", "P_M"), ("pcfg", "P_C")):
        [tsg] = [run for run in runs if run["grammar"] == "TSG" and run["task"]["base"] == base]
        f1 = {method: score["all"]["f1"] for method, score in tsg["scores"].items()}
        worst = min(f1[method] for method in ("mpd", "mpp", "mer"))
        citation = f"[CGB09] Table 1, {name}"
        yield above(citation, "F1: TSG above the PCFG", worst, pcfg["scores"]["mpd"]["all"]["f1"])
        yield above(citation, "F1: MER above MPD and MPP", f1["mer"], max(f1["mpd"], f1["mpp"]))
    sizes = {run["task"]["base"]: run["rules"] for run in runs if run["grammar"] == "TSG"}
    yield above("[CGB09] Table 1", "rules: P_C above P_M", sizes["pcfg"], sizes["uniform"])


def _ten_rules(data: Inputs, output: str) -> Iterator[Finding]:
    runs = output.count("10 rules of 10")
    figures = f"{plural(runs, 'seed')} with all rules"
    yield Finding("[CGB09] Figure 3", "all ten rules are found", runs == output.count("seed "), figures)


def _fragments(data: Inputs, output: str) -> Iterator[Finding]:
    _, _, below = output.partition("Figure 4")
    table = [line.split("\t") for line in below.splitlines()[1:]]
    rows = {cells[0]: [int(cell.replace(",", "")) for cell in cells[1:]] for cells in table}
    height, words, frontiers = rows["height"], rows["words"], rows["frontiers"]
    citation = "[CGB09] Figure 4"
    yield above(citation, "fragments: heights of 2 to 4 above larger heights", sum(height[2:5]), sum(height[5:]))
    yield above(citation, "fragments: up to two words above more words", sum(words[:3]), sum(words[3:]))
    few, others = sum(frontiers[1:3]), frontiers[0] + sum(frontiers[3:])
    yield above(citation, "fragments: one or two frontier nonterminals above other numbers", few, others)


def _pruning(data: Inputs, output: str) -> Iterator[Finding]:
    rows = _read_table(data.path("pruning.tsv"), "\t")
    size = [float(row["size"]) for row in rows]
    middle = sorted(size)[len(size) // 2]

    def mean(column: str, large: bool) -> float:
        column_values = [
            float(row[column]) for row, row_size in zip(rows, size, strict=True) if (row_size > middle) == large
        ]
        return sum(column_values) / len(column_values)

    citation = "[BPK09] Figure 4"
    ratios = [mean("exact edges", large) / mean("mask edges", large) for large in (True, False)]
    yield above(f"{citation} b", "edges, whole chart over mask: longer pairs above shorter pairs", *ratios)
    growth = [mean(column, True) - mean(column, False) for column in ("one mask", "half the work")]
    yield above(f"{citation} c", "growth of the squared error with size: one mask above half the work", *growth)
    _, _, below = output.partition("all pairs: share of work")
    cells = [line.split("\t") for line in below.partition("masks per pair")[0].splitlines()[1:]]
    column_values = [
        (float(share), float(cut), float(masks)) for _, share, cut, masks, _ in filter(lambda row: len(row) > 4, cells)
    ]
    better = sum(masks < cut for share, cut, masks in column_values if share <= _MAX_SHARE)
    total = sum(share <= _MAX_SHARE for share, _, _ in column_values)
    claim = "squared error: masks below tic-tac-toe up to a fifth of the work"
    yield Finding(f"{citation} d", claim, better == total, f"{better} of {total} thresholds")


def _every_pair(data: Inputs, output: str) -> Iterator[Finding]:
    milliseconds = float(output.splitlines()[1].split("\t")[4])
    paper = 28 * 60_000 / 1493
    yield above("[BPK09] §4.1", "ms per pair: paper above Hierogram", paper, milliseconds)


def _soft_counts(data: Inputs, output: str) -> Iterator[Finding]:
    rows = [line.split("\t") for line in output.splitlines()[1:]]
    likelihoods = {
        mask: [float(row[2]) for row in rows if row[0] == mask] for mask in dict.fromkeys(row[0] for row in rows)
    }
    exact, masks = likelihoods["exact"], likelihoods["16 masks"]
    gained = (masks[-1] - masks[0]) / (exact[-1] - exact[0])
    claim = "log-likelihood: soft counts reach 90 % of the gain of exact counts"
    yield Finding("[BPK09] §3.3", claim, gained > 0.9, f"{gained:.0%}")


def _bitext(data: Inputs, *options: str) -> list[str]:
    return [data.source, data.target, *options]


EXPERIMENTS = (
    PaperRun("papers.sampling", partial(_sampling_arguments, "figure-5", 200, 20, 2), _figure_5),
    PaperRun("papers.sampling", partial(_sampling_arguments, "figure-6", 200, 30, 5), _figure_6),
    PaperRun("papers.sampling", partial(_sampling_arguments, "stratified", 200, 100, 2), _stratified),
    PaperRun("papers.sampling", partial(_sampling_arguments, "processes", 200, 100, 2), _processes),
    PaperRun(
        "papers.table2",
        lambda data: _bitext(
            data, *("--work", data.path("table2"), "--pairs", "1500", "--tuning", "60", "--test", "100"),
            *("--iterations", "2"),
        ),
        _table_2,
    ),
    PaperRun(
        "papers.slice_sampling",
        lambda data: _bitext(
            data, *("--work", data.path("slices"), "--pairs", "30", "--sweeps", "60"),
            *("--exhaustive", "0", "--min-a", "0.15"),
        ),
        _slices,
    ),
    PaperRun(
        "papers.slice_sampling",
        lambda data: _bitext(
            data, *("--work", data.path("phrases"), "--pairs", "30", "--sweeps", "60"),
            *("--exhaustive", "0", "--phrases", "2"),
        ),
        _slices_and_phrases,
    ),
    PaperRun(
        "papers.aligners",
        lambda data: _bitext(
            data, *("--work", data.path("aligners"), "--pairs", "1000", "--tuning", "40", "--test", "60"),
            *("--iterations", "2", "--only", "bhmm,bhmm-z,bhmm-f"),
        ),
        _aligners,
    ),
    PaperRun(
        "treebank_comparison",
        lambda data: [
            data.trees, "--results", data.path("trees.json"), *("--train", "300", "--dev", "0", "--test", "60"),
            *("--seeds", "1", "--annealing", "60", "--sweeps", "10", "--draws", "100", "--jobs", "1"),
        ],
        _trees,
    ),
    PaperRun("papers.ten_rules", lambda data: ["--seeds", "3"], _ten_rules),
    PaperRun("papers.fragments", lambda data: [data.path("trees.fragments")], _fragments),
    PaperRun(
        "papers.randomized_pruning",
        lambda data: _bitext(
            data, data.path("links"), "--pairs", "6", "--grammars", "itg", "-o", data.path("pruning.png")
        ),
        _pruning,
    ),
    PaperRun(
        "papers.pruning.every_pair",
        lambda data: _bitext(data, data.path("links"), "--every", "50", "-o", data.path("pass.json")),
        _every_pair,
    ),
    PaperRun(
        "papers.pruning.learning",
        lambda data: _bitext(data, data.path("links"), "--pairs", "30", "--iterations", "5", "--masks", "16"),
        _soft_counts,
    ),
)  # fmt: skip


def _run_program(program: str, *arguments: str) -> tuple[str, float]:
    """Run a program of the lab. Returns its output and processor seconds."""
    started = processor_seconds(RUSAGE_CHILDREN)
    output = run_module(f"hierogram.tools.lab.{program}", *arguments)
    return output, processor_seconds(RUSAGE_CHILDREN) - started


def prepare(work: Path) -> None:
    """Align `few.source` and `few.target`, and learn fragments of `few.trees`, unless the results exist."""
    align, store = ("align", "few.source", "few.target", "--symmetrize"), ("--store", "sqlite:///trees.db")
    commands: dict[str, list[tuple[str, ...]]] = {
        "links": [(*align, "union", "--score", "-o", "links")],
        "links.gdfa": [(*align, "gdfa", "-o", "links.gdfa")],
        "trees.fragments": [
            (*store, "ingest", "--trees", "few.trees"), (*store, "learn"),
            (*store, "export", "--format", "fragments", "-o", "trees.fragments"),
        ],
    }  # fmt: skip
    for name, name_commands in commands.items():
        if not (work / name).exists():
            for command in name_commands:
                run_module("hierogram", *command, folder=work)


def main(
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Tokenized source sentences.")],
    target: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Target sentences.")],
    treebank: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trees in Penn brackets.")],
    work: Annotated[Path, typer.Option(help="Folder of all results; existing ones are reused.")],
    pairs: Annotated[int, typer.Option(min=100, help="Number of pairs to read from the bitext.")] = 3000,
    only: Annotated[str, typer.Option(help="Run only experiments whose program name contains this text.")] = "",
) -> None:
    """Run the experiments, and print claims with figures. The exit code is 1 if a claim does not hold."""
    work.mkdir(parents=True, exist_ok=True)
    data = Inputs(str(work / "few.source"), str(work / "few.target"), str(treebank), work)
    for path, part, number in (
        (source, "few.source", pairs),
        (target, "few.target", pairs),
        (treebank, "few.trees", 400),
    ):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        Path(data.path(part)).write_text("".join(lines[:number]), encoding="utf-8")
    prepare(work)
    cache, failed = ResultCache(work / "outputs.json"), 0
    print("where", "claim", "holds", "figures", sep="\t")
    for experiment in EXPERIMENTS:
        if only not in experiment.program:
            continue
        arguments = experiment.arguments(data)
        run: Callable[[], tuple[str, float]] = partial(_run_program, experiment.program, *arguments)
        output, seconds = cache.get_or_make(" ".join([experiment.program, *arguments]), run)
        print_note(f"{experiment.program}: {seconds:.0f} s of processor time")
        for finding in experiment.findings(data, output):
            failed += not finding.holds
            holds = "yes" if finding.holds else "NO"
            print(finding.citation, finding.claim, holds, finding.figures, sep="\t", flush=True)
    raise typer.Exit(failed > 0)


if __name__ == "__main__":
    typer.run(main)
