"""Rules, labels and sweeps, a row for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class LabelRow(NamedTuple):
    """Parameters of a label of a tree grammar: the strength α_c of its fragments' process, and the probability
    β_c that the base distribution expands it.
    """

    label: str
    strength: float
    expansion_probability: float


class LearningRun(NamedTuple):
    """Progress of a run of learning with the sweeps that follow the schedule: `sweeps` of them over every pair.

    All pairs have had `done` of them. They are taken in batches by their ids: pairs up to `after_id` have had the next
    few as well, which are a round, and the batch after them has had `within` of that round.
    """

    id: int
    sweeps: int
    done: int = 0
    after_id: int = 0
    within: int = 0

    @property
    def at_its_end(self) -> bool:
        """Return whether every pair has had all of its sweeps."""
        return self.done >= self.sweeps


class SupportingPair(NamedTuple):
    """A pair whose derivation uses a rule `uses` times."""

    id: int
    corpus: str
    source: str
    target: str
    alignment: str
    uses: int


class SweepRecord(NamedTuple):
    """One sweep over a batch of pairs: its place in the schedule, what moved, how likely the result is.

    `log_likelihood` is natural-log, of all rule counts after the sweep; None where it was not computed.
    `log_likelihood_before` is that of the counts before it: where a run begins, with new pairs in their initial state.
    """

    stage: int
    pairs: int
    log_likelihood: float | None
    edges_sampled: int
    edges_changed: int
    cuts_sampled: int
    cuts_changed: int
    seconds: float
    log_likelihood_before: float | None = None


@dataclass(slots=True)
class RuleRow:
    """A rule with its uses and relative frequencies, as people and exports see it.

    `expected_uses_error` is the Monte-Carlo standard error of the expected uses, `count` its uses in the present
    derivations; probabilities are relative frequencies of expected uses, or of the count where draws were asked for.
    """

    id: int
    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    hiero: bool
    expected_uses: float
    expected_uses_error: float
    count: int
    p_target_given_source: float
    p_source_given_target: float


@dataclass(slots=True)
class StoredRule:
    """A row of the table of rules as it is, zero counts included, for a recount."""

    id: int
    key_high: int
    key_low: int
    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    source_terminals: int
    target_terminals: int
    hiero: bool
    count: int
    expected_uses: float
    expected_uses_variance: float
    minimal_uses: int
