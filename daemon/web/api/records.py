"""Declare what answers hold, for the OpenAPI document and for the checks of types."""

from datetime import datetime

from pydantic import BaseModel, Field


class RuleAnswer(BaseModel):
    """A rule in present use."""

    source: str
    target: str
    expected_uses: float = Field(description="Expected uses: the posterior mean.")
    expected_uses_error: float = Field(description="Monte-Carlo standard error of the expected uses.")
    count: int = Field(description="Uses in the present derivations.")
    p_target_given_source: float
    p_source_given_target: float
    length: int
    scope: int
    nonterminals: int
    hiero: bool


class RulesAnswer(BaseModel):
    """A page of rules, most often used first."""

    rules: list[RuleAnswer]
    next: str | None = Field(description="Cursor of the next page; null at the end.")


class PairAnswer(BaseModel):
    """A stored pair."""

    id: int
    corpus: str
    external_id: str | None
    source: str
    target: str
    alignment: str
    state: str = Field(description="waiting, sampling or settled.")
    stage: int
    sweep: int
    added_at: datetime


class RuleUseAnswer(BaseModel):
    """A rule where a derivation uses it."""

    source: str
    target: str
    source_span: tuple[int, int] = Field(description="Words from the first to before the second.")
    target_span: tuple[int, int]
    children: list[int] = Field(description="Places, in the list of rules, of what fills [X,1], [X,2], …")


class DerivationAnswer(BaseModel):
    """A pair's present derivation, top-down in source order; the first rule is the root's."""

    pair: int
    state: str
    sweep: int
    rules: list[RuleUseAnswer]


class LinkAnswer(BaseModel):
    """Two words, by their positions from 0, and the probability that one rule emits both."""

    source: int
    target: int
    probability: float


class MisfitAnswer(BaseModel):
    """The word of a side that belongs least, by its position from 0, and the natural log of the odds that it stands in
    the place of another."""

    position: int
    odds: float


class ScoreAnswer(BaseModel):
    """A pair's score under what was learned when the store stood at `position`; docs/scores.md says what is what."""

    pair: int
    position: int
    scored_at: datetime
    tokens: int
    log_probability: float
    log_probability_error: float | None
    evidence: float
    unseen: float
    unseen_error: float | None
    pieces: int
    exact: bool
    source_misfit: MisfitAnswer | None
    target_misfit: MisfitAnswer | None
    links: list[LinkAnswer]


class LoopAnswer(BaseModel):
    """A loop of the daemon."""

    name: str
    age: float = Field(description="Seconds since its last beat.")
    patience: float
    turns: bool
    restarts: int
    error: str | None


class LagAnswer(BaseModel):
    """How far sampling is behind."""

    pairs: int = Field(description="Pairs that are not through the sampling schedule yet.")
    states: dict[str, int] = Field(description="The same pairs by state: unaligned, waiting, sampling.")
    oldest: float | None = Field(description="Seconds that the oldest pair has waited.")
    sweeps_per_second: float


class SpoolAnswer(BaseModel):
    """What the spool has done since the start, and what lies in it."""

    done: int = Field(description="Inputs taken in.")
    failed: int = Field(description="Inputs set apart.")
    waiting: int = Field(description="Files that wait for their turn or for others.")
    incomplete: list[str] = Field(description="Which files wait for which others.")


class StoreAnswer(BaseModel):
    """How much the store holds."""

    url: str
    schema_: str = Field(alias="schema")
    position: int
    pairs: dict[str, int]
    rules: int
    rule_tokens: int
    expected_tokens: float
    left_out: dict[str, float]
    rejected: int
    sweeps: int
    last_log_likelihood: float | None
    corpora: dict[str, int]
    log_bytes: int | None = Field(description="Size of the log beside an SQLite store's file; null for Postgres.")


class StatusAnswer(BaseModel):
    """How the daemon and its store are."""

    version: str
    uptime: float
    degraded: str | None
    log_likelihood: float | None
    loops: list[LoopAnswer]
    lag: LagAnswer
    spool: SpoolAnswer
    memory_bytes: int | None = Field(description="Memory that the daemon's process holds; null where it is not known.")
    store: StoreAnswer | None = Field(description="Null where the store does not answer.")
    store_error: str | None


class HealthAnswer(BaseModel):
    """Whether the daemon is alive, or ready, and if not, why."""

    ok: bool
    reasons: list[str]
