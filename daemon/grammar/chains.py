"""Several chains over the same pairs, run side by side for a diagnosis, and their draws as a file."""

import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.grammar.chain_options import ChainOptions
from hierogram.daemon.grammar.link_chains import NO_LINKS, LinkDraws, link_sweeps, run_link_chains
from hierogram.daemon.learning.kinds.kind import Drawn, Kind, Loaded
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.kinds.trials import Trial, TrialOptions
from hierogram.samplers.counts.joining import first_of_each_key
from hierogram.samplers.diagnostics.overlap import KEY, Counts, counts_of, mean_of
from hierogram.samplers.diagnostics.watching import Watch, counts_of_rules
from hierogram.samplers.grammar.columns import no_blobs
from hierogram.samplers.grammar.settings import CUT, JOINED, RANDOM
from hierogram.storage.records import ALIGNER, Settings
from hierogram.storage.records.columns import join_deltas
from hierogram.storage.store import Store

STARTS = (CUT, JOINED, RANDOM)
"""Initial cuts of the chains, in turn: far apart, so that chains that agree have forgotten them."""
_SNAPSHOTS = 8
"""Draws of a chain whose whole grammar is taken down."""


class Draws(NamedTuple):
    """What chains were like.

    `draws` float64[S, C, N]: log-likelihood, tokens and types of rules, then the counts of the watched rules;
    `sources`, `targets` their W sides; `starts` of the chains; `last` the grammar of each chain's last draw, `means`
    that of the mean over eight draws; `seconds` of sampling and of writing draws down, all chains together. `links`
    are draws of chains of the aligner, with seconds of their own.
    """

    draws: NDArray[np.float64]
    sources: list[str]
    targets: list[str]
    starts: list[str]
    last: list[Counts]
    means: list[Counts]
    seconds: float
    overhead: float
    links: LinkDraws = NO_LINKS

    def save(self, path: Path) -> None:
        """Write all of it to a file that `load` reads."""
        grammars = {
            f"{name}_{k}_{field}": getattr(grammar, field)
            for name in ("last", "means")
            for k, grammar in enumerate(getattr(self, name))
            for field in Counts._fields
        }
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                draws=self.draws,
                sources=np.array(self.sources, np.str_),
                targets=np.array(self.targets, np.str_),
                starts=np.array(self.starts, np.str_),
                times=np.array([self.seconds, self.overhead]),
                link_draws=self.links.draws.astype(np.uint8),
                link_names=np.array(self.links.names, np.str_),
                link_times=np.array([self.links.seconds, self.links.overhead]),
                **grammars,
            )


def load_draws(path: Path) -> Draws:
    """The draws of a file; raises `InputError` where it is none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            chains = file["draws"].shape[1]
            last, means = (
                [Counts(file[f"{name}_{k}_keys"].astype(KEY), file[f"{name}_{k}_uses"]) for k in range(chains)]
                for name in ("last", "means")
            )
            sources, targets, starts = (file[name].tolist() for name in ("sources", "targets", "starts"))
            seconds, overhead = file["times"].tolist()
            return Draws(file["draws"], sources, targets, starts, last, means, seconds, overhead, _links_of(file))
    except (OSError, KeyError, ValueError, IndexError, BadZipFile) as error:
        raise InputError(
            f"{path} is no file of draws, as `hierogram diagnose --draws FILE` writes them: {error}"
        ) from error


def _links_of(file: Mapping[str, NDArray[Any]]) -> LinkDraws:
    if "link_draws" not in file:
        return NO_LINKS
    draws = file["link_draws"].astype(np.float64)
    return LinkDraws(draws, file["link_names"].tolist(), *file["link_times"].tolist())


Report = Callable[[int, int], None]
"""Hears how many sweeps are done, of how many."""


def run_chains(store: Store, options: ChainOptions, report: Report = lambda _done, _total: None) -> Draws:
    """Chains over the store's first pairs by its model and schedule, in memory only; nothing is written to the store.

    Raises `InputError` where the store has no pairs that can be sampled.
    """
    settings = store.settings()
    kind = kind_of(settings)
    rows = [row for row in store.pairs(limit=options.pairs) if row.alignment or kind.whole]
    if not rows:
        raise InputError(f"{store.url}: there are no aligned pairs yet: run `hierogram ingest` and `hierogram learn`")
    loaded = kind.load(rows, settings)
    starts = [STARTS[k % len(STARTS)] for k in range(options.chains)]
    hows = [TrialOptions(options.seed + k, start, options.threads) for k, start in enumerate(starts)]
    trials = [kind.trial(loaded, settings, store.vocabulary_sizes(), how) for how in hows]
    aligned = [row for row in rows if row.aligned_by == ALIGNER and options.links and not kind.whole]
    warm_up = _warm_up(kind, settings, options)
    later = link_sweeps(len(aligned), options) if aligned else 0
    done = len(trials) * (warm_up + options.sweeps)
    total = done + later
    try:
        drawn = _Run(trials, (loaded, settings), options, lambda done: report(done, total)).draws(warm_up, starts)
    finally:
        for trial in trials:
            trial.close()
    if not aligned:
        return drawn
    sweeps = count(done + 1)
    return drawn._replace(links=run_link_chains(aligned, options, lambda: report(next(sweeps), total)))


def _warm_up(kind: Kind, settings: Settings, options: ChainOptions) -> int:
    return kind.course(settings).burn_in if options.warm_up is None else options.warm_up


class _Run:
    """Chains on their way."""

    def __init__(
        self, trials: list[Trial], of: tuple[Loaded, Settings], options: ChainOptions, report: Callable[[int], None]
    ) -> None:
        self._trials = trials
        self._loaded, self._settings = of
        self._options = options
        self._report = report
        self._done = 0
        self._overhead = 0.0
        # What writes draws down is compiled, or loaded, before the clock starts.
        counts_of_rules(trials[0].table, np.zeros((0, 2), np.uint64))
        trials[0].log_likelihood()

    def draws(self, warm_up: int, starts: list[str]) -> Draws:
        """Take all chains through their sweeps."""
        for trial in self._trials:
            for _ in range(warm_up):
                self._sweep(trial)
        started = time.perf_counter()
        keys, sources, targets = self._most_frequent()
        self._overhead += time.perf_counter() - started
        watches = [Watch(keys) for _ in self._trials]
        last, means = [], []
        for trial, watch in zip(self._trials, watches, strict=True):
            grammars = self._watch(trial, watch)
            last.append(grammars[-1])
            means.append(mean_of(grammars))
        draws_of_all = np.ascontiguousarray(np.stack([watch.draws() for watch in watches], axis=1))
        return Draws(
            draws_of_all, sources, targets, starts, last, means,
            sum(trial.seconds for trial in self._trials), self._overhead,
        )  # fmt: skip

    def _sweep(self, trial: Trial) -> None:
        trial.sweep()
        self._done += 1
        self._report(self._done)

    def _watch(self, trial: Trial, watch: Watch) -> list[Counts]:
        """The chain's sweeps that count; its grammar at some of the draws, the last one among them."""
        grammars = []
        draws = max(1, self._options.sweeps // self._options.every)
        taken = {draws * (k + 1) // _SNAPSHOTS for k in range(_SNAPSHOTS)}
        for draw in range(1, draws + 1):
            for _ in range(self._options.every):
                self._sweep(trial)
            started = time.perf_counter()
            watch.note(trial.log_likelihood(), trial.table)
            if draw in taken:
                grammars.append(counts_of(trial.table))
            self._overhead += time.perf_counter() - started
        return grammars

    def _most_frequent(self) -> tuple[NDArray[np.uint64], list[str], list[str]]:
        """The rules that all chains together use most: keys uint64[W, 2] and both sides."""
        loaded = self._loaded
        nothing = no_blobs(loaded.size)
        drawn = [Drawn(loaded.trees(trial.state), nothing) for trial in self._trials]
        rules = join_deltas([loaded.rule_deltas(None, one, self._settings) for one in drawn])
        counts = np.bincount(first_of_each_key(rules.keys), rules.counts, len(rules))
        chosen = np.lexsort((np.arange(len(counts)), -counts))[: self._options.watched]
        chosen = chosen[counts[chosen] > 0]
        sources, targets = ([side.string(row) for row in chosen.tolist()] for side in (rules.sources, rules.targets))
        return rules.keys[chosen], sources, targets
