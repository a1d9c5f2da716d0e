"""Estimate the time of a sweep on more machines, by arithmetic from measured parts.

python -m hierogram.tools.lab.measures.scaling.simulating parts-5000.json parts-41000.json

This is a model, not a measurement. Its assumptions:

- workers sample as fast as a core here, for any size of the table; the slowest one of a round delays the others;
- a round takes half of a resident batch, at most 24,576 pairs; every machine gets the changes of all others, from
  them, or, with more than 16 workers, one machine after the other from the first one's network; each worker adds
  all of them;
- 150,000 pairs are in memory at the same time;
- a run of 100 sweeps opens and writes all pairs once for the burn-in, when all rules are new, then every ten sweeps;
  on SQLite by one process; on Postgres by the workers, at the measured speed each, followed by one transaction that
  merges everything, at its measured speed;
- rules grow with pairs by a power law (Heaps).
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from hierogram.tools.lab.measures.scaling.parts import SWEEPS_PER_ROUND

_BYTES_PER_ENTRY = 32
_BYTES_PER_ROW = 33
_ROOM_PER_ROW = 4.0
"""Table rows per rule. Tables are between a quarter and half full; this is the case with the most memory."""
_MIN_ROUNDS = 2
_MAX_PAIRS_A_ROUND = 24_576
_MAX_PASSED = 16
_SWEEPS_PER_RUN = 100


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs.

    Pairs per second of one core; entries of changes per pair; seconds to add one; other seconds per round; seconds
    per sweep to open and to write a pair, in one process, and the part done by a worker; rules and pairs of the
    measured store; and the exponent by which rules grow with pairs.
    """

    pairs_a_second: float
    changes_a_pair: float
    merge_seconds: float
    round_seconds: float
    open_seconds: float
    commit_seconds: float
    shared_seconds: float
    rules: int
    pairs: int
    growth: float


class SimulatedSweep(NamedTuple):
    """Estimated seconds of a sweep over all pairs, by part, and the bytes of a worker's table.

    Sampling, sending changes, adding them, other costs of rounds, and the share of opening and writing.
    """

    sampling: float
    sending: float
    merging: float
    rounds: float
    store: float
    table_bytes: float

    @property
    def seconds(self) -> float:
        """Return the total."""
        return self.sampling + self.sending + self.merging + self.rounds + self.store


def costs_of(small: dict[str, Any], parts: dict[str, Any]) -> Costs:
    """Return the costs from the results of `hierogram.tools.lab.measures.scaling.parts` for fewer and more pairs."""
    threads, shared = parts["by_threads"], parts["by_workers"]
    rounds = (_SWEEPS_PER_RUN - shared["sweeps"]) / SWEEPS_PER_ROUND
    opened, committed, written = (
        (shared["first"][name] + rounds * shared["later"][name]) / _SWEEPS_PER_RUN
        for name in ("open", "commit", "write")
    )
    if shared["by_workers"]:
        alone, taken, by_each = 0.0, committed - written, parts["workers"] * (opened + written)
    else:
        alone, taken, by_each = opened, committed, 0.0
    rules, pairs = (shared[name] / small["by_workers"][name] for name in ("rules", "pairs"))
    return Costs(
        threads["pairs_a_processor_second"],
        parts["changes_a_pair"],
        parts["merge_seconds"],
        parts["round_seconds"],
        alone / shared["pairs"],
        taken / shared["pairs"],
        by_each / shared["pairs"],
        shared["rules"],
        shared["pairs"],
        math.log(rules) / math.log(pairs),
    )


def simulate(
    costs: Costs,
    pairs: float,
    workers: int,
    cores: int = 16,
    network: float = 1.25e9,
    imbalance: float = 0.1,
    batch: float = 150_000,
) -> SimulatedSweep:
    """Estimate a sweep over `pairs` pairs by `workers` workers, one per core.

    Machines have `cores` cores and `network` bytes per second. `imbalance` is the share by which the slowest worker
    of a round is slower than the mean. `batch` pairs are in memory at the same time.
    """
    machines = -(-workers // cores)
    size = pairs * costs.changes_a_pair * _BYTES_PER_ENTRY
    others = machines - 1
    passed = workers <= _MAX_PASSED
    rounds = max(1.0, pairs / batch) * max(_MIN_ROUNDS, min(pairs, batch) / _MAX_PAIRS_A_ROUND)
    rules = costs.rules * (pairs / costs.pairs) ** costs.growth
    return SimulatedSweep(
        sampling=(1 + (imbalance if workers > 1 else 0.0)) * pairs / (workers * costs.pairs_a_second),
        sending=size * (others / machines if passed else others + (others > 0)) / network,
        merging=pairs * costs.changes_a_pair * costs.merge_seconds,
        rounds=rounds * costs.round_seconds,
        store=pairs * (costs.open_seconds + costs.commit_seconds + costs.shared_seconds / workers),
        table_bytes=rules * _BYTES_PER_ROW * _ROOM_PER_ROW,
    )


def main(
    small: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Measured parts for fewer pairs.")],
    parts: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Measured parts for more pairs.")],
    pairs: Annotated[str, typer.Option(help="Numbers of pairs, separated by commas.")] = "10000000,100000000",
    workers: Annotated[str, typer.Option(help="Numbers of workers, separated by commas.")] = "1,2,4,8,16,32,64",
    cores: Annotated[int, typer.Option(min=1, help="Workers per machine.")] = 16,
    gigabits: Annotated[float, typer.Option(min=0.001, help="Network bandwidth of a machine in Gbit/s.")] = 10.0,
) -> None:
    """Print the estimated time of a sweep from measured parts: a model, not a measurement."""
    costs = costs_of(json.loads(small.read_text()), json.loads(parts.read_text()))
    print("pairs\tworkers\tseconds a sweep\tsampling\tsending\tmerging\trounds\tstore\tGB a worker\tGB a machine")
    for number in map(float, pairs.split(",")):
        for count in map(int, workers.split(",")):
            sweep = simulate(costs, number, count, cores, gigabits * 1.25e8)
            times = "\t".join(f"{value:,.0f}" for value in (sweep.seconds, *sweep[:5]))
            size = sweep.table_bytes / 1e9
            print(f"{number:,.0f}\t{count}\t{times}\t{size:.1f}\t{size * min(count, cores):.0f}")


if __name__ == "__main__":
    typer.run(main)
