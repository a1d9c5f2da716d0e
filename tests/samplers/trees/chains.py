"""Compiled chains over small treebanks."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from tests.reference.tree_grammar import Joint

from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts
from hierogram.daemon.learning.kinds.trees import FIRST_PRIOR, Prior, TreeChain, load_trees
from hierogram.samplers.forests.derivations import initial_state
from hierogram.samplers.trees.models import label_processes
from hierogram.samplers.trees.sampler import TreePlan
from hierogram.storage.records.settings import Settings

STRENGTH = {"S": 0.7, "A": 1.3, "B": 0.4}
EXPANDED = {"S": 0.5, "A": 0.3, "B": 0.8}


def chain(texts: Sequence[str], base: str, start: str, seed: int) -> TreeChain:
    loaded = load_trees(texts, range(1, len(texts) + 1))
    made = TreeChain(EmptyCounts(Settings(grammar="trees", base=base), (0, 0)), ChainConfig())
    made.add_pairs(loaded, initial_state(seed, loaded.batch, start), np.zeros(len(texts), np.bool_))
    set_priors(made, {label: (STRENGTH[label], EXPANDED[label]) for label in STRENGTH})
    return made


def set_priors(kernels: TreeChain, priors: dict[str, Prior]) -> None:
    known = [priors.get(label, FIRST_PRIOR) for label in kernels.loaded.labels]
    labels = label_processes(*(np.array(column) for column in zip(*known, strict=True)))
    kernels.state = kernels.state._replace(labels=labels)


def step(kernels: TreeChain, seed: int, number: int) -> None:
    """Sweep over all trees at T = 1."""
    trees = kernels.loaded.batch.size
    plan = TreePlan(number, np.full(trees, number), np.ones(trees))
    kernels.state, _ = kernels.kernel.step(seed, kernels.state, plan)


def to_joint(chain: TreeChain) -> Joint:
    offsets = chain.loaded.batch.forests.node_offset.tolist()
    edges, cuts = (column.tolist() for column in chain.state.derivations)
    return tuple((tuple(edges[a:b]), tuple(cuts[a:b])) for a, b in pairwise(offsets))
