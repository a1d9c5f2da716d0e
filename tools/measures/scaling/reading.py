"""Count the rules that the pairs of a shard read, and changes of others to these: costs of a table in partitions.

python -m hierogram.tools.measures.scaling.reading corpus.zh corpus.en align.gdfa -o reading.json
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import SweepRequest
from hierogram.daemon.learning.kinds.pairs import load_pairs
from hierogram.daemon.learning.kinds.synchronous import plan_of, schedule_of
from hierogram.samplers.counts.chain import ChainState
from hierogram.samplers.counts.table import KEY_LOW, with_room
from hierogram.samplers.grammar.settings import PITMAN_YOR
from hierogram.samplers.synchronous.sweeps import Blocks, PhraseKernel, build, merge_changes
from hierogram.tools.measures.results import BitextFile, Corpus
from hierogram.tools.measures.sampling import SETTINGS, default_model, read_rows

_ROUNDS = 2


class Read(NamedTuple):
    """One sweep: the rules that pairs read, by a half of their keys, pair after pair (`bounds` int64[P + 1]), and which
    of them were in use; the changes of all pairs, likewise."""

    rules: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    used: NDArray[np.bool_]
    changes: NDArray[np.uint64]
    change_bounds: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard in a sweep, the mean of some shards.

    `shards` that there are; `rules` that it read in this sweep or the one before, in use or not, and `rules_used` of
    them; `asked` rules for each pair that it had not read in the sweep before; `repeated` the share of its pairs that
    read such of which one was in use; `heard` the share of all changes that come from other shards and concern rules
    that it knows.
    """

    shards: int
    rules: float
    rules_used: float
    asked: float
    repeated: float
    heard: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Pairs, rules in use, rules that a pair reads in a sweep, and the share of these that is in use; shards."""

    pairs: int
    rules: int
    reads_a_pair: float
    used: float
    shards: list[Shard]


def sweep(kernel: PhraseKernel, state: ChainState, number: int) -> tuple[ChainState, Read]:
    """Return a sweep in two rounds, in which pairs do not see each other's changes."""
    size = kernel.batch.size
    everyone = np.ones(size, np.bool_)
    plan = plan_of(SweepRequest(np.full(size, number), everyone, ~everyone), schedule_of(SETTINGS))
    rules: list[NDArray[np.uint64]] = []
    used: list[NDArray[np.bool_]] = []
    changes: list[NDArray[np.uint64]] = []
    kernel.begin()
    work = kernel.workers[0]
    for pairs in np.array_split(np.arange(size), _ROUNDS):
        first = len(changes)
        for pair in pairs.tolist():
            kernel.sample(SETTINGS.seed, state, plan, (pair, pair + 1))
            met = work.rule[: int(work.registers[0]["counted"])]
            rules.append(met["key_low"].copy())
            used.append(met["base"] > 0)
            changes.append(np.concatenate(kernel.changes()))
        for change in changes[first:]:
            state = state._replace(table=with_room(state.table, len(change)))
            merge_changes(change, state.table, kernel.model)
    return state, Read(
        np.concatenate(rules),
        np.cumsum([0, *map(len, rules)]),
        np.concatenate(used),
        np.concatenate(changes)[:, KEY_LOW].copy(),
        np.cumsum([0, *map(len, changes)]),
    )


def shard_of(before: Read, now: Read, shards: int, number: int) -> Shard:
    """one of n shards."""
    size = len(now.bounds) - 1
    first, last = size * number // shards, size * (number + 1) // shards
    earlier = before.rules[before.bounds[first] : before.bounds[last]]
    start, end = int(now.bounds[first]), int(now.bounds[last])
    read = now.rules[start:end]
    new = ~np.isin(read, earlier)
    pairs = np.repeat(np.arange(last - first), np.diff(now.bounds[first : last + 1]))
    others = np.concatenate((now.changes[: now.change_bounds[first]], now.changes[now.change_bounds[last] :]))
    known = np.union1d(earlier, read)
    return Shard(
        shards,
        len(known),
        len(np.unique(read[now.used[start:end]])),
        # The first pair that asks for a rule asks for all.
        len(np.unique(read[new])) / (last - first),
        len(np.unique(pairs[new & now.used[start:end]])) / (last - first),
        float(np.isin(others, known).sum()) / len(now.changes),
    )


def mean_of(shards: Sequence[Shard]) -> Shard:
    """Return the mean of shards."""
    names = ("rules", "rules_used", "asked", "repeated", "heard")
    means = [sum(getattr(shard, name) for shard in shards) / len(shards) for name in names]
    return Shard(shards[0].shards, *means)


def main(
    source: BitextFile,
    target: BitextFile,
    alignment: BitextFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Figures, JSON.")] = Path("reading.json"),
    pairs: Annotated[int | None, typer.Option(min=1, help="Only the first n pairs.")] = None,
    sweeps: Annotated[int, typer.Option(min=2, help="Sweeps; the last one is looked at.")] = 26,
    shards: Annotated[str, typer.Option(help="Numbers of shards, separated by commas.")] = "2,4,8,16,32,64",
) -> None:
    """Sample a corpus, and print which rules shards of it read in the last sweep."""
    rows = read_rows(Corpus(str(source), str(target), str(alignment), pairs))
    batch = load_pairs(rows, SETTINGS).batch
    kernel = build(default_model(batch, PITMAN_YOR, SETTINGS.strength), batch, blocks=Blocks(1, 1))
    state, before = sweep(kernel, kernel.init(SETTINGS.seed), 1)
    for number in range(2, sweeps):
        state, before = sweep(kernel, state, number)
    state, now = sweep(kernel, state, sweeps)
    found = [
        mean_of([shard_of(before, now, count, number) for number in range(0, count, -(-count // 4))])
        for count in map(int, shards.split(","))
    ]
    reading = Reading(batch.size, state.table.rule_types, len(now.rules) / batch.size, float(now.used.mean()), found)
    output.write_text(json.dumps(asdict(reading), indent=2) + "\n")
    print(
        f"{reading.pairs:,} pairs, {reading.rules:,} rules; a pair reads {reading.reads_a_pair:.0f} rules in a sweep, "
        f"{reading.used:.0%} of them in use"
    )
    for shard in found:
        print(
            f"{shard.shards} shards: one knows {shard.rules:,.0f} rules, reads {shard.rules_used:,.0f} that are in "
            f"use, asks for {shard.asked:.1f} a pair, {shard.repeated:.0%} of the pairs again; {shard.heard:.1%} of "
            "all changes concern it"
        )


if __name__ == "__main__":
    typer.run(main)
