"""Corpora of several pairs: each pair is resampled given the rules of all other pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tests.reference.forest import Forest
from tests.reference.gibbs import EVERY_LEVEL, NO_LIMIT, Sweep, initial_variables
from tests.reference.metropolis import Metropolis
from tests.reference.models import Model, RuleCounts
from tests.reference.rules import Rule, Variables, list_rules
from tests.reference.streams import Stream

Mover = Callable[[Forest, RuleCounts], Sweep | Metropolis]
"""Function that resamples a pair, given its forest and the counts of all other pairs' rules."""
Joint = tuple[Variables, ...]


def gibbs(
    model: Model,
    *,
    stage: int = EVERY_LEVEL,
    span_limit: int = NO_LIMIT,
    mutant: str | None = None,
    temperature: float = 1.0,
    avoid_current: bool = False,
) -> Mover:
    """Return the mover of top-down Gibbs sampling."""
    return lambda forest, others: Sweep(forest, model, others, stage, span_limit, mutant, temperature, avoid_current)


def metropolis(model: Model, *, span_limit: int = NO_LIMIT, mutant: str | None = None) -> Mover:
    """Return the mover of Metropolis-Hastings on whole derivations."""
    return lambda forest, others: Metropolis(forest, model, others, span_limit, mutant)


def with_variables(joint: Joint, pair: int, variables: Variables) -> Joint:
    return (*joint[:pair], variables, *joint[pair + 1 :])


@dataclass(frozen=True)
class Corpus:
    """The forests of a corpus, resampled in order."""

    forests: Sequence[Forest]

    def start(self, seed: int) -> Joint:
        """Return the initial state. Each pair draws it from its stream of sweep 0."""
        return tuple(initial_variables(f, Stream(seed, p, 0)) for p, f in enumerate(self.forests))

    def rules(self, joint: Joint, without: int | None = None) -> list[Rule]:
        """Return the rules of all pairs, except of the pair `without`."""
        return [
            rule
            for p, (forest, variables) in enumerate(zip(self.forests, joint, strict=True))
            if p != without
            for rule in list_rules(forest, variables)
        ]

    def resample(self, joint: Joint, pair: int, mover: Mover, seed: int, number: int) -> Joint:
        """Return the state after one pair is resampled in sweep `number`."""
        others = RuleCounts(self.rules(joint, without=pair))
        stream = Stream(seed, pair, number)
        return with_variables(joint, pair, mover(self.forests[pair], others).sample(joint[pair], stream))

    def sweep(self, joint: Joint, mover: Mover, seed: int, number: int) -> Joint:
        """Return the state after every pair is resampled once. Sweeps are numbered from 1."""
        for pair in range(len(self.forests)):
            joint = self.resample(joint, pair, mover, seed, number)
        return joint

    def sweep_in_blocks(
        self, joint: Joint, mover: Mover, seed: int, number: int, *, pairs_per_block: int, blocks_per_round: int
    ) -> Joint:
        """Return the state after a sweep in blocks. Each block sees the counts before its round and its own changes."""
        after = joint
        pairs = list(range(len(self.forests)))
        blocks = [pairs[i : i + pairs_per_block] for i in pairs[::pairs_per_block]]
        for i in range(0, len(blocks), blocks_per_round):
            before = after
            for block in blocks[i : i + blocks_per_round]:
                seen = before
                for p in block:
                    seen = self.resample(seen, p, mover, seed, number)
                    after = with_variables(after, p, seen[p])
        return after

    def push(self, distribution: dict[Joint, float], mover: Mover) -> dict[Joint, float]:
        """Return the exact distribution after every pair is resampled once."""
        for p, forest in enumerate(self.forests):
            after: dict[Joint, float] = {}
            for joint, mass in distribution.items():
                step = mover(forest, RuleCounts(self.rules(joint, without=p)))
                for variables, q in step.transitions(joint[p]).items():
                    key = with_variables(joint, p, variables)
                    after[key] = after.get(key, 0.0) + mass * q
            distribution = after
        return distribution

    def stationary(self, mover: Mover) -> dict[Joint, float]:
        """Return the stationary distribution of whole sweeps, over all reachable states."""
        rows: dict[Joint, dict[Joint, float]] = {}
        waiting = [tuple(Variables((0,) * len(f.nodes), (1,) * len(f.nodes)) for f in self.forests)]
        while waiting:
            joint = waiting.pop()
            if joint not in rows:
                rows[joint] = self.push({joint: 1.0}, mover)
                waiting += rows[joint]
        number = {joint: i for i, joint in enumerate(rows)}
        matrix = np.zeros((len(rows), len(rows)))
        for joint, row in rows.items():
            for outcome, p in row.items():
                matrix[number[joint], number[outcome]] = p
        # The left eigenvector of eigenvalue 1, with the equation that its sum is 1.
        system = np.vstack([matrix.T - np.eye(len(rows)), np.ones(len(rows))])
        solution, *_ = np.linalg.lstsq(system, np.append(np.zeros(len(rows)), 1.0), rcond=None)
        return {joint: float(solution[i]) for joint, i in number.items()}
