"""Pairs to learn from, and the contents of a store after learning."""

from dataclasses import astuple

import numpy as np
from tests.storage.building import NewPair, make_pairs
from tests.storage.rows import rule_rows

from hierogram.daemon.learning.alignment.incremental import IncrementalAligner
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

QUICK = Settings(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)


def some_pairs(number: int, seed: int = 5) -> list[NewPair]:
    """Return random pairs of up to eight words from a small vocabulary, most words linked, not all in order."""
    random = np.random.default_rng(seed)
    pairs = []
    for k in range(number):
        size = int(random.integers(2, 9))
        words = random.integers(0, 30, size)
        order = np.arange(size)
        if size > 3 and k % 3 == 0:
            order[1:3] = order[2:0:-1]
        links = [f"{s}-{t}" for s, t in enumerate(order.tolist()) if random.random() < 0.9]
        source = " ".join(f"s{w}" for w in words)
        target = " ".join(f"t{w % 25}" for w in words[order])
        pairs.append(NewPair(source, target, " ".join(links), size, size, k + 1, f"pair {k}"))
    return pairs


def fill(store: Store, pairs: list[NewPair]) -> int:
    """Store pairs or trees, and return the number of accepted ones."""
    batch = store.begin_ingest("test", "test", "test")
    totals, _ = store.add_pairs(batch, make_pairs(pairs))
    store.finish_ingest(batch)
    return totals.accepted


def make_trained(url: str, pairs: int = 30) -> None:
    """Create a learned store whose aligner has counted the given alignments."""
    with open_store(url, create=True, settings=QUICK) as store:
        fill(store, some_pairs(pairs))
        IncrementalAligner(store).train()
        learn(store, sweeps=3)


def is_consistent(store: Store) -> bool:
    return verify(store).problems == []


def contents(store: Store) -> tuple[list[tuple[object, ...]], list[PairRow]]:
    """Return the rules, without their ids, and the derivations of a store."""
    with store.snapshot() as snapshot:
        rules = sorted(astuple(rule)[1:] for rule in rule_rows(snapshot))
        return rules, [row for rows in snapshot.iterate_derivations() for row in rows]
