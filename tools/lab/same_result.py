"""Does it matter how a corpus arrives? At once, in ten batches, with restarts: compared with batch runs, seed by seed.

python -m hierogram.tools.lab.same_result corpus.zh corpus.en align.gdfa --pairs 10000 --results same-result.json

The daemon's turns are run without its threads and pauses, as long as its pairs have no more sweeps together than in a
batch run. (Turns end by the clock and may have fewer than ten sweeps, so their number does not measure work.) Pairs
have ids, as those of a corpus in parts should: without ids, a pair in two of the parts would be stored once. What is in
the file of results is not computed again.

Every way runs with the same seeds. It is as good as a batch if its mean log-likelihood lies in the range of the batch
runs. (A single run says little: of six equal runs, the last is outside the range of the others once in three times.)
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from threading import Event
from typing import Annotated

import structlog
import typer

from hierogram.daemon.configuration import SamplingSection
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.health import HealthRegistry
from hierogram.daemon.serving.sampling import SamplingTurns
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.reading import Input
from hierogram.storage.records import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.results import BitextFile, Kept, temporary_folder

SEEDS = (1, 2, 3, 4, 5)
BATCHES = 10
Lines = list[dict[str, str | int]]
"""Sources, targets, alignments and ids."""

Result = dict[str, float]


class _Daemon:
    """The turns of a daemon's sampling, as many as are asked for."""

    def __init__(self, store: Store, threads: int) -> None:
        self.health = HealthRegistry()
        self._learner = Learner(store, LearnOptions(threads, likelihood_seconds=1e6))
        section = SamplingSection(threads=threads, new_share=1.0, idle_share=1.0)
        self._turns = SamplingTurns(self._learner, section, Event(), self.health, structlog.stdlib.get_logger())
        self._longest = 0

    def turn(self) -> None:
        before = self.pair_sweeps
        self._turns.take()
        self._longest = max(self._longest, self.pair_sweeps - before)

    def settle(self) -> None:
        """Turns until all pairs have settled, one at least."""
        self.turn()
        while self.health.lag().pairs:
            self.turn()

    @property
    def pair_sweeps(self) -> int:
        return self._learner.pair_sweeps

    def end(self, pair_sweeps: int = -1) -> None:
        """Turns as long as they end within n sweeps of pairs, and no more."""
        while self.pair_sweeps + self._longest <= pair_sweeps:
            self.turn()
        self._learner.close()


def _offer(store: Store, folder: Path, lines: Lines) -> None:
    path = folder / "offered.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with Input([str(path)]) as source:
        ingest(store, source)


def _parts(lines: Lines, number: int = BATCHES) -> list[Lines]:
    size = -(-len(lines) // number)
    return [lines[first : first + size] for first in range(0, len(lines), size)]


def in_one_run(store: Store, folder: Path, lines: Lines, rounds: int, threads: int) -> None:
    """`hierogram learn` over the whole corpus."""
    _offer(store, folder, lines)
    learn(store, sweeps=rounds * store.settings().round_sweeps, options=LearnOptions(threads))


def _pair_sweeps(store: Store, lines: Lines, rounds: int) -> int:
    settings = store.settings()
    schedule = kind_of(settings).course(settings)
    return len(lines) * (schedule.burn_in + rounds * settings.round_sweeps)


def in_batches(number: int, store: Store, folder: Path, lines: Lines, rounds: int, threads: int) -> None:
    """Batches, each offered to the daemon when the one before has settled."""
    daemon = _Daemon(store, threads)
    for part in _parts(lines, number):
        _offer(store, folder, part)
        daemon.settle()
    daemon.end(_pair_sweeps(store, lines, rounds))


def with_restarts(store: Store, folder: Path, lines: Lines, rounds: int, threads: int) -> None:
    """Ten batches, each offered when the daemon has had one turn with the one before and was started again."""
    wanted = _pair_sweeps(store, lines, rounds)
    for part in _parts(lines):
        _offer(store, folder, part)
        daemon = _Daemon(store, threads)
        daemon.turn()
        wanted -= daemon.pair_sweeps
        daemon.end()
    daemon = _Daemon(store, threads)
    daemon.settle()
    daemon.end(wanted)


Way = Callable[[Store, Path, Lines, int, int], None]
BATCH = "one run of learn"
WAYS: dict[str, Way] = {
    BATCH: in_one_run,
    "daemon, at once": partial(in_batches, 1),
    "daemon, ten batches": partial(in_batches, BATCHES),
    "daemon, ten batches and restarts": with_restarts,
}


def _measure(name: str, lines: Lines, seed: int, rounds: int, threads: int) -> Result:
    started = time.perf_counter()
    with (
        temporary_folder() as folder,
        open_store(f"sqlite:///{folder / 'store.db'}", create=True, settings=Settings(seed=seed)) as store,
    ):
        WAYS[name](store, folder, lines, rounds, threads)
        with Learner(store, LearnOptions(threads)) as learner:
            likelihood = learner.measure()
        status = store.status()
        sweeps = sum(row.sweep for row in store.pairs())
        problems = verify(store).problems
        if problems:
            raise RuntimeError(f"the store is damaged: {problems[0]}")
    seconds = time.perf_counter() - started
    typer.echo(f"{key(name, seed)}: {likelihood:,.0f} in {seconds:.0f} s", err=True)
    return {
        "log_likelihood": likelihood,
        "pairs": status.pairs["settled"],
        "rules": status.rules_in_use,
        "sweeps": sweeps / status.pairs["settled"],
        "seconds": seconds,
    }


def key(name: str, seed: int) -> str:
    """Return the name of a way's result in the file of results."""
    return f"{name}, seed {seed}"


def table(results: dict[str, Result], seeds: Sequence[int]) -> str:
    """Return the ways as Markdown: what they led to over the seeds, and whether that is the quality of a batch run."""
    runs = {name: [results[key(name, seed)] for seed in seeds] for name in WAYS}
    values = {name: [result["log_likelihood"] for result in way] for name, way in runs.items()}
    low, high = min(values[BATCH]), max(values[BATCH])
    rows = [
        "| how the pairs came | pairs | sweeps | rules | log-likelihood | deviation | range | as good as a batch |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name, way in runs.items():
        middle = mean(values[name])
        if name == BATCH:
            verdict = "(the measure)"
        elif middle > high:
            verdict = f"better, by {middle - high:,.0f}"
        else:
            verdict = "yes" if middle >= low else f"no, by {low - middle:,.0f}"
        cells = [
            name,
            " or ".join(sorted({f"{result['pairs']:,.0f}" for result in way})),
            f"{mean(result['sweeps'] for result in way):.1f}",
            f"{mean(result['rules'] for result in way):,.0f}",
            f"{middle:,.0f}",
            f"{stdev(values[name]):,.0f}",
            f"{min(values[name]):,.0f} to {max(values[name]):,.0f}",
            verdict,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    pairs: Annotated[int, typer.Option(min=BATCHES, help="Only the first n pairs.")] = 10_000,
    rounds: Annotated[int, typer.Option(min=1, help="Tens of sweeps after the schedule.")] = 20,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    seeds: Annotated[int, typer.Option(min=2, max=len(SEEDS), help="Seeds of each way.")] = len(SEEDS),
    results: Annotated[Path, typer.Option(help="File of results, JSON; what is in it is kept.")] = Path("results.json"),
) -> None:
    """Learn the same pairs in four ways and write a table of the results."""
    with source.open() as one, target.open() as two, alignment.open() as three:
        columns = islice(zip(one, two, three, strict=True), pairs)
        lines: Lines = [
            {"source": s.rstrip("\n"), "target": t.rstrip("\n"), "alignment": a.rstrip("\n"), "id": number}
            for number, (s, t, a) in enumerate(columns)
        ]
    kept = Kept(results)
    known: dict[str, Result] = {}
    for name in WAYS:
        for seed in SEEDS[:seeds]:
            run = partial(_measure, name, lines, seed, rounds, threads)
            known[key(name, seed)] = kept.find(key(name, seed), run)
    typer.echo(table(known, SEEDS[:seeds]))


if __name__ == "__main__":
    typer.run(main)
