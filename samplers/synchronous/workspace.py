"""The scratch memory of one worker: arrays that a sweep fills and empties without allocating any."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.products import SCALED
from hierogram.samplers.counts.table import LENGTH
from hierogram.samplers.forests.batch import Batch
from hierogram.samplers.forests.fragments import make_summaries, powers_of_base
from hierogram.samplers.grammar.uses import CLASSES

REGISTERS = np.dtype(
    [
        ("stamp", np.int64),
        ("epoch", np.int64),
        ("met", np.int64),
        ("counted", np.int64),
        ("listed", np.int64),
        ("customers", np.int64),
        ("overlaid", np.int64),
        ("logged", np.int64),
        ("averaged", np.int64),
        ("credited", np.int64),
        ("encoded", np.int64),
        ("lost", np.int64),
    ]
)
"""The number of the pair that is being resampled and that of its summaries; rules met in it, and how many of them have
their counts read; places taken by lists; customers of all rules; rows taken in the overlay; changes in the log; 1 if
the pair is averaged in this sweep; rules credited in it, bytes of their fragments, uses of those without room for
theirs."""

STATISTICS = np.dtype(
    [
        ("edges_sampled", np.int64),
        ("edges_changed", np.int64),
        ("cuts_sampled", np.int64),
        ("cuts_changed", np.int64),
        ("evaluations", np.int64),
        ("reads", np.int64),
        ("proposed", np.int64),
        ("accepted", np.int64),
    ]
)
"""Variables sampled and changed, rules scored, rules read from the table, Metropolis-Hastings steps."""

RULE = np.dtype(
    [
        ("source_hash", np.uint64),
        ("target_hash", np.uint64),
        ("key_high", np.uint64),
        ("key_low", np.uint64),
        ("size", np.uint64),
        ("count", np.int64),
        ("base", np.int64),
        ("row", np.int64),
        ("length", np.int32),
        ("long", np.int32),
    ]
)
"""A rule of the pair that is being resampled: hashes of both sides, key, size, count now, count when it was first met,
row in the rule table; its length, and 1 if it is to be scored by logarithms."""


CREDIT = np.dtype(
    [("stamp", np.int64), ("uses", np.int64), ("start", np.int32), ("size", np.int32), ("root", np.int32)], align=True
)
"""What a rule of the pair was credited with in this sweep: the number of the pair for which this is valid; uses in
units of 1/`ONE_USE`; where its fragment lies in `fragments`, its bytes, the node at which it begins."""


class Workspace(NamedTuple):
    """Scratch memory of one worker; nothing is allocated during a sweep.

    `summary` SUMMARY[n+1] by node; `rule` RULE[r] by local rule; `places` uint64[m] the local hash map; `by_length`
    LENGTH[L] the counts by length at hand; `used`, `current` int32[n] the rules of an option; `stack`, `walk`,
    `pending` int32[n]; `lists` int32 the rules below each node; `change` int64[n] by how much each rule of an option
    changes its length's tables; `scratch` int64[2, n]; by option, `weight` SCALED and `top` int32 its uppermost rule;
    `powers` uint64 of the hash's base; `overlay` uint64[o, 4] what a block of pairs has added to a frozen table,
    `overlay_list` its taken rows; `log` uint64[c, 4] the changes of all the worker's blocks of a round (key, change,
    size); `saved_edge`, `saved_cut` a pair's variables; `registers` REGISTERS[1]; `statistics` STATISTICS[1];
    `rows_read` uint32[N], shared by all workers: which rows of the table each pair read last, as long as they fit in
    its nodes' places; `credits` CREDIT[r] by local rule, `credited` int32 the rules that were credited, `fragments`
    uint8 the bytes of their fragments, `mass` int64[CLASSES] the uses credited, by number of nonterminals.
    """

    summary: NDArray[np.void]
    rule: NDArray[np.void]
    places: NDArray[np.uint64]
    by_length: NDArray[np.void]
    used: NDArray[np.int32]
    current: NDArray[np.int32]
    stack: NDArray[np.int32]
    walk: NDArray[np.int32]
    pending: NDArray[np.int32]
    lists: NDArray[np.int32]
    change: NDArray[np.int64]
    scratch: NDArray[np.int64]
    weight: NDArray[np.void]
    top: NDArray[np.int32]
    powers: NDArray[np.uint64]
    overlay: NDArray[np.uint64]
    overlay_list: NDArray[np.int64]
    log: NDArray[np.uint64]
    saved_edge: NDArray[np.uint16]
    saved_cut: NDArray[np.uint8]
    registers: NDArray[np.void]
    statistics: NDArray[np.void]
    rows_read: NDArray[np.uint32]
    credits: NDArray[np.void]
    credited: NDArray[np.int32]
    fragments: NDArray[np.uint8]
    mass: NDArray[np.int64]


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << max(0, (int(least) - 1).bit_length())


def make_workspace(batch: Batch, overlay_rules: int, logged_rules: int, rows_read: NDArray[np.uint32]) -> Workspace:
    """A workspace for the pairs of a batch.

    `overlay_rules` bounds the changes of a block, `logged_rules` those of a round.
    """
    overlay = power_of_two(2 * overlay_rules + 2)
    nodes, options = batch.most_nodes, max(2, batch.most_options)
    return Workspace(
        summary=make_summaries(nodes),
        rule=np.zeros(batch.most_rules, RULE),
        places=np.zeros(power_of_two(2 * batch.most_rules), np.uint64),
        by_length=np.zeros(batch.longest_rule + 1, LENGTH),
        used=np.zeros(nodes + 1, np.int32),
        current=np.zeros(nodes + 1, np.int32),
        stack=np.zeros(nodes + 1, np.int32),
        walk=np.zeros(nodes + 1, np.int32),
        pending=np.zeros(nodes + 1, np.int32),
        lists=np.zeros(batch.most_listed, np.int32),
        change=np.zeros(nodes + 1, np.int64),
        scratch=np.zeros((2, nodes + 1), np.int64),
        weight=np.zeros(options, SCALED),
        top=np.zeros(options, np.int32),
        powers=powers_of_base(batch.longest_rule + 2),
        overlay=np.zeros((overlay, 4), np.uint64),
        overlay_list=np.zeros(overlay, np.int64),
        log=np.zeros((logged_rules, 4), np.uint64),
        saved_edge=np.zeros(nodes, np.uint16),
        saved_cut=np.zeros(nodes, np.uint8),
        registers=np.zeros(1, REGISTERS),
        statistics=np.zeros(1, STATISTICS),
        rows_read=rows_read,
        credits=np.zeros(batch.most_rules, CREDIT),
        credited=np.zeros(batch.most_rules, np.int32),
        fragments=np.zeros(64 * nodes + 1024, np.uint8),
        mass=np.zeros(CLASSES, np.int64),
    )
