"""Sampling of pairs in memory, without a store, for research on priors and schedules.

A store with the same settings and pairs draws the same samples: random numbers are keyed by seed, pair and sweep.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Self

import numpy as np

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts, PairSchedule, State, SweepRequest, find_kind
from hierogram.daemon.learning.learner import ResidentBatch
from hierogram.daemon.library.options import check_integer, resolve_options
from hierogram.daemon.library.tables import RuleTable, table_from_deltas
from hierogram.daemon.shared_options import THREADS
from hierogram.daemon.text.memory_input import Frame, MemoryPairs, PairLike
from hierogram.daemon.text.reading import STORE_DEFAULTS, InputValidator
from hierogram.samplers.grammar.kinds import PAIRS, find_grammar_kind
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.grammar.settings import ANNEALED, DIRICHLET, PAPER, PITMAN_YOR, SYNCHRONOUS
from hierogram.storage.records.grammar import SweepRecord
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings


@dataclass(frozen=True, slots=True)
class PitmanYor:
    """Prior of rules: Poisson lengths of mean `rate`, a Pitman-Yor process per length [CFGŠ14 §5.2]."""

    discount: float = 0.5
    strength: float = 5.0
    rate: float = 2.0


@dataclass(frozen=True, slots=True)
class DirichletProcess:
    """Prior of rules: a Dirichlet process with concentration `strength` [CFGŠ14 §4.1]."""

    strength: float = 5.0


Prior = PitmanYor | DirichletProcess


class SampledChain(AbstractContextManager["SampledChain"]):
    """Markov chain over pairs in memory, created by `sample`.

    `trace` has a record of each sweep: numbers of changes, and the natural log-likelihood of all rule tokens. As a
    context manager, the chain ends its threads on exit. It must not be used from two threads at once.
    """

    def __init__(
        self, rows: Sequence[PairRow], settings: Settings, schedule: PairSchedule, threads: int | None
    ) -> None:
        kind = find_kind(settings)
        self.settings = settings
        self.schedule = schedule
        self.trace: list[SweepRecord] = []
        self._batch = ResidentBatch.from_rows(list(rows), settings)
        config = ChainConfig(threads or os.cpu_count() or 1, schedule=schedule)
        vocabulary_sizes = (
            len({word for row in rows for word in row.source.split(" ")}),
            len({word for row in rows for word in row.target.split(" ")}),
        )
        self._chain = kind.chain(EmptyCounts(settings, vocabulary_sizes), config)
        self._chain.add_pairs(self._batch.loaded, self._batch.state, self._batch.committed)
        self._sweep = self._chain.sweep(self._batch.loaded)

    @property
    def state(self) -> State:
        """Copy of the current derivations, in the format of the kernels of the grammar's kind."""
        return self._batch.state.copy()

    def step(self) -> SweepRecord:
        """Resample all pairs once, at the next step of the schedule. Returns the sweep's record."""
        batch, all_pairs = self._batch, np.ones(len(self._batch.rows), np.bool_)
        batch.sweeps += 1
        request = SweepRequest(batch.sweeps, all_pairs, all_pairs & (batch.sweeps > self.schedule.burn_in))
        initial_likelihood = None if self.trace else self.log_likelihood()
        started = time.perf_counter()
        batch.state, info = self._sweep(batch.state, batch.averages, request, lambda _: None)
        seconds = time.perf_counter() - started
        stage, likelihood = int(self.schedule.reached(batch.sweeps).max()), self.log_likelihood()
        self.trace.append(SweepRecord(stage, len(all_pairs), likelihood, *info[:4], seconds, initial_likelihood))
        return self.trace[-1]

    def steps(self, sweeps: int | None = None) -> Iterator[SweepRecord]:
        """Run one sweep per iteration and yield its record. Default: the burn-in, then 24 sweeps (ITG: 74)."""
        for _ in range(self.schedule.burn_in + find_kind(self.settings).sweeps if sweeps is None else sweeps):
            yield self.step()

    def run(self, sweeps: int | None = None) -> Self:
        """Run the sweeps of `steps` and return the chain."""
        for _ in self.steps(sweeps):
            pass
        return self

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule uses in the current derivations."""
        return self._chain.log_likelihood()

    def rules(self) -> RuleTable:
        """Return the rules with expected uses, most used first.

        Expected uses are means over the sweeps after the burn-in. Before its end, they are uses in the current
        derivations.
        """
        return table_from_deltas(self._batch.rules())

    def close(self) -> None:
        """End the threads of the chain."""
        self._chain.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SampledChain({len(self._batch.rows):,} pairs, {len(self.trace):,} sweeps)"

    def _repr_html_(self) -> str:
        values = [value for sweep in self.trace if (value := sweep.log_likelihood) is not None]
        if not values:
            return f"<p>{escape(repr(self))}</p>"
        low, high = min(values), max(values)
        step = _WIDTH / max(len(values) - 1, 1)
        points = " ".join(
            f"{k * step:.1f},{_HEIGHT * (1 - (value - low) / ((high - low) or 1)):.1f}"
            for k, value in enumerate(values)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-4 -4 {_WIDTH + 8} {_HEIGHT + 8}" width="{_WIDTH}">'
            f'<polyline points="{points}" fill="none" stroke="currentColor"/></svg>'
            f"<p>{escape(repr(self))}: log-likelihood {values[0]:,.0f} to {values[-1]:,.0f}</p>"
        )


_WIDTH, _HEIGHT = 480, 120


def sample(
    pairs: Iterable[PairLike] | Frame,
    *,
    model: Prior = PitmanYor(),
    schedule: PairSchedule | None = None,
    seed: int = 1,
    span_limit: int = 7,
    grammar: str = SYNCHRONOUS,
    threads: int | None = None,
) -> SampledChain:
    """Return a chain over pairs in memory, before its first sweep: `sample(pairs).run(100).rules()`.

    `pairs` are tuples, mappings or a data frame, as in `GrammarStore.add`; for the grammar "itg" they need no links.
    `schedule` is an `Annealing`, a `Schedule` or an object with the same methods. The default is the schedule of a new
    store with the rule model pitman-yor. All phrases are cut initially if the schedule has `levels`; otherwise cuts are
    random. A store with the same settings and pairs gives the same draws, with any number of threads. Raises
    `UsageError` for invalid arguments, and `InputError` if `pairs` is empty or a pair cannot be sampled.
    """
    prior = {"model": PITMAN_YOR if isinstance(model, PitmanYor) else DIRICHLET, **asdict(model)}
    settings = Settings(**{**prior, "seed": seed, "span_limit": span_limit, "grammar": grammar})
    settings = resolve_options(Settings, settings, {})
    threads = None if threads is None else check_integer("threads", threads, THREADS)
    if schedule is None:
        schedule = find_kind(settings).schedule(settings)
    else:
        # The setting `schedule` determines the initial state: all phrases cut with levels, else random cuts.
        has_levels = isinstance(schedule, Schedule) or getattr(schedule, "levels", 0) > 0
        settings = replace(settings, schedule=PAPER if has_levels else ANNEALED)
    return SampledChain(_read_pairs(pairs, settings), settings, schedule, threads)


def _read_pairs(pairs: Iterable[PairLike] | Frame, settings: Settings) -> list[PairRow]:
    grammar_kind = find_grammar_kind(settings.grammar)
    if grammar_kind.input_kind != PAIRS:
        raise UsageError(
            f"grammar {settings.grammar!r} cannot be sampled in memory: create a store with this grammar, and add trees"
        )
    rows: list[PairRow] = []
    with closing(InputValidator(settings, STORE_DEFAULTS)) as validator:
        for chunk in validator.validated_chunks(MemoryPairs(pairs)):
            for rejection in chunk.rejected[:1]:
                raise InputError(f"pair {rejection.line}: {rejection.message}")
            columns = chunk.pairs
            for source, target, links in zip(columns.sources, columns.targets, columns.alignments, strict=True):
                number = len(rows) + 1
                if links is None and grammar_kind.needs_links:
                    raise InputError(f"pair {number} has no links: align the pairs first with hierogram.align")
                rows.append(PairRow(number, source, target, links or "", WAITING, 0, 0, None, None))
    if not rows:
        raise InputError("no pairs to sample")
    return rows
