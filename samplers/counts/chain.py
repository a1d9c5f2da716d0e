"""The state of a chain over derivations."""

from typing import NamedTuple

from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.forests.averages import NO_AVERAGES, Averages
from hierogram.samplers.forests.batch import State


class ChainState(NamedTuple):
    """The derivations of a batch, the counts of all rules (those of the derivations, and of what lies outside), and the
    rules that each pair expects to use.
    """

    derivations: State
    table: RuleTable
    averages: Averages = NO_AVERAGES


class CountsError(RuntimeError):
    """A count fell below zero: derivations and table do not belong together."""


class SweepInfo(NamedTuple):
    """What one sweep did: variables sampled and changed, rules scored, rules read from the table, MH steps."""

    edges_sampled: int
    edges_changed: int
    cuts_sampled: int
    cuts_changed: int
    evaluations: int
    reads: int = 0
    proposed: int = 0
    accepted: int = 0
