"""Compare parsing scores of tree-substitution grammars of several seeds with a treebank's PCFG.

    python -m hierogram.tools.lab.treebank_comparison all.ptb --results runs.json --figure learning.png

The treebank contains training trees, then development trees, then test trees. The same command continues an interrupted
run.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, Any

import typer

from hierogram.daemon.cli.common import plural
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.learning.kinds.trees import TreeChain
from hierogram.daemon.text.treebanks.reading import read_trees
from hierogram.daemon.text.treebanks.transformations import Transformations, clean_tree, restore_tree
from hierogram.daemon.text.treebanks.trees import Tree
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import PCFG as PCFG_BASE
from hierogram.samplers.grammar.settings import UNIFORM
from hierogram.storage.options import Option
from hierogram.tools.lab.measures.results import ResultCache, markdown_table, save_figure
from hierogram.tools.lab.measures.treebanks import (
    count_fragments,
    list_words,
    parse_fragments,
    prepare_trees,
    sample_treebank,
    to_context_free,
)
from hierogram.tools.treebanks.approximation import approximate
from hierogram.tools.treebanks.evaluation import evaluate
from hierogram.tools.treebanks.grammars import Prior, TreeGrammar
from hierogram.tools.treebanks.parsing import Parser
from hierogram.tools.treebanks.requests import MER, MPD, MPP

PCFG, TSG = "PCFG", "TSG"
BASE_NAMES = {UNIFORM: "P_M", PCFG_BASE: "P_C"}
"""Names of the base distributions in the paper."""


@dataclass(frozen=True, slots=True)
class Task:
    """Run that scores a grammar of the first `train` trees on `test` trees after `skip` trees.

    Seed 0 is the PCFG. Other seeds sample a TSG with base distribution `base` for `annealing` + `sweeps` sweeps.
    """

    treebank: str
    train: int
    skip: int
    test: int
    seed: int
    annealing: int
    sweeps: int
    base: str
    draws: int


def run(task: Task) -> dict[str, Any]:
    """Learn a grammar, parse the test trees, and return the results."""
    transformations = Transformations()
    trees = [clean_tree(tree, transformations) for tree in read_trees(task.treebank, task.skip + task.test)]
    gold = trees[task.skip :]
    train = prepare_trees(trees[: task.train], transformations)
    priors: dict[str, Prior] | None = None
    trace: list[tuple[int, float, int]] = []
    started = time.perf_counter()
    if task.seed == 0:
        grammar = to_context_free(TreeGrammar([(tree, 1.0) for tree in train]))
    else:
        grammar, priors, trace = sample_grammar(train, task)
    learned = time.perf_counter() - started
    scores = score_parses(grammar, priors, gold, transformations, task)
    return {
        "task": asdict(task),
        "grammar": TSG if task.seed else PCFG,
        "rules": len(grammar.fragments),
        "trace": trace,
        "learning_seconds": learned,
        **scores,
    }


def sample_grammar(
    train: Sequence[Tree], task: Task
) -> tuple[TreeGrammar, dict[str, Prior], list[tuple[int, float, int]]]:
    """Sample a TSG. Returns the grammar of the last sample, its priors by label, and a trace.

    The trace contains (sweep, log-likelihood, number of fragments) of about 40 evenly spaced sweeps.
    """
    trace: list[tuple[int, float, int]] = []
    period = max(1, (task.annealing + task.sweeps) // 40)

    def report(sweep: int, chain: TreeChain) -> None:
        if sweep % period == 0:
            trace.append((sweep, chain.log_likelihood(), len(count_fragments(chain))))

    chain = sample_treebank(
        [str(tree) for tree in train],
        base=task.base,
        seed=task.seed,
        annealing=Annealing(task.annealing),
        sweeps=task.sweeps,
        report=report,
    )
    return (
        TreeGrammar(parse_fragments(chain)),
        {label: Prior(*parameters) for label, *parameters in chain.labels()},
        trace,
    )


def score_parses(
    grammar: TreeGrammar,
    priors: dict[str, Prior] | None,
    gold: Sequence[Tree],
    transformations: Transformations,
    task: Task,
) -> dict[str, Any]:
    """Return scores of test parses by objective, speed of MER, and number of sentences without a parse."""
    approximation = approximate(grammar, transformations.root, priors, smoothed=task.seed > 0, base=task.base)
    parser = Parser(approximation, transformations.root, 0, task.seed)
    trees_by_objective: dict[str, list[Tree]] = {}
    unparsed = 0
    seconds = 0.0
    for number, tree in enumerate(gold):
        words = list_words(tree)
        started = time.perf_counter()
        parsed = parser.parse(words, number, MER)
        if number > 0:
            # Omit the first sentence, which may include compilation.
            seconds += time.perf_counter() - started
        unparsed += not parsed.found
        guesses = {MER: parsed.tree, MPD: parser.parse(words, number, MPD).tree}
        if task.draws:
            sampler = Parser(approximation, transformations.root, task.draws, max(1, task.seed))
            guesses[MPP] = sampler.parse(words, number, MPP).tree
        for objective, guess in guesses.items():
            trees_by_objective.setdefault(objective, []).append(restore_tree(guess, transformations))
    scores = {
        objective: {which: asdict(score) for which, score in evaluate(gold, guesses).items()}
        for objective, guesses in trees_by_objective.items()
    }
    speed = (len(gold) - 1) / max(seconds, 1e-9)
    return {"scores": scores, "sentences_per_second": speed, "unparsed": unparsed}


OBJECTIVES = {
    MPD: "MPD, best derivation",
    MPP: "MPP, tree drawn most often",
    MER: "MER, most expected productions",
}


def grammar_name(row: dict[str, Any]) -> str:
    """Return the name of a run's grammar, including the base distribution of a TSG."""
    return f"{TSG}, {BASE_NAMES[row['task']['base']]}" if row["grammar"] == TSG else PCFG


def format_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of the scores: means and standard deviations over the seeds."""
    columns = ["grammar", "rules", "tree", "precision, %", "recall, %", "F1, %", "F1, ≤ 40 words, %", "exact trees, %"]
    table_rows = []
    for kind in dict.fromkeys(map(grammar_name, rows)):
        chosen_rows = [row for row in rows if grammar_name(row) == kind]
        for objective, name in OBJECTIVES.items():
            scores = [row["scores"][objective] for row in chosen_rows if objective in row["scores"]]
            if not scores:
                continue
            cells = [
                _format_mean([100 * score[trees][figure] for score in scores])
                for trees, figure in (
                    ("all", "precision"), ("all", "recall"), ("all", "f1"), ("up_to_cutoff", "f1"), ("all", "exact"),
                )
            ]  # fmt: skip
            rules = _format_mean([row["rules"] for row in chosen_rows], "{:,.0f}")
            table_rows.append([kind, rules, name, *cells])
    return markdown_table(columns, table_rows)


def _format_mean(values: Sequence[float], form: str = "{:.1f}") -> str:
    """Format the mean and the standard deviation, or a single value."""
    if len(values) == 1:
        return form.format(values[0])
    return f"{form.format(mean(values))} ± {form.format(stdev(values))}"


def draw(runs: Sequence[dict[str, Any]], curve_runs: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw log-likelihood and size against sweeps, and F1 of `curve_runs` against training trees, as PNG."""
    number = 3 if curve_runs else 2
    with save_figure(path, 1, number, size=(4.7 * number, 4.2)) as panels:
        for row in runs:
            if row["trace"]:
                sweeps, likelihoods, sizes = zip(*row["trace"], strict=True)
                panels[0].plot(sweeps, likelihoods, label=f"{grammar_name(row)}, seed {row['task']['seed']}")
                panels[1].plot(sweeps, sizes)
        panels[0].set(xlabel="sweeps", ylabel="log-likelihood")
        panels[0].legend(loc="lower right")
        panels[1].set(xlabel="sweeps", ylabel="fragments in use")
        if curve_runs:
            for kind, objective, style in ((PCFG, MPD, "s--"), (TSG, MPD, "o-."), (TSG, MER, "o-")):
                chosen_rows = sorted(
                    (row for row in curve_runs if row["grammar"] == kind), key=lambda row: row["task"]["train"]
                )
                trees = [row["task"]["train"] for row in chosen_rows]
                f1 = [100 * row["scores"][objective]["all"]["f1"] for row in chosen_rows]
                panels[2].plot(trees, f1, style, label=f"{kind}, {objective.upper()}")
            panels[2].set(xlabel="training trees", ylabel="F1, development trees")
            panels[2].legend(loc="lower right")
        for panel in panels:
            panel.grid(alpha=0.3)


@dataclass(frozen=True, slots=True)
class RunSetOptions:
    """Options of the runs."""

    train: Annotated[int, Option("Number of training trees, from the beginning of the file.", min=1)] = 2000
    dev: Annotated[int, Option("Number of development trees for the learning curve.", min=0)] = 200
    test: Annotated[int, Option("Number of test trees, after the development trees.", min=1)] = 400
    seeds: Annotated[int, Option("Number of seeds, starting at 1.", min=1)] = 5
    annealing: Annotated[int, Option("Sweeps while the temperature falls from 5 to 1.", min=0)] = 400
    sweeps: Annotated[int, Option("Sweeps at temperature 1, after the annealing.", min=0)] = 50
    draws: Annotated[int, Option("Derivations to draw for MPP; 0 to omit MPP.", min=0)] = 1000
    jobs: Annotated[int, Option("Number of parallel processes.", min=1)] = 2


@with_options
def compare(
    runs: RunSetOptions,
    treebank: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trees in Penn brackets.")],
    results: Annotated[Path, typer.Option(help="JSON file of runs; existing runs are reused.")],
    figure: Annotated[Path | None, typer.Option(help="PNG file of learning curves.")] = None,
) -> None:
    """Score TSGs of several seeds and the PCFG on a treebank, and print the table as Markdown."""
    trees = str(treebank)
    train, dev = runs.train, runs.dev
    chains = [(PCFG_BASE, 0), *((base, seed) for base in BASE_NAMES for seed in range(1, runs.seeds + 1))]
    schedule = runs.annealing, runs.sweeps
    tasks = [
        Task(trees, train, train + dev, runs.test, seed, *schedule, base, runs.draws if seed else 0)
        for base, seed in chains
    ]
    sizes = [train // 8, train // 4, train // 2, train] if figure and dev else []
    curve_runs = [Task(trees, size, train, dev, seed, *schedule, PCFG_BASE, 0) for size in sizes for seed in (0, 1)]
    cache = ResultCache(results)
    all_tasks = [*tasks, *curve_runs]
    names = [json.dumps({**asdict(task), "treebank": treebank.name}, sort_keys=True) for task in all_tasks]
    with ProcessPoolExecutor(runs.jobs) as pool:
        futures = {
            name: pool.submit(run, task) for name, task in zip(names, all_tasks, strict=True) if name not in cache
        }
        for name, future in futures.items():
            cache.get_or_make(name, future.result)
    rows = [cache[name] for name in names]
    print(format_table(rows[: len(tasks)]))
    for row in rows[: len(tasks)]:
        task, unparsed = row["task"], row["unparsed"]
        print(
            f"{grammar_name(row)}, seed {task['seed']}: {row['rules']:,} rules in {row['learning_seconds']:.0f} s, "
            f"{row['sentences_per_second']:.1f} sentences/s by MER, {plural(unparsed, 'sentence')} without a parse"
        )
    if figure:
        draw(rows[: len(tasks)], rows[len(tasks) :], figure)


if __name__ == "__main__":
    typer.run(compare)
