"""The grammar that is exported by default beside its rivals: what each translates, over several chains.

python -m hierogram.tools.papers.rivals corpus.es corpus.en --work rivals --chains 4

Weights are tuned for each grammar, as users do; and once, with Hiero's grammar and all features. What is found is kept
in the folder, step by step; the same command goes on where it was interrupted.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.commands.common import note, plural, print_table
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.corpora.lines import read_sentences, write_lines
from hierogram.daemon.decoding.grammars import read_weights, write_weights
from hierogram.daemon.decoding.opening import TranslationResources, equip
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exports.options import SMOOTHING, Counted
from hierogram.daemon.language_models.files import make as make_model
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.progress import progress
from hierogram.daemon.tuning.bleu import References, bleu_of
from hierogram.daemon.tuning.evaluation import evaluate
from hierogram.daemon.tuning.options import EvaluationOptions
from hierogram.storage.options import Option
from hierogram.tools.comparison.pruning import ENTROPY, MASS, SIGNIFICANCE, Pruning
from hierogram.tools.measures.results import Kept, check_settings
from hierogram.tools.papers.systems import (
    AVERAGED,
    DEFAULT,
    HIERO,
    MEANS,
    SAMPLES,
    Made,
    System,
    aligned,
    grammar_file,
    learned_store,
    make_grammar,
)
from hierogram.tools.papers.translations import Split, split, tuned_weights

TRANSLATION = "translation grammar"
ALL = "all features"
_TENTH = 10
_LM_ORDER = 3
_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class RivalOptions:
    """Options of the comparison."""

    work: Annotated[Path, Option("Folder for all that is made; what is there already is taken.", metavar="FOLDER")]
    chains: Annotated[int, Option("Stores that learn, each with its own seed.", least=1)] = 4
    tuning: Annotated[int, Option("Sentences to tune on.", least=1)] = 400
    test: Annotated[int, Option("Sentences to test with.", least=1)] = 400
    longest: Annotated[int, Option("Words of a held-out sentence, at most.", least=1)] = 29
    references: Annotated[int, Option("References that a test sentence has at least.", least=1)] = 1
    pairs: Annotated[int | None, Option("Pairs to take of the bitext, evenly spaced.", least=1, shown="all")] = None
    max_scope: Annotated[int, Option("Leave out rules of a larger scope.", least=0)] = 2
    pops: Annotated[int, Option("Places popped for each span.", least=0)] = 200
    iterations: Annotated[int, Option("Rounds of tuning.", least=1)] = 8
    seeds: Annotated[
        int, Option("Seeds of tuning for each grammar; their mean counts. 0: weights are tuned once.", least=0)
    ] = 1
    threads: Annotated[int, Option("Threads of learning and tuning.", least=1)] = 2
    only: Annotated[
        tuple[str, ...], Option("Only grammars of these names, or whose names hold one.", metavar="NAMES")
    ] = ()

    def of_results(self) -> dict[str, Any]:
        """Return the options that results depend on."""
        return {
            name: value for name, value in asdict(self).items() if name not in ("work", "threads", "chains", "only")
        }


@dataclass(frozen=True, slots=True)
class RivalRow:
    """A row of the table; figures are means over chains, `spread` is from the lowest BLEU to the highest.

    `rules` of the whole grammar up to the scope; `bytes` of the file that is filtered for the held-out text; seconds to
    write that file, and processor seconds to translate a sentence. `untuned`: BLEU with the built-in weights, `once`
    with those that are tuned with the first grammar. `start_won`: how often the weights that tuning began with were the
    best. `p` that its BLEU differs from that of the first row by chance, over sentences and chains; `p_of_means` that
    it differs from that of posterior means.
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
    start_won: int
    p: float | None = None
    p_of_means: float | None = None


@with_options
def main(
    files: Annotated[list[str], typer.Argument(metavar="SOURCE TARGET [ALIGNMENT]", help="A bitext, tokenised.")],
    wanted: RivalOptions,
) -> None:
    """Learn, extract, prune, export, tune for each grammar, translate, and compare."""
    work = wanted.work
    work.mkdir(parents=True, exist_ok=True)
    check_settings(work / "settings.json", {"files": files, **wanted.of_results()})
    kept = Kept(work / "found.json")
    parts = _divided(files, wanted)
    held_out = work / "held-out.source"
    write_lines(held_out, [*parts.tuning.sources, *parts.test.sources])
    bitext = aligned(parts.files, work, wanted.threads)
    model = work / "target.lm"
    if not model.exists():
        with progress("lm", "n-grams") as shown:
            make_model([parts.files[1]], [model], EstimationOptions(order=_LM_ORDER), shown)
    options = TranslateOptions(pops=wanted.pops, max_scope=wanted.max_scope, lm=str(model))
    table = _Table(wanted, parts, bitext, held_out, equip(options), kept)
    rows = table.compared([table.row(systems) for systems in table.rivals()])
    (work / "rivals.json").write_text(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n")
    _say(rows, parts, wanted)


def _divided(files: Sequence[str], wanted: RivalOptions) -> Split:
    """Divide the bitext, or evenly spaced pairs of it."""
    if wanted.pairs is not None:
        cut = []
        for side, path in zip(("source", "target", "align"), files, strict=False):
            lines = read_sentences(path)
            most = min(wanted.pairs, len(lines))
            cut.append(wanted.work / f"pairs.{side}")
            write_lines(cut[-1], (lines[k * len(lines) // most] for k in range(most)))
        files = list(map(str, cut))
    return split(
        files,
        wanted.work,
        tuning=wanted.tuning,
        test=wanted.test,
        longest=wanted.longest,
        references=wanted.references,
    )


class _Table:
    """Hold what the comparison has to translate with, and what it has found so far."""

    def __init__(
        self,
        wanted: RivalOptions,
        parts: Split,
        bitext: list[str],
        held_out: Path,
        equipment: TranslationResources,
        kept: Kept,
    ) -> None:
        self._wanted = wanted
        self._parts = parts
        self._bitext = bitext
        self._held_out = held_out
        self._equipment = equipment
        self._kept = kept
        self._statistics = [References([tuple(line.split()) for line in own]) for own in parts.test.references]
        self._found: dict[str, NDArray[np.float64]] = {}
        self._seconds: dict[str, float] = {}
        self._rules_of_first = 0

    def rivals(self) -> list[list[System]]:
        """Return the grammars of each row: one, or one of each chain. Hiero with all features comes first."""
        chains = range(1, self._wanted.chains + 1)
        hiero = System(f"{HIERO}, {ALL}", DEFAULT, heuristic=True, features=None, smoothing=SMOOTHING)
        default = System(TRANSLATION, DEFAULT, Counted.TRANSLATION, features=None)
        rules = self._rules(hiero)
        ours = self._rules(default)
        rows = [
            [hiero],
            [replace(default, chain=chain) for chain in chains],
            [System(MEANS, DEFAULT, chain=chain) for chain in chains],
            [System(f"{MEANS}, {ALL}", DEFAULT, features=None, smoothing=SMOOTHING, chain=chain) for chain in chains],
            [System(HIERO, DEFAULT, heuristic=True)],
            *(
                [replace(hiero, name=f"{HIERO} {said} {by}", pruning=Pruning(by, number, self._wanted.max_scope))]
                for said, by, number in (
                    ("of our size by", MASS, ours),
                    ("of our size by", SIGNIFICANCE, ours),
                    ("of our size by", ENTROPY, ours),
                    ("best tenth by", MASS, rules // _TENTH),
                )
            ),
            [System(AVERAGED, SAMPLES)],
            [System(f"{AVERAGED}, {ALL}", SAMPLES, features=None, smoothing=SMOOTHING)],
        ]
        wanted = _chosen(self._wanted.only, [row[0].name for row in rows])
        return [row for row in rows if row[0] == hiero or row[0].name in wanted]

    def row(self, systems: Sequence[System]) -> RivalRow:
        """Return the row of a grammar, over its chains."""
        found = [self._of_chain(system) for system in systems]
        outputs = [output for output, _ in found]
        name = systems[0].name
        self._found[name] = np.stack([self._of_lines(read_sentences(str(output))) for output in outputs])
        self._rules_of_first = self._rules_of_first or self._rules(systems[0])
        bleu = [figures["tuned"] for _, figures in found]

        def mean(name: str) -> float:
            return float(np.mean([figures[name] for _, figures in found]))

        return RivalRow(
            name,
            len(systems),
            mean("rules"),
            mean("rules") / max(self._rules_of_first, 1),
            mean("bytes"),
            mean("export_seconds"),
            mean("seconds"),
            float(np.mean(bleu)),
            [min(bleu), max(bleu)],
            mean("chrf"),
            mean("once"),
            mean("untuned"),
            sum(int(figures["start_won"]) for _, figures in found),
        )

    def compared(self, rows: Sequence[RivalRow]) -> list[RivalRow]:
        """Return the rows with their p against the first one, and against posterior means where these are there."""

        def p(name: str, other: str) -> float | None:
            known = other in self._found and name != other
            return p_of_difference(self._found[other], self._found[name]) if known else None

        return [replace(row, p=p(row.name, rows[0].name), p_of_means=p(row.name, MEANS)) for row in rows]

    def _rules(self, system: System) -> int:
        return sum(self._made(system).by_scope[: self._wanted.max_scope + 1])

    def _named(self, system: System) -> str:
        return f"{system.name}, chain {system.chain}"

    def _made(self, system: System) -> Made:
        named = self._named(system)
        path = grammar_file(replace(system, name=named), self._wanted.work)

        def make() -> list[Any]:
            url = learned_store(self._wanted.work, system.store, self._bitext, self._wanted.threads, system.chain)
            started = time.perf_counter()
            by_scope = make_grammar(system, url, self._held_out, path, self._wanted.max_scope)
            note(f"{named}: {plural(sum(by_scope), 'rule')}")
            return [by_scope, time.perf_counter() - started]

        by_scope, self._seconds[named] = self._kept.find(f"{named}: rules by scope, seconds", make, path)
        return Made(system, path, by_scope)

    def _of_chain(self, system: System) -> tuple[Path, dict[str, float]]:
        """Return the translations of a grammar, with weights that are tuned for it, and its figures."""
        made, named, wanted = self._made(system), self._named(system), self._wanted
        output = made.file.with_suffix(".out")

        def find() -> dict[str, float]:
            grammar = self._equipment.grammar(str(made.file))
            test, references = self._parts.test.sources, self._parts.test.columns()

            def bleu_and_chrf(weights: dict[str, float], out: Path) -> tuple[float, float, float]:
                translator = self._equipment.translator(grammar, weights)
                translator.translate(test[0])
                started = time.process_time()
                lines = [found.text for found in translator.translate_all(test, threads=wanted.threads)]
                seconds = (time.process_time() - started) / len(test)
                write_lines(out, lines)
                return *scores(lines, references), seconds

            untuned, _, _ = bleu_and_chrf(self._equipment.weights, output)
            once_file = wanted.work / "once.toml"
            found = []
            won = 0
            once = None
            if once_file.exists():
                weights = read_weights(str(once_file))
                by_once = bleu_and_chrf(weights, output)
                once = by_once[0]
                found += [by_once] * (not wanted.seeds)
            for seed in range(wanted.seeds or int(once is None), 0, -1):
                weights, start_won = tuned_weights(
                    self._equipment, made, self._parts.tuning, wanted.iterations, wanted.threads, seed
                )
                won += start_won
                found.append(bleu_and_chrf(weights, output))
            write_weights(made.file.with_suffix(".toml"), weights)
            if once is None:
                write_weights(once_file, weights)
                once = found[-1][0]
            return {
                "untuned": untuned,
                "once": once,
                "chrf": float(np.mean([chrf for _, chrf, _ in found])),
                "seconds": float(np.mean([seconds for *_, seconds in found])),
                "tuned": float(np.mean([bleu for bleu, *_ in found])),
                "start_won": float(won),
            }

        figures = self._kept.find(f"{named}: translations", find, output)
        size = float(made.file.stat().st_size)
        rules = float(self._rules(system))
        return output, {**figures, "rules": rules, "bytes": size, "export_seconds": self._seconds[named]}

    def _of_lines(self, lines: Sequence[str]) -> NDArray[np.float64]:
        words = (tuple(line.split()) for line in lines)
        return np.array([own.statistics(text) for own, text in zip(self._statistics, words, strict=True)])


def _chosen(only: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the names that are asked for: by the whole name, or by a part of it; all where none is."""
    found = {name for part in only for name in ([part] if part in names else names) if part in name}
    return found if only else set(names)


def scores(lines: list[str], references: list[list[str]]) -> tuple[float, float]:
    """Return BLEU and chrF of translations."""
    named = [(f"reference {k + 1}", column) for k, column in enumerate(references)]
    options = EvaluationOptions(metrics=("bleu", "chrf"), tokenizer="none")
    with progress("evaluate", "metrics") as shown:
        bleu, chrf = evaluate([("translation", lines)], named, options, shown)
    return bleu.scores[0].score, chrf.scores[0].score


def p_of_difference(one: NDArray[np.float64], other: NDArray[np.float64], resamples: int = _RESAMPLES) -> float:
    """Return how probable so large a difference in mean BLEU would be by chance, over sentences and chains.

    Statistics float64[chains, sentences, 10]. Sentences are drawn for both alike, chains for each by itself; what is
    compared is how often a resample's difference, less that of all, is as large as that of all.
    """
    random = np.random.default_rng(1)

    def mean(statistics: NDArray[np.float64], chains: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
        return float(np.mean([bleu_of(statistics[chain][rows].sum(axis=0)).score for chain in chains]))

    sentences = one.shape[1]
    whole = np.arange(sentences)
    observed = mean(other, np.arange(len(other)), whole) - mean(one, np.arange(len(one)), whole)
    larger = 0
    for _ in range(resamples):
        rows = random.integers(sentences, size=(sentences,))
        drawn = mean(other, random.integers(len(other), size=(len(other),)), rows) - mean(
            one, random.integers(len(one), size=(len(one),)), rows
        )
        larger += abs(drawn - observed) >= abs(observed)
    return (larger + 1) / (resamples + 1)


def _say(rows: Sequence[RivalRow], parts: Split, wanted: RivalOptions) -> None:
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
    won = sum(row.start_won for row in rows)
    tuned = f"for each grammar, {plural(wanted.seeds, 'seed')}" if wanted.seeds else "once"
    print(
        f"{plural(parts.pairs, 'pair')} to learn from, {len(parts.tuning.sources):,} sentences to tune on, "
        f"{len(parts.test.sources):,} to test with; weights tuned {tuned}, "
        f"`once` with {rows[0].name} alone, `untuned` as built in; the weights that tuning began with won "
        f"{plural(won, 'time')}"
    )


if __name__ == "__main__":
    typer.run(main)
