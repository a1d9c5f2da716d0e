"""What crosses the store's border: plain rows, written down once.

Everything here is a value, to be made once and not changed (the rows that come by the million are not frozen
only because making a frozen one takes seven times as long). Texts of tokens are joined by one space;
alignments are canonical Pharaoh lines (sorted, without repeats); rule sides are in the notation of
`hierogram.samplers.grammar.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

from hierogram.samplers.grammar.kinds import NOTATIONS
from hierogram.samplers.grammar.settings import CUT, DIRICHLET, JOINED, PCFG, PITMAN_YOR, RANDOM, SYNCHRONOUS, UNIFORM
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

LARGEST_SEED = (1 << 63) - 1
LONGEST_SIDE = 361
"""Words of a monotone pair whose phrases a forest's 16-bit node numbers can still hold: n(n+1)/2 < 2^16."""
INFINITY = float("inf")

KEPT, LOWERED = "kept", "lowered"
CASES = (KEPT, LOWERED)
"""What becomes of capital letters where pairs come into a store."""

UNALIGNED = "unaligned"
"""State of a pair that came without an alignment and has not got one yet."""
WAITING = "waiting"
"""State of a pair that is stored and aligned but has no derivation yet."""
SAMPLING = "sampling"
"""State of a pair on its way through the stratified schedule."""
SETTLED = "settled"
"""State of a pair that has been through every stage."""

UNSETTLED = (UNALIGNED, WAITING, SAMPLING)
"""States of pairs that are not through the schedule."""

NOBODY, GIVEN, ALIGNER = "nobody", "given", "aligner"
"""Who aligned a pair: no one yet, whoever made the input, or our aligner."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Model and schedule of a store, fixed for its life [CFGŠ14 §5.2-5.4].

    `strength` is alpha (one value for all lengths), `rate` the Poisson mean of rule lengths, `samples` the number S of
    thinned samples that a pair keeps, `sweeps_per_level` K and `levels` the stratified schedule, `key_salt` the salt of
    the rule keys.

    For trees [CGB09] the first `annealing` sweeps of a tree go from `temperature` down to 1; the model, its parameters,
    the span limit and the levels are of synchronous grammars.

    `languages` are those of source and target, () where the store does not know them. Pairs that come without links are
    divided into tokens by the rules of these languages with `tokenize`.
    """

    model: Annotated[str, Option("Model of rules", values={PITMAN_YOR: "by rule length", DIRICHLET: ""})] = PITMAN_YOR
    discount: Annotated[float, Option("Pitman-Yor discount d, 0 ≤ d < 1.", least=0, below=1)] = 0.5
    strength: Annotated[float, Option("Strength α > 0 of the prior.", above=0, below=INFINITY)] = 5.0
    rate: Annotated[float, Option("Mean λ > 0 of the Poisson prior of rule lengths.", above=0, below=INFINITY)] = 2.0
    span_limit: Annotated[int, Option("Phrases of more words than this are always cut (0: no limit).", least=0)] = 7
    seed: Annotated[int, Option("Seed of all randomness.", least=0, most=LARGEST_SEED)] = 1
    samples: Annotated[int, Option("Samples that each pair keeps.", least=1)] = 8
    thinning: Annotated[int, Option("Sweeps from one sample to the next.", least=1)] = 10
    sweeps_per_level: Annotated[int, Option("Sweeps over each stage of the stratified schedule.", least=1)] = 10
    levels: Annotated[int, Option("Stages of the stratified schedule, by level of phrase.", least=1)] = 7
    max_tokens: Annotated[int, Option("Longest side, in tokens, that ingest takes.", least=1, most=LONGEST_SIDE)] = 200
    key_salt: int = 0
    grammar: Annotated[str, Option("Rules between two languages, or fragments of trees", values=NOTATIONS.keys())] = (
        SYNCHRONOUS
    )
    base: Annotated[
        str, Option("Base distribution of a tree grammar's fragments", values={UNIFORM: "P_M", PCFG: "P_C"})
    ] = PCFG
    start: Annotated[
        str,
        Option("How a new tree is cut", values={JOINED: "one fragment", CUT: "everywhere", RANDOM: "by coins"}),
    ] = JOINED
    temperature: Annotated[
        float, Option("Temperature T ≥ 1 at which the annealing of a new tree begins.", least=1, below=INFINITY)
    ] = 5.0
    annealing: Annotated[int, Option("Sweeps in which a new tree is annealed down to T = 1.", least=1)] = 200
    languages: Annotated[
        tuple[str, ...],
        Option(
            "Languages of source and target, as in fr,en; pairs of others are refused then.",
            metavar="SRC,TGT", shown="not known",
        ),
    ] = ()  # fmt: skip
    tokenize: Annotated[
        bool, Option("Divide what comes without links into tokens, by the languages' rules.", also=("tokenise",))
    ] = False
    case: Annotated[str, Option("What becomes of capital letters", values=CASES)] = KEPT


class NewPair(NamedTuple):
    """A validated sentence pair on its way into the store.

    `occurrence` numbers repeats of the same content within one input from 0, so that a corpus keeps its
    true repeats and yet the same input offered twice is stored once. A pair with an `external_id` is
    identified by that id within its corpus instead. Without an `alignment` (None) it is for the aligner.
    """

    source: str
    target: str
    alignment: str | None
    source_length: int
    target_length: int
    line: int
    external_id: str | None = None
    occurrence: int = 0


class RejectedLine(NamedTuple):
    """A line that was not stored, or several one after the other for one reason: where, why, and what the first said.

    `line` is the number of the first, `lines` how many there are. `reason` is a short code, `message` a sentence for
    people, `content` the bytes as they came, cut to a bound. Of lines that go on with what was handed over before, as
    chunks of an input do, `earlier` is how many came before `line`, and message and content are those of their first.
    """

    line: int
    reason: str
    message: str
    content: bytes
    lines: int = 1
    earlier: int = 0

    @property
    def last_line(self) -> int:
        """The number of the last of the lines."""
        return self.line + self.lines - 1

    @property
    def first_line(self) -> int:
        """The number of the first of the lines, those that were handed over before included."""
        return self.line - self.earlier


@dataclass(frozen=True, slots=True)
class IngestTotals:
    """What became of the lines of an input, or of one chunk of it."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0

    def __add__(self, other: IngestTotals) -> IngestTotals:
        """Sum, field by field."""
        return IngestTotals(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
        )


@dataclass(frozen=True, slots=True)
class AddedPairs:
    """What became of one chunk of an input.

    `totals` counts all of it; `rejected` holds the pairs that the store itself turned down.
    """

    totals: IngestTotals
    rejected: list[RejectedLine]


class PairRow(NamedTuple):
    """A stored pair with its derivation, as a sampler's batch needs it.

    `current` encodes every variable of the pair's forest, `ring` the last thinned samples, oldest first
    (both by `hierogram.samplers.forests.derivations`); both are None until the pair has been initialised.
    `alignment` is empty while `aligned_by` is `NOBODY`.
    """

    id: int
    source: str
    target: str
    alignment: str
    state: str
    stage: int
    sweep: int
    current: bytes | None
    ring: bytes | None
    aligned_by: str = GIVEN


class PairUpdate(NamedTuple):
    """The new derivation of a pair and how far it has come.

    `since` is the sweep that the pair had when its derivation was read. Where it is given, the store checks that
    no one else has sampled the pair meanwhile: count changes are from that derivation to the new one.
    """

    id: int
    current: bytes
    ring: bytes
    state: str
    stage: int
    sweep: int
    since: int | None = None


class PairAlignment(NamedTuple):
    """The alignment that the aligner gives a pair: a canonical Pharaoh line."""

    id: int
    alignment: str


class PairLinks(NamedTuple):
    """What the aligner thinks of a pair: both directions' links, int16 each, and how many times it has been over it.

    `sweep` is 0 where the links follow from a given alignment. `since` is the sweep that was read (None: there were no
    links), for the store to check that no one else has aligned the pair meanwhile.
    """

    id: int
    forward: bytes
    backward: bytes
    sweep: int
    since: int | None


class LinkRow(NamedTuple):
    """A stored pair with what the aligner thinks of it (None: nothing yet)."""

    id: int
    source: str
    target: str
    alignment: str
    state: str
    aligned_by: str
    forward: bytes | None
    backward: bytes | None
    sweep: int | None


class WordCounts(NamedTuple):
    """Of a word that others are linked to (the empty word: no word): links in all, and tokens by number of links."""

    side: str
    word: str
    links: int
    with_0: int
    with_1: int
    with_2: int
    with_3: int
    with_4: int
    with_5: int
    with_6: int
    with_7: int


@dataclass(slots=True)
class AlignerChange:
    """Pairs that the aligner has been over, and by how much its counts change.

    `lexicon` holds (source, target, forward, backward), `jumps` (direction, width, count), each key once. Links of
    `withdrawn` pairs go.
    """

    alignments: list[PairAlignment] = field(default_factory=list)
    links: list[PairLinks] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    lexicon: list[tuple[str, str, int, int]] = field(default_factory=list)
    words: list[WordCounts] = field(default_factory=list)
    jumps: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AlignerCounts:
    """Counts of the aligner, in the form of `AlignerChange`."""

    lexicon: list[tuple[str, str, int, int]]
    words: list[WordCounts]
    jumps: list[tuple[str, int, int]]


@dataclass(slots=True)
class RuleDelta:
    """By how much a rule's counts change; the rule itself comes along, so that its identity can be checked.

    `key_high` and `key_low` are the two halves of the rule's 128-bit key as signed 64-bit integers.
    """

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
    sampled_count: int


class LabelRow(NamedTuple):
    """What is learned of a label of a tree grammar: the strength α_c of its fragments' process, and the probability
    β_c that the base distribution expands it.
    """

    label: str
    strength: float
    expanded: float


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
    """

    stage: int
    pairs: int
    log_likelihood: float | None
    edges_sampled: int
    edges_changed: int
    cuts_sampled: int
    cuts_changed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """All rule counts of a store, for the samplers; row i of every array is the same rule.

    `keys` uint64[n, 2] (high, low), `counts` int64[n], `lengths`, `source_terminals` and `target_terminals`
    int32[n]. Counts are positive.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int32]
    source_terminals: NDArray[np.int32]
    target_terminals: NDArray[np.int32]


@dataclass(slots=True)
class RuleRow:
    """A rule with its counts and relative frequencies, as people and exports see it."""

    id: int
    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    hiero: bool
    count: int
    sampled_count: int
    p_target_given_source: float
    p_source_given_target: float


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """How much a store holds and how far sampling has come."""

    url: str
    schema: str
    position: int
    pairs: dict[str, int] = field(default_factory=dict)
    rules: int = 0
    rule_tokens: int = 0
    sampled_tokens: int = 0
    rejected: int = 0
    sweeps: int = 0
    last_log_likelihood: float | None = None
    corpora: dict[str, int] = field(default_factory=dict)

    @property
    def behind(self) -> dict[str, int]:
        """How many pairs are in which of the states `UNSETTLED`."""
        return {state: self.pairs.get(state, 0) for state in UNSETTLED}


class Claim(NamedTuple):
    """Who has a claim on what, until when; `process` tells the holder from all others, `host` and `pid` tell people."""

    name: str
    token: str
    host: str
    pid: int
    process: str
    command: str
    since: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class LagRow:
    """How many pairs are not settled yet, for how many seconds the oldest of them has been stored (None: none), and how
    many are in which of the states `UNSETTLED`.
    """

    pairs: int
    oldest: float | None
    states: dict[str, int] = field(default_factory=dict)


class RequestRow(NamedTuple):
    """A request that its client may repeat under the same key: how far it was taken in, and the answer.

    `digest` is that of its first `lines` lines; `answer` JSON, final where the request is `done`.
    """

    key: str
    corpus: str
    lines: int
    digest: bytes
    done: bool
    answer: str


class PairRecord(NamedTuple):
    """A stored pair as people ask for it."""

    id: int
    corpus: str
    external_id: str | None
    source: str
    target: str
    alignment: str
    state: str
    stage: int
    sweep: int
    added_at: datetime


class ExportRow(NamedTuple):
    """A recorded export: what was written where, and the store position that it shows.

    `state` is running, done or failed; the times are UTC.
    """

    id: int
    name: str
    path: str
    format: str
    started_at: datetime
    finished_at: datetime | None
    state: str
    rules: int | None
    bytes: int | None
    sha256: str | None
    position: int | None
    error: str | None
    manifest: str | None
    job: str | None
    process: str | None
    seconds: float | None


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
    sampled_count: int
