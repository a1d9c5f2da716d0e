"""Tree grammars: fragments of a treebank's trees, sampled against the counts of all others [CGB09]."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.counting import (
    ForestPairs,
    expansions_of,
    fragment_averages,
    places_of,
    tails_of,
    variables,
)
from hierogram.daemon.learning.kinds.kind import (
    Averages,
    Key,
    Loaded,
    Means,
    Report,
    State,
    Sweep,
    SweepRequest,
    TrialOptions,
)
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.deltas import CountDeltas, add_state, empty_deltas
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.counts.texts import internal_nodes, render_fragments
from hierogram.samplers.exceptions import BracketError, ForestTooLargeError
from hierogram.samplers.forests.averages import add_trees
from hierogram.samplers.forests.batch import Batch, initial_state, make_batch
from hierogram.samplers.forests.batch import State as Variables
from hierogram.samplers.forests.forest import Bitext, Forests, Node, assemble
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.brackets import check_size, productions, read_parse
from hierogram.samplers.grammar.columns import join_texts
from hierogram.samplers.grammar.keys import fragment_key, hash_words
from hierogram.samplers.grammar.numbers import MAX_LABEL, ONE_SQUARE, ONE_USE
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import JOINED, TREES, UNIFORM
from hierogram.samplers.grammar.sizes import source_terminals_of
from hierogram.samplers.trees.models import (
    Expansions,
    LabelProcesses,
    TreeBatch,
    TreeState,
    build_tree_model,
    label_processes,
)
from hierogram.samplers.trees.sweeps import TreePlan, build
from hierogram.storage.records import LabelRow, PairRow, Settings
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.store import Store


@dataclass(frozen=True, slots=True)
class LoadedTrees(ForestPairs):
    """Trees as the samplers take them, with forests and words as their `batch`; the words by their numbers, and the
    salt of their fragments' keys.
    """

    batch: Batch
    treebank: TreeBatch
    words: list[str]
    key_salt: int

    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """The chosen entries of rule-count deltas: root label, fragment; a rule's length is its number of expansions.

        Their keys come from the texts, since the numbers of labels are those of the batch.
        """
        labels, fragments = render_fragments(deltas, chosen, self.treebank.labels, self.words)
        sides = zip(labels, fragments, strict=True)
        none = np.zeros(len(chosen), np.int32)
        return RuleDeltas(
            keys=np.array([fragment_key(*both, self.key_salt) for both in sides], np.uint64).reshape(-1, 2),
            sources=join_texts(labels),
            targets=join_texts(fragments),
            lengths=np.array(internal_nodes(deltas, chosen), np.int32),
            scopes=none,
            nonterminals=deltas.nonterminals[chosen],
            source_terminals=none,
            target_terminals=source_terminals_of(deltas.rule_sizes[chosen]).astype(np.int32),
            hiero=none.astype(np.bool_),
            counts=deltas.counts[chosen],
            expected_uses=deltas.sampled[chosen] / ONE_USE,
            expected_uses_variances=deltas.variances[chosen] / ONE_SQUARE,
        )


def load_trees(texts: Iterable[str], ids: Sequence[int], key_salt: int = 0) -> LoadedTrees:
    """Trees or packed forests in brackets; `ids` name them for their random streams.

    Labels are numbered from 1 in the order in which they come. Raises `BracketError` where a text is no tree, and
    `ForestTooLargeError` where one is beyond what a forest can hold.
    """
    labels: dict[str, int] = {}
    words: dict[str, int] = {}
    known: dict[tuple[str, ...], int] = {}
    numbers: list[int] = []
    weights: list[float] = []
    degrees: list[int] = []
    pairs: list[list[Node]] = []
    tokens: list[int] = []
    lengths: list[int] = []
    longest = 1
    for text, number in zip(texts, ids, strict=True):
        parse = read_parse(text)
        try:
            check_size(parse)
        except ForestTooLargeError as error:
            raise ForestTooLargeError(f"tree {number}: {error}: leave it out") from error
        pair = []
        for node in parse.nodes:
            label = labels.setdefault(node.label, len(labels) + 1)
            pair.append(Node((node.start, node.end), (0, 0), node.edges, label))
            degrees.append(len(node.edges))
        for place, _, symbols in productions(parse):
            numbers.append(known.setdefault(symbols, len(known)))
            weights.append(1.0 / len(parse.nodes[place].edges))
        pairs.append(pair)
        tokens += [words.setdefault(word, len(words)) for word in parse.words]
        lengths.append(len(parse.words))
        longest = max(longest, len(parse.words) + 2 * len(parse.nodes))
    if len(labels) > MAX_LABEL:
        raise BracketError(f"{len(labels)} different labels, at most {MAX_LABEL} can be told apart")
    source = np.array(tokens, np.int32)
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    none = np.zeros(len(offsets), np.int64)
    no_links = np.zeros(0, np.int16)
    bitext = Bitext(source, offsets, np.zeros(0, np.int32), none, no_links, no_links, none)
    hashed = add_up(hash_words(words, key_salt)[source], np.zeros(0, np.uint64), keys.ALL_BITS)
    batch = make_batch(bitext, hashed, assemble(pairs), np.asarray(ids, np.int64), longest)
    expansions = Expansions(
        list(known), np.array(numbers, np.int32), np.array(weights), np.cumsum([0, *degrees], dtype=np.int64)
    )
    return LoadedTrees(batch, TreeBatch(batch, expansions, ["", *labels]), list(words), key_salt)


FIRST_STRENGTH = 1.0
FIRST_EXPANDED = 0.5
"""α_c and β_c of a label before the first sweep."""


class LabelPrior(NamedTuple):
    """The Dirichlet process of a root label: strength α_c, and the probability β_c that the base expands the label."""

    strength: float = FIRST_STRENGTH
    expansion_probability: float = FIRST_EXPANDED


class CountedFragment(NamedTuple):
    """A fragment in bracket notation, its root label, and how often it is used."""

    label: str
    fragment: str
    uses: int


class TreeChain:
    """The chain over a treebank's derivations and parameters."""

    def __init__(
        self,
        loaded: LoadedTrees,
        state: Variables,
        base: str,
        seed: int,
        priors: Mapping[str, LabelPrior] | None = None,
    ) -> None:
        self.loaded = loaded
        self.trees = loaded.treebank
        self.seed = seed
        labels = self._processes(priors or {})
        self.kernel = build(build_tree_model(base, self.trees.expansions, labels), self.trees)
        self.chain: TreeState = self.kernel.resume(state, labels)

    @property
    def state(self) -> Variables:
        """The present derivations."""
        return self.chain.derivations

    @property
    def table(self) -> RuleTable:
        """The counts of all fragments."""
        return self.chain.table

    def _processes(self, priors: Mapping[str, LabelPrior]) -> LabelProcesses:
        known = [priors.get(label, LabelPrior()) for label in self.trees.labels]
        return label_processes(
            np.array([prior.strength for prior in known]), np.array([prior.expansion_probability for prior in known])
        )

    def set_priors(self, priors: Mapping[str, LabelPrior]) -> None:
        """Go on with these parameters; labels that are not named get those of the start."""
        self.chain = self.chain._replace(labels=self._processes(priors))

    def priors(self) -> dict[str, LabelPrior]:
        """The present parameters by label."""
        labels = self.chain.labels
        values = zip(labels.strength.tolist(), labels.expansion_probability.tolist(), strict=True)
        return dict(list(zip(self.trees.labels, map(LabelPrior._make, values), strict=True))[1:])

    def sweep(
        self,
        number: int,
        sweeps: NDArray[np.int64],
        temperatures: NDArray[np.float64],
        report: Callable[[int], None] | None = None,
    ) -> SweepInfo:
        """One sweep over the trees whose temperature is above 0, then new parameters.

        `number` counts the sweeps of the chain, `sweeps` those of each tree: both name random streams.
        """
        self.chain, info = self.kernel.step(self.seed, self.chain, TreePlan(number, sweeps, temperatures), report)
        return info

    def log_likelihood(self) -> float:
        """ln P of all fragments given the parameters."""
        return self.kernel.log_likelihood(self.chain)

    def fragments(self) -> list[CountedFragment]:
        """The grammar: every fragment in use, by label, the most used first."""
        deltas = add_state(empty_deltas(), self.trees.batch, self.state, 1, 0)
        chosen = np.arange(deltas.entries)
        roots, texts = render_fragments(deltas, chosen, self.trees.labels, self.loaded.words)
        counted = map(CountedFragment, roots, texts, deltas.counts[chosen].tolist())
        return sorted(counted, key=lambda fragment: (fragment.label, -fragment.uses, fragment.fragment))


def sample_treebank(
    texts: Sequence[str],
    *,
    base: str = UNIFORM,
    seed: int = 1,
    annealing: Annealing | None = None,
    sweeps: int = 100,
    start: str = JOINED,
    report: Callable[[int, TreeChain], None] | None = None,
) -> TreeChain:
    """Learn a tree-substitution grammar from trees or packed forests in brackets, without a store.

    Anneals, then takes `sweeps` more sweeps; `report` hears the number of each sweep done, and the chain. The grammar
    is the result's `fragments()`. Raises `BracketError`.
    """
    schedule = annealing or Annealing()
    loaded = load_trees(texts, range(1, len(texts) + 1))
    chain = TreeChain(loaded, initial_state(seed, loaded.batch, start), base, seed)
    for number in range(1, schedule.sweeps + sweeps + 1):
        own = np.full(loaded.treebank.size, number, np.int64)
        chain.sweep(number, own, schedule.temperatures(own))
        if report:
            report(number, chain)
    return chain


class TreeTrial:
    """A chain over a treebank, from an initial state of its own; see `Trial`."""

    def __init__(self, loaded: LoadedTrees, base: str, annealing: Annealing, how: TrialOptions) -> None:
        self._annealing = annealing
        self._chain = TreeChain(loaded, initial_state(how.seed, loaded.batch, how.start), base, how.seed)
        self._number = 0
        self.seconds = 0.0

    @property
    def table(self) -> RuleTable:
        """The counts of all fragments."""
        return self._chain.table

    @property
    def state(self) -> Variables:
        """The present derivations."""
        return self._chain.state

    def sweep(self) -> None:
        """One sweep over all trees, the next one of the annealing, then new parameters."""
        self._number += 1
        own = np.full(self._chain.trees.size, self._number, np.int64)
        started = time.perf_counter()
        self._chain.sweep(self._number, own, self._annealing.temperatures(own))
        self.seconds += time.perf_counter() - started

    def log_likelihood(self) -> float:
        """Of all fragments, natural-log."""
        return self._chain.log_likelihood()

    def close(self) -> None:
        """There are no threads to end."""


_EXAMPLE = "(S (| #1=(A a) (B (C b) (C c))) (| (#1) (B (C b) (D c))))"
"""A sentence with two parses."""


def annealing_of(settings: Settings) -> Annealing:
    """The store's schedule."""
    return Annealing(settings.annealing, settings.temperature)


class TreebankChain:
    """A treebank in memory, all trees at once.

    The base distribution P_C and the parameters of the labels belong to the whole treebank, so it is never sampled in
    parts.
    """

    def __init__(self, store: Store) -> None:
        self._settings = store.settings()
        self._annealing = annealing_of(self._settings)
        self._priors = {row.label: LabelPrior(row.strength, row.expansion_probability) for row in store.labels()}
        # The parameters' random streams are named by the sweeps of the store.
        self._sweeps = store.status().sweeps
        self._chain: TreeChain | None = None

    @property
    def rule_types(self) -> int:
        """Fragments in use."""
        return 0 if self._chain is None else self._chain.table.rule_types

    @property
    def rule_tokens(self) -> int:
        """Uses of fragments."""
        return 0 if self._chain is None else self._chain.table.rule_tokens

    def enter(self, loaded: Loaded, state: State, stored: NDArray[np.bool_]) -> None:
        """Take in all trees, with what is known of their labels."""
        assert isinstance(loaded, LoadedTrees)
        if self._chain is not None:
            self._priors |= self._chain.priors()
        self._chain = TreeChain(loaded, variables(state), self._settings.base, self._settings.seed, self._priors)

    def change(self, loaded: Loaded, state: State, change: int) -> None:
        """Forget the trees in memory, which are not those of the store any more: the others have to be entered."""
        if self._chain is not None:
            self._priors |= self._chain.priors()
            self._chain = None

    def sweep(self, loaded: Loaded) -> Sweep:
        """What sweeps over the trees and then moves the labels' parameters."""
        chain = self._chain
        assert chain is not None
        assert chain.loaded is loaded

        def take(state: State, averages: Averages, request: SweepRequest, report: Report) -> tuple[State, SweepInfo]:
            temperatures = np.where(request.active, self._annealing.temperatures(request.sweeps), 0.0)
            self._sweeps += 1
            assert state is chain.state
            info = chain.sweep(self._sweeps, request.sweeps, temperatures, report)
            add_trees(fragment_averages(averages), chain.trees.batch, chain.state, request.averaged)
            return chain.state, info

        return take

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """Nothing is elsewhere."""
        return state, averages

    def follow(self, store: Store) -> None:
        """Nothing: the base distribution is that of the trees in memory."""

    def log_likelihood(self) -> float:
        """Of all fragments given the labels' parameters, natural-log."""
        return 0.0 if self._chain is None else self._chain.log_likelihood()

    def labels(self) -> list[LabelRow]:
        """The parameters of the labels."""
        return [] if self._chain is None else [LabelRow(label, *prior) for label, prior in self._chain.priors().items()]

    def close(self) -> None:
        """Nothing to end."""


class Trees:
    """Fragments of trees, from a treebank."""

    name = TREES
    whole = True

    def load(self, rows: Sequence[PairRow], settings: Settings) -> LoadedTrees:
        """The trees with their forests."""
        return load_trees([row.target for row in rows], [row.id for row in rows], settings.key_salt)

    def begin(self, loaded: Loaded, settings: Settings, due: NDArray[np.bool_]) -> State:
        """Cuts by the store's start, a random edge at each node."""
        assert isinstance(loaded, LoadedTrees)
        return initial_state(settings.seed, loaded.batch, settings.start)

    def course(self, settings: Settings) -> Annealing:
        """Annealing."""
        return annealing_of(settings)

    def chain(self, store: Store, means: Means) -> TreebankChain:
        """A treebank's counts and parameters; one thread does it all, by one method."""
        return TreebankChain(store)

    def trial(self, loaded: Loaded, settings: Settings, vocabulary: tuple[int, int], how: TrialOptions) -> TreeTrial:
        """A chain by the store's base distribution and annealing."""
        assert isinstance(loaded, LoadedTrees)
        return TreeTrial(loaded, settings.base, annealing_of(settings), how)

    def key(self, source: str, target: str, salt: int) -> Key:
        """The key of a fragment."""
        return fragment_key(source, target, salt)

    def show(self, row: PairRow, settings: Settings) -> list[RuleUse]:
        """The tree's derivation."""
        loaded = self.load([row], settings)
        forests, labels = loaded.batch.forests, loaded.treebank.labels
        state, expansions = expansions_of(forests, row.current or b"")
        places = places_of(expansions)
        words = row.source.split(" ")
        uses = []
        for head, tails, _ in expansions:
            at = forests.node[head]
            span = int(at["source_start"]), int(at["source_end"])
            fragment = _fragment(head, forests, state, labels, words)
            uses.append(RuleUse(labels[int(at["label"])], fragment, span, (0, 0), tuple(places[t] for t in tails)))
        return uses

    def warm_up(self, settings: Settings) -> tuple[LoadedTrees, State]:
        """A small forest, one sweep and new parameters."""
        loaded = load_trees([_EXAMPLE], [1])
        chain = TreeChain(loaded, initial_state(settings.seed, loaded.batch), settings.base, settings.seed)
        chain.sweep(1, np.ones(1, np.int64), np.ones(1))
        chain.log_likelihood()
        return loaded, chain.state


def _fragment(head: int, forests: Forests, state: Variables, labels: Sequence[str], words: Sequence[str]) -> str:
    """The fragment at a node in brackets."""
    pieces: list[str] = []
    stack: list[int | str] = [head]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        at = forests.node[item]
        label = labels[int(at["label"])]
        if item != head and state.cut[item]:
            pieces.append(f" ({label})")
            continue
        pieces.append(f" ({label}")
        inside: list[int | str] = []
        position = int(at["source_start"])
        for tail in tails_of(forests, state, item):
            inside += [f" {word}" for word in words[position : int(forests.node[tail]["source_start"])]]
            inside.append(tail)
            position = int(forests.node[tail]["source_end"])
        inside += [f" {word}" for word in words[position : int(at["source_end"])]]
        stack += [")", *reversed(inside)]
    return "".join(pieces)[1:]
