"""Compiled chains over small treebanks."""

from collections.abc import Sequence
from itertools import pairwise

from tests.reference.tree_grammar import Joint

from hierogram.daemon.learning.kinds.trees import TreeChain, load_trees
from hierogram.samplers.forests.derivations import initial_state

STRENGTH = {"S": 0.7, "A": 1.3, "B": 0.4}
EXPANDED = {"S": 0.5, "A": 0.3, "B": 0.8}


def chain(texts: Sequence[str], base: str, start: str, seed: int) -> TreeChain:
    loaded = load_trees(texts, range(1, len(texts) + 1))
    priors = {label: (STRENGTH[label], EXPANDED[label]) for label in STRENGTH}
    return TreeChain(loaded, initial_state(seed, loaded.batch, start), base, seed, priors)


def to_joint(chain: TreeChain) -> Joint:
    offsets = chain.loaded.batch.forests.node_offset.tolist()
    edges, cuts = chain.state.edge.tolist(), chain.state.cut.tolist()
    return tuple((tuple(edges[a:b]), tuple(cuts[a:b])) for a, b in pairwise(offsets))
