"""Tree grammars: fragments of trees, sampled given the counts of all other fragments [CGB09]."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import AllPairsChain, Kind, SweepRequest
from hierogram.daemon.learning.kinds.pairs import ForestPairs, list_children, list_rule_uses
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.counts.table import CountTable, empty_table
from hierogram.samplers.counts.texts import render_fragments
from hierogram.samplers.exceptions import BracketError, ForestTooLargeError
from hierogram.samplers.forests.derivations import Batch, State, initial_state, make_batch
from hierogram.samplers.forests.forest import Bitext, Forests, Node, assemble
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.brackets import check_size, productions, read_parse
from hierogram.samplers.grammar.columns import join_texts
from hierogram.samplers.grammar.keys import fragment_key, hash_words, source_terminals_of
from hierogram.samplers.grammar.numbers import MAX_EDGES, MAX_LABEL, ONE_SQUARE, ONE_USE
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import TREES
from hierogram.samplers.kernel import Report
from hierogram.samplers.trees.models import Expansions, TreeState, build_tree_model, label_processes
from hierogram.samplers.trees.sampler import TreePlan, build
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.grammar import LabelRow
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings


@dataclass(frozen=True, slots=True)
class LoadedTrees(ForestPairs):
    """Trees in memory: forests, productions, labels and words by number (label 0 is unused), and key salt."""

    counts_minimal = False
    mixes = False

    batch: Batch
    expansions: Expansions
    labels: list[str]
    words: list[str]
    key_salt: int

    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """Convert the chosen entries to columns: root label, fragment, and number of expansions (`length`)."""
        labels, fragments, expansions = render_fragments(deltas, chosen, self.labels, self.words)
        sides = zip(labels, fragments, strict=True)
        entry = deltas.entry
        zeros = np.zeros(len(chosen), np.int32)
        return RuleDeltas(
            keys=np.array([fragment_key(*both, self.key_salt) for both in sides], np.uint64).reshape(-1, 2),
            source=join_texts(labels),
            target=join_texts(fragments),
            length=np.array(expansions, np.int32),
            scope=zeros,
            nonterminals=entry["nonterminals"][chosen],
            source_terminals=zeros,
            target_terminals=source_terminals_of(entry["size"][chosen]).astype(np.int32),
            hiero=zeros.astype(np.bool_),
            count=entry["count"][chosen],
            expected_uses=entry["expected_uses"][chosen] / ONE_USE,
            expected_uses_variance=entry["variance"][chosen] / ONE_SQUARE,
            minimal_uses=entry["minimal_uses"][chosen],
        )


def load_trees(texts: Iterable[str], ids: Sequence[int], key_salt: int = 0) -> LoadedTrees:
    """Load trees or forests. `ids` name random streams. Raises `BracketError`, `ForestTooLargeError`."""
    parses = list(map(read_parse, texts))
    labels = {"": 0}
    words: dict[str, int] = {}
    numbers_by_symbols: dict[tuple[str, ...], int] = {}
    numbers: list[int] = []
    weights: list[float] = []
    nodes: list[list[Node]] = []
    for parse, number in zip(parses, ids, strict=True):
        try:
            check_size(parse)
        except ForestTooLargeError as error:
            raise ForestTooLargeError(f"tree {number}: {error}: remove this tree") from error
        max_degree = max(len(node.edges) for node in parse.nodes)
        if max_degree > MAX_EDGES:
            reason = f"a node has {max_degree} expansions, the limit is {MAX_EDGES}: remove this tree"
            raise ForestTooLargeError(f"tree {number}: {reason}")
        node_labels = [labels.setdefault(node.label, len(labels)) for node in parse.nodes]
        numbered = zip(parse.nodes, node_labels, strict=True)
        nodes.append([Node((node.start, node.end), (0, 0), node.edges, label) for node, label in numbered])
        for node_number, symbols in productions(parse):
            numbers.append(numbers_by_symbols.setdefault(symbols, len(numbers_by_symbols)))
            weights.append(1.0 / len(parse.nodes[node_number].edges))
    if len(labels) > MAX_LABEL + 1:
        limit = f"the limit is {MAX_LABEL:,}: merge labels"
        raise BracketError(f"the trees have {len(labels) - 1:,} different labels, {limit}")
    source = np.array([words.setdefault(word, len(words)) for parse in parses for word in parse.words], np.int32)
    offsets = np.cumsum([0, *(len(parse.words) for parse in parses)], dtype=np.int64)
    zeros = np.zeros(len(offsets), np.int64)
    no_links = np.zeros(0, np.int16)
    bitext = Bitext(source, offsets, np.zeros(0, np.int32), zeros, no_links, no_links, zeros)
    hashed = cumulate_hashes(hash_words(words, key_salt)[source], np.zeros(0, np.uint64), keys.ALL_BITS)
    longest = max((len(parse.words) + 2 * len(parse.nodes) for parse in parses), default=1)
    batch = make_batch(bitext, hashed, assemble(nodes), np.asarray(ids, np.int64), longest)
    degrees = np.cumsum([0, *(len(node.edges) for parse in parses for node in parse.nodes)], dtype=np.int64)
    expansions = Expansions(list(numbers_by_symbols), np.array(numbers, np.int32), np.array(weights), degrees)
    return LoadedTrees(batch, expansions, list(labels), list(words), key_salt)


Prior = tuple[float, float]
"""Parameters of a root label: strength α_c, and probability β_c that the base expands the label."""
FIRST_PRIOR: Prior = (1.0, 0.5)
"""Parameters of a root label before the first sweep."""


def _make_annealing(settings: Settings) -> Annealing:
    return Annealing(settings.annealing, settings.temperature)


class TreeChain(AllPairsChain):
    """Chain over all trees of a store, whose sweeps also resample the parameters of labels."""

    state: TreeState | None

    def _start(self, state: State) -> None:
        first = LabelRow("", *FIRST_PRIOR)
        parameters = np.array([self._parameters.get(label, first)[1:] for label in self.loaded.labels])
        self.kernel = build(build_tree_model(self._settings.base, self.loaded.expansions), self.loaded.batch)
        self.state = self.kernel.resume(state, label_processes(*parameters.T.copy()))

    def _step(self, request: SweepRequest, report: Report) -> SweepInfo:
        temperatures = np.where(request.active, _make_annealing(self._settings).temperatures(request.sweeps), 0.0)
        plan = TreePlan(self._sweeps, request.sweeps, temperatures)
        info: SweepInfo
        self.state, info = self.kernel.step(self._settings.seed, self.state, plan, report)
        return info

    def rule_table(self) -> CountTable:
        """Return the counts of all fragments, which are empty without trees in memory."""
        return empty_table(1, 0) if self.state is None else self.state.table

    def labels(self) -> list[LabelRow]:
        """Return the current parameters of each root label, or [] without trees in memory."""
        if self.state is None:
            return []
        labels = self.state.labels
        columns = self.loaded.labels, labels.strength.tolist(), labels.expansion_probability.tolist()
        return [LabelRow(*row) for row in zip(*columns, strict=True)][1:]


def _load(rows: Sequence[PairRow], settings: Settings) -> LoadedTrees:
    return load_trees([row.target for row in rows], [row.id for row in rows], settings.key_salt)


def _draw_initial_state(loaded: LoadedTrees, settings: Settings, due: NDArray[np.bool_], start: str | None) -> State:
    return initial_state(settings.seed, loaded.batch, start or settings.start)


def _read_derivation(row: PairRow, settings: Settings) -> list[RuleUse]:
    loaded = _load([row], settings)
    forests, labels = loaded.batch.forests, loaded.labels
    state, rule_nodes = list_rule_uses(forests, row.current or b"")
    words = row.source.split(" ")
    uses = []
    for head, _, children in rule_nodes:
        fields = forests.node[head]
        span = int(fields["source_start"]), int(fields["source_end"])
        fragment = _fragment(head, forests, state, labels, words)
        uses.append(RuleUse(labels[int(fields["label"])], fragment, span, (0, 0), children))
    return uses


def _fragment(head: int, forests: Forests, state: State, labels: Sequence[str], words: Sequence[str]) -> str:
    pieces: list[str] = []
    stack: list[int | str] = [head]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        fields = forests.node[item]
        label = labels[int(fields["label"])]
        if item != head and state.cut[item]:
            pieces.append(f" ({label})")
            continue
        pieces.append(f" ({label}")
        inside: list[int | str] = []
        position = int(fields["source_start"])
        for tail in list_children(forests, state, item):
            inside += [f" {word}" for word in words[position : int(forests.node[tail]["source_start"])]]
            inside.append(tail)
            position = int(forests.node[tail]["source_end"])
        inside += [f" {word}" for word in words[position : int(fields["source_end"])]]
        stack += [")", *reversed(inside)]
    return "".join(pieces)[1:]


KIND = Kind(
    name=TREES,
    needs_all_pairs=True,
    load=_load,
    draw_initial_state=_draw_initial_state,
    schedule=_make_annealing,
    chain=TreeChain,
    key=fragment_key,
    read_derivation=_read_derivation,
    # Use a sentence with two parses, so that the kernels for ambiguous forests are also compiled.
    example=PairRow(1, "", "(S (| #1=(A a) (B (C b) (C c))) (| (#1) (B (C b) (D c))))", "", WAITING, 0, 0, None, None),
    sweeps=74,
)
