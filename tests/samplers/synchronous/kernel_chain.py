"""Conversions between kernels and twin: forests, models and states."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.reference.corpus import Joint
from tests.reference.enumeration import Tree, to_tree
from tests.reference.examples import RandomPair
from tests.reference.forest import Forest, Node
from tests.reference.models import Dirichlet, Model, PitmanYor
from tests.reference.rules import Bracket, Nonterminal, Rule, Symbol, Variables

from hierogram.samplers.counts.chain import SweepInfo, log_likelihood
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.counts.models import Model as KernelModel
from hierogram.samplers.counts.models import ModelSettings, build_model
from hierogram.samplers.counts.table import CountTable
from hierogram.samplers.forests import forest as arrays
from hierogram.samplers.forests.derivations import Batch, State, make_batch
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.grammar.keys import hash_words
from hierogram.samplers.grammar.numbers import LABEL_STEP, OPEN_LABEL
from hierogram.samplers.grammar.schedules import EVERY_LEVEL
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, sweep_pairs

SALT = 3


def number_words(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    return {word: n for n, word in enumerate(sorted({word for text in texts for word in text}))}


def to_bitext(pairs: Sequence[RandomPair]) -> arrays.Bitext:
    source = number_words([f for f, _, _ in pairs])
    target = number_words([e for _, e, _ in pairs])
    links = [link for _, _, pair_links in pairs for link in sorted(pair_links)]
    return arrays.Bitext(
        np.array([source[w] for f, _, _ in pairs for w in f], np.int32),
        offsets([len(f) for f, _, _ in pairs]),
        np.array([target[w] for _, e, _ in pairs for w in e], np.int32),
        offsets([len(e) for _, e, _ in pairs]),
        np.array([s for s, _ in links], np.int16),
        np.array([t for _, t in links], np.int16),
        offsets([len(pair_links) for _, _, pair_links in pairs]),
    )


def offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the start offsets of consecutive items of these sizes, and the end of the last item."""
    return np.array([0, *accumulate(sizes)], np.int64)


def to_arrays(forests: Sequence[Forest], span_limit: int) -> arrays.Forests:
    return arrays.assemble(
        [[arrays.Node(v.source, v.target, v.edges, v.label) for v in f.nodes] for f in forests], span_limit
    )


def from_arrays(forests: arrays.Forests, pairs: Sequence[RandomPair]) -> list[Forest]:
    return [Forest(source, target, tuple(to_nodes(forests, p))) for p, (source, target, _) in enumerate(pairs)]


def to_nodes(forests: arrays.Forests, pair: int) -> list[Node]:
    nodes = []
    for row in forests.node[forests.node_offset[pair] : forests.node_offset[pair + 1]]:
        arity = int(row["arity"])
        first = int(forests.pair_tail_offset[pair]) + int(row["tail_offset"])
        edges = [forests.tails[first + j * arity : first + (j + 1) * arity] for j in range(row["degree"])]
        nodes.append(
            Node(
                (int(row["source_start"]), int(row["source_end"])),
                (int(row["target_start"]), int(row["target_end"])),
                tuple(tuple(int(t) for t in edge if t != arrays.NO_TAIL) for edge in edges),
                int(row["level"]),
                int(row["label"]),
            )
        )
    return nodes


def to_model(model: Model, longest_rule: int) -> KernelModel:
    if isinstance(model, PitmanYor):
        settings = ModelSettings("pitman-yor", model.strength, model.discount, model.rate)
        return build_model(settings, 1, 1, longest_rule)
    assert isinstance(model, Dirichlet)
    settings = ModelSettings("dirichlet", model.strength)
    return build_model(settings, model.source_words, model.target_words, longest_rule)


def to_batch(forests: Sequence[Forest], span_limit: int) -> Batch:
    """Return the twin's corpus in the kernels' format, with pairs numbered from 0."""
    bitext = to_bitext([(f.source, f.target, set()) for f in forests])
    source = hash_words(number_words([f.source for f in forests]), SALT)
    target = hash_words(number_words([f.target for f in forests]), SALT)
    words = cumulate_hashes(source[bitext.source], target[bitext.target], np.uint64((1 << 64) - 1))
    longest = max(2 * len(f.source) + len(f.target) + 2 * len(f.nodes) for f in forests) + 4
    return make_batch(bitext, words, to_arrays(forests, span_limit), np.arange(len(forests)), longest)


def rules_of_deltas(deltas: CountDeltas, forests: Sequence[Forest], change: str = "count") -> Counter[Rule]:
    """Return a change of each rule in rule-count deltas. Raises `ValueError` if they contain a rule twice."""
    source = sorted({word for f in forests for word in f.source})
    target = sorted({word for f in forests for word in f.target})
    counts: Counter[Rule] = Counter()
    for entry in deltas.entry[: deltas.entries]:
        start = int(entry["start"])
        middle = start + int(entry["source_size"])
        end = middle + int(entry["target_size"])
        rule = Rule(
            tuple(to_symbol(int(s), source) for s in deltas.symbols[start:middle]),
            tuple(to_symbol(int(s), target) for s in deltas.symbols[middle:end]),
        )
        if rule in counts:
            raise ValueError(f"{rule} has two entries")
        counts[rule] = int(entry[change])
    return counts


def to_symbol(symbol: int, words: Sequence[str]) -> Symbol:
    if symbol >= 0:
        return words[symbol]
    if symbol <= OPEN_LABEL:
        label, closing = divmod(OPEN_LABEL - symbol, 2)
        return Bracket(label, not closing)
    label, number = divmod(-symbol, LABEL_STEP)
    return Nonterminal(number, label) if label else number


class KernelChain:
    """A chain of the kernels over a few pairs, from the initial state."""

    def __init__(
        self,
        forests: Sequence[Forest],
        model: Model,
        *,
        seed: int,
        span_limit: int = 0,
        resample: Callable[..., Any] = sweep_pairs,
        blocks: Blocks | None = None,
        avoid_current: bool = False,
    ) -> None:
        self.avoid_current = avoid_current
        self.forests = forests
        self.seed = seed
        self.batch = to_batch(forests, span_limit)
        self.model = to_model(model, self.batch.longest_rule)
        self.kernel = build(self.model, self.batch, resample=resample, blocks=blocks)
        self.chain = self.kernel.init(seed)
        self.sweeps = np.zeros(len(forests), np.int64)
        self.bounds = [int(b) for b in self.batch.forests.node_offset]

    def sweep(self, stage: int = EVERY_LEVEL) -> SweepInfo:
        """Sweep all pairs once. Only nodes up to level `stage` may change."""
        return self.sweep_at(np.full(len(self.forests), stage, np.int16))

    def sweep_at(
        self, stages: NDArray[np.int16], powers: NDArray[np.float64] | None = None, density: bool = True
    ) -> SweepInfo:
        """Sweep once with a separate stage and power 1/T for each pair. A pair at stage 0 is skipped."""
        self.sweeps += stages > 0
        powers = np.ones(len(stages)) if powers is None else powers
        plan = SweepPlan(self.sweeps, stages, powers, np.zeros(len(stages), np.bool_), density, self.avoid_current)
        self.chain, info = self.kernel.step(self.seed, self.chain, plan)
        return info

    @property
    def state(self) -> State:
        """The variables of all pairs."""
        return self.chain.derivations

    @property
    def table(self) -> CountTable:
        return self.chain.table

    def variables(self) -> Joint:
        edges, cuts = self.state.edge.tolist(), self.state.cut.tolist()
        return tuple(
            Variables(tuple(edges[a:b]), tuple(cuts[a:b])) for a, b in zip(self.bounds, self.bounds[1:], strict=False)
        )

    def trees(self) -> tuple[Tree, ...]:
        return tuple(to_tree(f, variables) for f, variables in zip(self.forests, self.variables(), strict=True))

    def log_likelihood(self) -> float:
        return log_likelihood(self.table, self.model)
