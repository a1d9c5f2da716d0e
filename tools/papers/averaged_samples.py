"""Samples of each pair merged to one grammar, as [CFGŠ14 §5.4.2] has it: the beginning, and the end of each level."""

import numpy as np

from hierogram.daemon.learning.kinds.counting import fragment_averages, variables
from hierogram.daemon.learning.kinds.synchronous import pairs_of
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.learning import ALIGNED
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.residents import ResidentBatch, read_batches
from hierogram.samplers.forests.averages import add_trees
from hierogram.storage.store import Store


def commit_averaged_samples(store: Store, options: LearnOptions) -> None:
    """Take a store's pairs through the schedule `paper`, and commit as their means those of eight samples.

    The samples are the state in which sampling begins (every node cut, a random edge at each), and those after
    each of the levels: with defaults the 0th, 10th, …, 70th.
    """
    settings = store.settings()
    with holding_lease(store, "table 2"), Learner(store, options) as learner:
        learner.total = store.count_pairs(ALIGNED) * settings.levels * settings.sweeps_per_level
        for rows in read_batches(store, ALIGNED):
            batch = learner.open(rows)
            _add_sample(batch)
            for level in range(1, settings.levels + 1):
                learner.sweep(batch, np.full(len(rows), level * settings.sweeps_per_level), leave_open=True)
                _add_sample(batch)
            batch.commit(store, [], learner.chain.labels(), None)


def _add_sample(batch: ResidentBatch) -> None:
    pairs = pairs_of(batch.loaded).batch
    add_trees(fragment_averages(batch.averages), pairs, variables(batch.state), np.ones(pairs.size, np.bool_))
