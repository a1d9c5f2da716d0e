"""The scratch memory of one worker: arrays that a sweep fills and empties without allocating any."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.table import LENGTH
from hierogram.samplers.forests.fragments import make_summaries, powers_of_base

VISIT, EPOCH, NEXT_RULE, OVERLAID, TOTAL, LOGGED, LISTED, COUNTED = 0, 1, 2, 3, 4, 5, 6, 7
"""Registers: the visit's number, that of its summaries, rules met in it, rows taken in the overlay, all customers,
changes in the log, places taken by lists, rules of the visit whose counts were read."""
EVALUATIONS, READS, EDGES_SAMPLED, EDGES_CHANGED = 8, 9, 10, 11
CUTS_SAMPLED, CUTS_CHANGED, PROPOSED, ACCEPTED = 12, 13, 14, 15
"""Registers that count: rules scored, rules read from the table, variables sampled and changed, MH steps."""
STATISTICS = 8
"""The first of the registers that count."""

RULE = np.dtype(
    [
        ("source_hash", np.uint64),
        ("target_hash", np.uint64),
        ("key_high", np.uint64),
        ("key_low", np.uint64),
        ("shape", np.uint64),
        ("count", np.int64),
        ("base", np.int64),
        ("row", np.int64),
        ("length", np.int32),
        ("long", np.int32),
    ]
)
"""A rule met in a visit: hashes of both sides, key, shape word, count now, count when it was first met, row in the rule
table; its length, and 1 if it is to be scored by logarithms."""


class Workspace(NamedTuple):
    """Scratch memory of one worker; nothing is allocated during a sweep.

    `summary` SUMMARY[n+1] by node; `rule` RULE[r] by local rule; `places` uint64[m] the local hash map; `by_length`
    LENGTH[L] the counts by length at hand; `used`, `current` int32[n] the rules of an option; `stack`, `walk`,
    `pending` int32[n]; `lists` int32 the rules below each node; `change` int64[n] by how much each rule of an option
    changes its length's tables; `scratch` int64[2, n]; by option, its weight is `weight` float64 times FOLD to the
    power of `folds` int64, and `top` int32 its uppermost rule; `powers` uint64 of the hash's base; `overlay`
    uint64[o, 4] what a block of pairs has added to a frozen table, `overlay_list` its taken rows; `log` uint64[c, 4]
    the changes of all the worker's blocks of a round (key, change, shape); `saved_edge`, `saved_cut` a pair's
    variables; `registers` int64[16], names above.
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
    weight: NDArray[np.float64]
    folds: NDArray[np.int64]
    top: NDArray[np.int32]
    powers: NDArray[np.uint64]
    overlay: NDArray[np.uint64]
    overlay_list: NDArray[np.int64]
    log: NDArray[np.uint64]
    saved_edge: NDArray[np.uint16]
    saved_cut: NDArray[np.uint8]
    registers: NDArray[np.int64]


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << max(0, (int(least) - 1).bit_length())


def make_workspace(
    most_nodes: int,
    most_rules: int,
    most_options: int,
    most_listed: int,
    longest_rule: int,
    overlay_rules: int,
    logged_rules: int,
) -> Workspace:
    """A workspace for pairs of at most so many nodes, local rules, options and listed rules, and so many changes.

    `overlay_rules` bounds the changes of a block, `logged_rules` those of a round.
    """
    overlay = power_of_two(2 * overlay_rules + 2)
    return Workspace(
        make_summaries(most_nodes),
        np.zeros(most_rules, RULE),
        np.zeros(power_of_two(2 * most_rules), np.uint64),
        np.zeros(longest_rule + 1, LENGTH),
        np.zeros(most_nodes + 1, np.int32),
        np.zeros(most_nodes + 1, np.int32),
        np.zeros(most_nodes + 1, np.int32),
        np.zeros(most_nodes + 1, np.int32),
        np.zeros(most_nodes + 1, np.int32),
        np.zeros(most_listed, np.int32),
        np.zeros(most_nodes + 1, np.int64),
        np.zeros((2, most_nodes + 1), np.int64),
        np.zeros(max(2, most_options), np.float64),
        np.zeros(max(2, most_options), np.int64),
        np.zeros(max(2, most_options), np.int32),
        powers_of_base(longest_rule + 2),
        np.zeros((overlay, 4), np.uint64),
        np.zeros(overlay, np.int64),
        np.zeros((logged_rules, 4), np.uint64),
        np.zeros(most_nodes, np.uint16),
        np.zeros(most_nodes, np.uint8),
        np.zeros(16, np.int64),
    )
