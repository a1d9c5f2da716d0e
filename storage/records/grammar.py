"""Records of rules, labels, learning runs and sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class LabelRow(NamedTuple):
    """Parameters of a tree label or ITG process: strength α_c, and probability β_c of expansion."""

    label: str
    strength: float
    expansion_probability: float


class LearningRun(NamedTuple):
    """Progress of a learning run, which sweeps `sweeps` times over every pair after the schedule.

    Batches of pairs are swept in rounds of several sweeps. Every pair has completed `sweeps_done` sweeps. Pairs up to
    `after_pair_id` have also completed the current round, and the next batch `sweeps_in_round` sweeps of this round.
    """

    id: int
    sweeps: int
    sweeps_done: int = 0
    after_pair_id: int = 0
    sweeps_in_round: int = 0

    @property
    def is_complete(self) -> bool:
        """True if all sweeps over all pairs are done."""
        return self.sweeps_done >= self.sweeps


class SupportingPair(NamedTuple):
    """Pair whose derivation uses a rule `uses` times."""

    id: int
    corpus: str
    source: str
    target: str
    alignment: str
    uses: int


class SweepRecord(NamedTuple):
    """One sweep over a batch of pairs: stage, counts of sampled and changed variables, and likelihood.

    Log-likelihoods are natural logarithms of the probability of all derivations after and before the sweep, None if not
    computed. At the start of a run, the value before the sweep includes new pairs in their initial state.
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


class CountKind(StrEnum):
    """Kind of a rule's count: weight for translation, expected uses, or uses in the current derivations."""

    TRANSLATION = "translation"
    POSTERIOR_MEAN = "posterior-mean"
    CURRENT_SAMPLE = "current-sample"


@dataclass(slots=True)
class RuleRow:
    """Rule with its uses and relative frequencies, for queries and exports.

    `expected_uses_error` is the Monte Carlo standard error of the expected uses, `count` the number of uses in the
    current derivations. Probabilities are relative frequencies of expected uses, or of counts in queries of the current
    sample.
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
