"""From trees and packed forests in brackets to what the samplers work on: labels, words, productions, forests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.counting import ForestPairs
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.exceptions import BracketError, ForestTooLargeError
from hierogram.samplers.forests.batch import Batch, make_batch
from hierogram.samplers.forests.forest import Bitext, Node, assemble
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.brackets import check_size, productions, read_parse
from hierogram.samplers.grammar.columns import join_texts
from hierogram.samplers.grammar.keys import fragment_key, hash_words
from hierogram.samplers.grammar.limits import MAX_LABEL
from hierogram.samplers.grammar.sizes import source_terminals_of
from hierogram.samplers.trees.models import Expansions, TreeBatch
from hierogram.samplers.trees.rendering import internal_nodes, render_fragments
from hierogram.storage.records.columns import RuleDeltas


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
            sampled_counts=deltas.sampled[chosen],
            sampled_variances=deltas.variances[chosen],
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
