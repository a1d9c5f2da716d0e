"""Chains of the grammar sampler and the aligner for convergence diagnosis, and files of their draws."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.files import atomic_write
from hierogram.daemon.learning.kinds.kind import (
    ChainConfig,
    EmptyCounts,
    Kind,
    LoadedBatch,
    StoredSamples,
    SweepRequest,
    find_kind,
)
from hierogram.daemon.progress import Steps
from hierogram.samplers.alignment.bitext import Direction, make_direction, read_side
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, options_for
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, AlignmentState, chain_seed
from hierogram.samplers.diagnostics.overlap import TOTALS, GrammarCounts, count_uses, mean_counts, trace_draw
from hierogram.samplers.grammar.columns import empty_blobs
from hierogram.samplers.grammar.keys import first_rows_by_key
from hierogram.samplers.grammar.settings import CUT, JOINED, RANDOM
from hierogram.storage.records.columns import join_deltas
from hierogram.storage.records.pairs import ALIGNER, PairRow
from hierogram.storage.store import Store
from hierogram.tools.diagnosis.options import ChainOptions

_SWEEPS_PER_DRAW = 2
_MAX_RECORDED_RULES, _MAX_RECORDED_LINKS = 2_000, 1_000
"""Maximum numbers of recorded rules (the most frequent) and links (evenly spaced) in each draw."""
_DIRECTION_NAMES = ("target from source", "source from target")


class LinkDraws(NamedTuple):
    """Draws of aligner chains, float64[L, C, N] (links, chains, draws): 1 if the chain had the link."""

    draws: NDArray[np.float64]
    names: list[str]
    seconds: float


def _run_link_chains(rows: Sequence[PairRow], options: ChainOptions, report: Callable[[], None]) -> LinkDraws:
    sides = read_side(row.source for row in rows), read_side(row.target for row in rows)
    chain_draws = [
        _DirectionChains(number, make_direction(sides[1 - number], sides[number]), rows, options).draws(report)
        for number in range(len(_DIRECTION_NAMES))
    ]
    draws, names, seconds = zip(*chain_draws, strict=True)
    return LinkDraws(np.concatenate(draws), [name for part in names for name in part], sum(seconds))


class _DirectionChains:
    """Chains of the aligner in one direction, with `direction_index` in `_DIRECTION_NAMES`."""

    def __init__(
        self, direction_index: int, direction: Direction, rows: Sequence[PairRow], options: ChainOptions
    ) -> None:
        self._direction_index, self._direction, self._rows, self._options = direction_index, direction, rows, options
        self._model = options_for(DEFAULT_MODEL, len(rows))
        self._kernel = AlignmentKernel(self._model, direction)
        self._seconds = 0.0

    def draws(self, report: Callable[[], None]) -> LinkDraws:
        """Run all chains. Links are chosen after burn-in, and recorded in the draws after it."""
        options = self._options
        keys = [chain_seed(options.seed + chain, self._direction_index, chain) for chain in range(options.chains)]
        # Compile or load the kernels before measuring time.
        self._sweep(keys[0], self._kernel.init(keys[0]), 1)
        self._seconds = 0.0
        states = [self._kernel.init(key, self._first_links(chain, key)) for chain, key in enumerate(keys)]
        burn_in = self._model.burn_in
        for chain, key in enumerate(keys):
            for sweep in range(1, burn_in + 1):
                states[chain] = self._sweep(key, states[chain], sweep)
                report()
        words, positions = self._choose_links([state.chain.links for state in states])
        draws_by_chain = np.zeros((len(words), options.chains, max(1, options.sweeps // _SWEEPS_PER_DRAW)))
        for chain, key in enumerate(keys):
            sweeps = count(burn_in + 1)
            for draw in range(draws_by_chain.shape[2]):
                for _ in range(_SWEEPS_PER_DRAW):
                    states[chain] = self._sweep(key, states[chain], next(sweeps))
                    report()
                draws_by_chain[:, chain, draw] = states[chain].chain.links[words] == positions
        return LinkDraws(draws_by_chain, self._names(words, positions), self._seconds)

    def _first_links(self, chain: int, key: int) -> NDArray[np.int16] | None:
        """Return the links from which a chain starts: the model's own (None), none, or random, in turn."""
        if chain % 3 == 0:
            return None
        bitext = self._direction.bitext
        if chain % 3 == 1:
            return np.full(len(bitext.emitted), UNLINKED, np.int16)
        widths = np.repeat(np.diff(bitext.conditioning_offset), np.diff(bitext.emitted_offset))
        return np.random.default_rng(key).integers(0, widths).astype(np.int16)

    def _sweep(self, key: int, state: AlignmentState, number: int) -> AlignmentState:
        started = time.perf_counter()
        state, _ = self._kernel.step(key, state, self._model.plan(number)._replace(sampled=False))
        self._seconds += time.perf_counter() - started
        return state

    def _choose_links(self, links: Sequence[NDArray[np.int16]]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Return the emitted words and positions of the links to record, evenly spaced over all chains."""
        numbers = np.unique([np.arange(len(chain_links)) << 16 | chain_links for chain_links in links])
        numbers = numbers[(numbers & 0xFFFF) != UNLINKED & 0xFFFF]
        size = min(len(numbers), _MAX_RECORDED_LINKS // 2)
        chosen = numbers[np.linspace(0, len(numbers) - 1, size).astype(np.int64)]
        return chosen >> 16, (chosen & 0xFFFF).astype(np.int16)

    def _names(self, words: NDArray[np.int64], positions: NDArray[np.int16]) -> list[str]:
        """Return link names such as `chat - cat, 1-2 of pair 7 (target from source)`."""
        offset = self._direction.bitext.emitted_offset
        pairs = np.searchsorted(offset, words, side="right") - 1
        names = []
        for pair, *link in zip(pairs.tolist(), positions.tolist(), (words - offset[pairs]).tolist(), strict=True):
            row = self._rows[pair]
            i, j = reversed(link) if self._direction_index else link
            source, target = row.source.split(" ")[i], row.target.split(" ")[j]
            names.append(f"{source} - {target}, {i}-{j} of pair {row.id} ({_DIRECTION_NAMES[self._direction_index]})")
        return names


STARTS = (CUT, JOINED, RANDOM)
"""Kinds of initial derivations, used in turn. They differ a lot, so agreement shows convergence."""
_SNAPSHOTS = 8
"""Maximum number of draws per chain for which the whole grammar is recorded."""


class ChainDraws(NamedTuple):
    """Draws of the grammar chains and of the aligner chains.

    `draws` is float64[S, C, N] (quantities, chains, draws). The quantities are the log-likelihood, the number of rule
    tokens, the number of rule types, and the counts of W rules with the sides `sources` and `targets`. `starts`
    contains one of `STARTS` for each chain, `last` the grammar of its last draw, and `means` its mean grammar
    over up to eight draws. `seconds` is the time spent on sampling by all grammar chains. `links` contains the draws of
    the aligner chains, with their own time.
    """

    draws: NDArray[np.float64]
    sources: list[str]
    targets: list[str]
    starts: list[str]
    last: list[GrammarCounts]
    means: list[GrammarCounts]
    seconds: float
    links: LinkDraws = LinkDraws(np.zeros((0, 0, 0)), [], 0.0)

    def save(self, path: Path) -> None:
        """Write the draws to an archive of numpy arrays (.npz)."""
        grammars = {
            f"{name}_{k}_{field}": getattr(grammar, field)
            for name in ("last", "means")
            for k, grammar in enumerate(getattr(self, name))
            for field in GrammarCounts._fields
        }
        with atomic_write(path.absolute()) as file:
            np.savez_compressed(
                file,
                draws=self.draws,
                sources=np.array(self.sources, np.str_),
                targets=np.array(self.targets, np.str_),
                starts=np.array(self.starts, np.str_),
                link_draws=self.links.draws.astype(np.uint8),
                link_names=np.array(self.links.names, np.str_),
                **grammars,
            )


def run_chains(store: Store, options: ChainOptions, report: Steps = lambda _done, _total: None) -> ChainDraws:
    """Run chains over the aligned first pairs of a store, which is not changed. Raises `InputError`."""
    settings = store.settings()
    kind = find_kind(settings)
    rows = [row for row in store.pairs(limit=options.pairs) if row.alignment or kind.needs_all_pairs]
    if not rows:
        raise InputError(f"{store.url}: no aligned pairs or trees: run `hierogram ingest` and `hierogram learn`")
    loaded = kind.load(rows, settings)
    starts = [STARTS[k % len(STARTS)] for k in range(options.chains)]
    chains = []
    for k, start in enumerate(starts):
        counts = EmptyCounts(replace(settings, seed=options.seed + k), store.vocabulary_sizes())
        chains.append(_GrammarChain(kind, loaded, counts, start, options.threads))
    aligned = [row for row in rows if row.aligned_by == ALIGNER and not kind.needs_all_pairs]
    burn_in = kind.schedule(settings).burn_in
    total = options.chains * (burn_in + options.sweeps)
    if aligned:
        link_sweeps = options_for(DEFAULT_MODEL, len(aligned)).burn_in + options.sweeps
        total += len(_DIRECTION_NAMES) * options.chains * link_sweeps
    sweeps = count(1)

    def report_sweep() -> None:
        report(next(sweeps), total)

    try:
        draws = _run_grammar_chains(chains, options.sweeps, burn_in, starts, report_sweep)
    finally:
        for chain in chains:
            chain.sampler.close()
    return draws._replace(links=_run_link_chains(aligned, options, report_sweep)) if aligned else draws


class _GrammarChain:
    def __init__(self, kind: Kind, loaded: LoadedBatch, counts: EmptyCounts, start: str, threads: int) -> None:
        self.loaded = loaded
        self.sampler = kind.chain(counts, ChainConfig(threads))
        self._all_pairs = np.ones(loaded.batch.size, np.bool_)
        self.state = kind.draw_initial_state(loaded, counts.settings(), self._all_pairs, start)
        self.sampler.add_pairs(loaded, self.state, ~self._all_pairs)
        self._run_sweep = self.sampler.sweep(loaded)
        self._averages = loaded.read_averages(empty_blobs(loaded.batch.size))
        self._sweeps: NDArray[np.int64] = np.zeros(loaded.batch.size, np.int64)
        self.seconds = 0.0

    def sweep(self) -> None:
        self._sweeps += 1
        request = SweepRequest(self._sweeps, self._all_pairs, ~self._all_pairs)
        started = time.perf_counter()
        self.state, _ = self._run_sweep(self.state, self._averages, request, lambda _: None)
        self.seconds += time.perf_counter() - started


def _run_grammar_chains(
    chains: list[_GrammarChain], sweeps: int, burn_in: int, starts: list[str], report: Callable[[], None]
) -> ChainDraws:
    for chain in chains:
        for _ in range(burn_in):
            chain.sweep()
            report()
    keys, sources, targets = _most_frequent_rules(chains)
    last, means = [], []
    draws = max(1, sweeps // _SWEEPS_PER_DRAW)
    all_draws = np.empty((len(TOTALS) + len(keys), len(chains), draws))
    snapshot_draws = {draws * (k + 1) // _SNAPSHOTS for k in range(_SNAPSHOTS)}
    for number, chain in enumerate(chains):
        grammars: list[GrammarCounts] = []
        for draw in range(1, draws + 1):
            for _ in range(_SWEEPS_PER_DRAW):
                chain.sweep()
                report()
            table = chain.sampler.rule_table()
            all_draws[:, number, draw - 1] = trace_draw(chain.sampler.log_likelihood(), table, keys)
            if draw in snapshot_draws:
                grammars.append(count_uses(table))
        last.append(grammars[-1])
        means.append(mean_counts(grammars))
    return ChainDraws(all_draws, sources, targets, starts, last, means, sum(chain.seconds for chain in chains))


def _most_frequent_rules(chains: list[_GrammarChain]) -> tuple[NDArray[np.uint64], list[str], list[str]]:
    """Return the rules with the most uses over all chains: keys, uint64[W, 2], and both sides."""
    loaded = chains[0].loaded
    nothing = empty_blobs(loaded.batch.size)
    samples = [StoredSamples(chain.state, nothing) for chain in chains]
    rules = join_deltas([loaded.rule_deltas(None, sample) for sample in samples])
    counts = np.bincount(first_rows_by_key(rules.keys), rules.count, len(rules))
    chosen = np.lexsort((np.arange(len(counts)), -counts))[:_MAX_RECORDED_RULES]
    chosen = chosen[counts[chosen] > 0]
    sources, targets = ([side.string(row) for row in chosen.tolist()] for side in (rules.source, rules.target))
    return rules.keys[chosen], sources, targets
