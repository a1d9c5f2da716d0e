"""Synchronous grammars from word-aligned pairs, sampled given the counts of all other rules [CFGŠ14]."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import Chain, ChainConfig, InitialCounts, Kind, Sweep, SweepRequest
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, list_rule_uses, load_pairs, longest_rule
from hierogram.samplers.compiled.jit import cache_folder, is_cached, make_folder, notify_listeners
from hierogram.samplers.counts.chain import ChainState, CountsError, SweepInfo, log_likelihood
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import CountTable, empty_table, fill_table
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.derivations import State, initial_state
from hierogram.samplers.grammar.keys import pack_size
from hierogram.samplers.grammar.rules import RuleUse, Side, Span, render_side
from hierogram.samplers.grammar.schedules import Annealing, Schedule, quick_schedule, stratified_schedule
from hierogram.samplers.grammar.settings import ANNEALED, CUT, PAPER, QUICK, RANDOM, STRATIFIED, SYNCHRONOUS
from hierogram.samplers.kernel import Report
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, compile_sweep, merge_changes, sweep_pairs
from hierogram.samplers.synchronous.type_moves import TypeSampler
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store


def make_model(settings: Settings, vocabulary: tuple[int, int]) -> Model:
    """Return the model of rules that the settings select, for the given vocabulary sizes (source, target)."""
    model_settings = ModelSettings(settings.model, settings.strength, settings.discount, settings.rate)
    return build_model(model_settings, *vocabulary, longest_rule(settings))


def make_schedule(settings: Settings) -> Schedule | Annealing:
    """Return the schedule of new pairs that the settings select."""
    if settings.schedule == PAPER:
        return Schedule(settings.sweeps_per_level, settings.levels)
    if settings.schedule == ANNEALED:
        return Annealing(settings.annealing, settings.temperature, settings.burn_in)
    if settings.schedule == QUICK:
        return quick_schedule(settings.burn_in)
    return stratified_schedule(settings.burn_in)


def make_plan(request: SweepRequest, schedule: Schedule | Annealing) -> SweepPlan:
    """Return the plan of a sweep: 1/T and highest node level of each pair, level 0 if inactive."""
    stages = schedule.stages(request.sweeps)
    stages[~request.active] = 0
    powers = schedule.powers(request.sweeps)
    return SweepPlan(request.sweeps, stages, powers, request.averaged, avoid_current=schedule.avoid_current)


_COMPILE_SECONDS = 300.0
"""Seconds after which a second process that compiles is ended, and this process compiles."""


class BackgroundCompilation:
    """Compilation of a kernel, by default the sweep kernel, in a second process if it is not cached.

    The sweep kernel takes half of the compile time. The second process, `python -m module`, compiles it into the cache
    while this process compiles and runs the kernels that load pairs. Call `wait` before the first sweep. If the second
    process fails or cannot start, this process compiles the kernel when it calls it. `process` is None if no second
    process is running. `message` is written to its standard input.
    """

    def __init__(
        self,
        kernel: Callable[..., Any] = sweep_pairs,
        module: str = "hierogram.daemon.learning.kinds.synchronous",
        message: bytes = b"",
        min_processors: int = 2,
    ) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        if is_cached(kernel) or count_processors() < min_processors or not is_cache_writable():
            return
        command = [sys.executable, "-P", "-m", module]
        notify_listeners()
        # Ignore the error if no process can be started, because this process then compiles the kernel itself.
        with suppress(OSError):
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            assert self.process.stdin is not None
            self.process.stdin.write(message)
            self.process.stdin.flush()

    def wait(self) -> None:
        """Wait until the second process ends, up to `_COMPILE_SECONDS` seconds, then kill it."""
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_COMPILE_SECONDS)
            self.close()

    def close(self) -> None:
        """Kill the second process, if it is running."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()


def count_processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_cache_writable() -> bool:
    """Check if this process can write to the cache of compiled kernels."""
    try:
        make_folder(cache_folder())
        with tempfile.TemporaryFile(dir=cache_folder()):
            return True
    except OSError:
        return False


def end_with_parent() -> None:
    """Exit this process when its parent closes standard input or ends. Does not return before."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


class SynchronousChain(Chain):
    """Chain with the rule counts of a store and one batch of pairs. Raises `CountsError` for damage."""

    def __init__(self, store: InitialCounts, config: ChainConfig) -> None:
        self._settings = store.settings()
        # Compile the kernel in a second process while this process reads the store, so that sweeps start earlier.
        self._compiling = BackgroundCompilation()
        self._vocabulary = store.vocabulary_sizes()
        self._config = config
        self._schedule = config.schedule or make_schedule(self._settings)
        self._executor = ThreadPoolExecutor(config.threads)
        self.model = make_model(self._settings, self._vocabulary)
        counts = store.rule_counts()
        try:
            sizes = pack_size(counts.lengths, counts.source_terminals, counts.target_terminals)
            empty = empty_table(longest_rule(self._settings), len(counts.counts))
            self.table = fill_table(empty, self.model, counts.keys, counts.counts, sizes)
        except ValueError as error:
            raise CountsError(f"{error}: run `hierogram repair`") from error

    def rule_table(self) -> CountTable:
        """Return the counts of all rules."""
        return self.table

    def add_pairs(self, loaded: LoadedPairs, state: State, stored: NDArray[np.bool_]) -> None:
        """Add the rules of derivations that are not `stored` (bool[P]) to the counts."""
        if not stored.all():
            self.table = count_rules(loaded.batch, state, self.table, self.model, 1, stored)

    def change_counts(self, loaded: LoadedPairs, state: State, weight: int) -> None:
        """Add `weight` to the count of each rule in the derivations."""
        self.table = count_rules(loaded.batch, state, self.table, self.model, weight)

    def sweep(self, loaded: LoadedPairs) -> Sweep:
        """Return a function that sweeps over these pairs, in blocks if the batch is large."""
        batch = loaded.batch
        blocks = self._config.blocks or Blocks.suited_to(batch.size)
        kernel = build(self.model, batch, blocks=blocks, workers=self._config.threads, run=self._executor.map)
        # Compile merging in this process, while the second process may still compile the sweep kernel.
        if blocks is not None:
            merge_changes(np.zeros((0, 4), np.uint64), self.table, self.model)
        moves = self._settings.type_moves
        type_sampler = TypeSampler(self.model, batch) if moves and not self.model.pitman_yor else None
        self._compiling.wait()

        def run_sweep(
            state: State, averages: Averages, request: SweepRequest, report: Report
        ) -> tuple[State, SweepInfo]:
            before = ChainState(state, self.table, averages)
            plan = make_plan(request, self._schedule)
            chain, info = kernel.step(self._settings.seed, before, plan, report)
            # Type-based moves are valid only at T = 1.
            if type_sampler is not None and (plan.powers == 1.0).all():
                chain = type_sampler.step(self._settings.seed, chain, int(request.sweeps.max(initial=0)), moves)
            state, self.table, _ = chain
            return state, info

        return run_sweep

    def refresh_model(self, store: Store) -> None:
        """Update the base distribution to the current vocabulary sizes of the store."""
        sizes = store.vocabulary_sizes()
        if sizes != self._vocabulary:
            self._vocabulary = sizes
            self.model = make_model(self._settings, sizes)

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens."""
        return log_likelihood(self.rule_table(), self.model)

    def close(self) -> None:
        """End the threads, and kill the process that compiles, if any."""
        self._compiling.close()
        self._executor.shutdown()


def _draw_initial_state(loaded: LoadedPairs, settings: Settings, due: NDArray[np.bool_], start: str | None) -> State:
    """Draw a random edge at each node. `start` or, by default, the schedule determines the cuts."""
    default_start = CUT if settings.schedule in (STRATIFIED, PAPER) else RANDOM
    return initial_state(settings.seed, loaded.batch, start or default_start)


def _read_derivation(row: PairRow, settings: Settings) -> list[RuleUse]:
    forests = load_pairs([row], settings).batch.forests
    _, rule_nodes = list_rule_uses(forests, row.current or b"")
    source, target = row.source.split(" "), row.target.split(" ")
    uses = []
    for head, nonterminals, children in rule_nodes:
        fields = [forests.node[node] for node in (head, *nonterminals)]
        source_spans = [(int(node["source_start"]), int(node["source_end"])) for node in fields]
        target_spans = [(int(node["target_start"]), int(node["target_end"])) for node in fields]
        sides = render_side(_side(source, source_spans)), render_side(_side(target, target_spans))
        uses.append(RuleUse(*sides, source_spans[0], target_spans[0], children))
    return uses


def _side(words: Sequence[str], spans: Sequence[Span]) -> Side:
    (position, end), *inner = spans
    side: list[str | int] = []
    for (first, last), number in sorted((span, number) for number, span in enumerate(inner, 1)):
        side += [*words[position:first], number]
        position = last
    return (*side, *words[position:end])


KIND = Kind(
    name=SYNCHRONOUS,
    needs_all_pairs=False,
    load=load_pairs,
    draw_initial_state=_draw_initial_state,
    schedule=make_schedule,
    chain=SynchronousChain,
    read_derivation=_read_derivation,
    example=PairRow(1, "a b", "c d", "0-0 1-1", WAITING, 0, 0, None, None),
    sweeps=24,
)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    compile_sweep()
