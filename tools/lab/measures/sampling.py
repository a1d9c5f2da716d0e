"""Chains without a store, and measurements of the samplers: forests, sweeps, and the first sweep."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.kind import PairSchedule
from hierogram.daemon.learning.kinds.pairs import load_pairs, longest_rule
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.validation import DuplicateCounter, validate
from hierogram.samplers.counts.chain import ChainState, SweepInfo, log_likelihood
from hierogram.samplers.counts.deltas import count_rules
from hierogram.samplers.counts.models import Model, ModelSettings, build_model
from hierogram.samplers.counts.table import empty_table
from hierogram.samplers.forests.averages import empty_averages
from hierogram.samplers.forests.derivations import Batch, initial_state
from hierogram.samplers.forests.forest import Forests, build_forests
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.grammar.settings import CUT
from hierogram.samplers.synchronous.sweeps import Blocks, SweepPlan, build, sweep_pairs
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.tools.lab.measures.results import Corpus, Figures, time_call

SETTINGS = Settings()
"""Default settings of a store."""
EVERY_NODE = Schedule(0, 0)
"""Schedule that samples every node from the first sweep."""
_FULL_SWEEPS = 3
_REPEATS = 3


def read_rows(corpus: Corpus) -> list[PairRow]:
    """Return the valid lines of a corpus, up to `corpus.pairs`, as rows of waiting pairs."""
    rows: list[PairRow] = []
    repeats = DuplicateCounter()
    with PairFiles(corpus.paths) as opened:
        for fields in opened.line_chunks():
            pairs, _ = validate(fields, SETTINGS.max_tokens, repeats)
            for source, target, alignment in zip(pairs.sources, pairs.targets, pairs.alignments, strict=True):
                links = alignment or ""
                rows.append(PairRow(len(rows) + 1, source, target, links, WAITING, 0, 0, None, None))
            if corpus.pairs is not None and len(rows) >= corpus.pairs:
                break
    return rows[: corpus.pairs]


def read_batch(corpus: Corpus) -> Batch:
    """Return the forests of a corpus's pairs, to sample from."""
    return load_pairs(read_rows(corpus), SETTINGS).batch


def build_model_for(
    batch: Batch,
    kind: str = SETTINGS.model,
    strength: float = SETTINGS.strength,
    discount: float = SETTINGS.discount,
) -> Model:
    """Build a rule model for the vocabulary of a batch, with the default settings of a store unless given."""
    source_types = int(batch.bitext.source.max(initial=0)) + 1
    target_types = int(batch.bitext.target.max(initial=0)) + 1
    return build_model(ModelSettings(kind, strength, discount), source_types, target_types, longest_rule(SETTINGS))


@dataclass(frozen=True, slots=True)
class StorelessChainOptions:
    """Options of a chain. `start` is an initial state of `samplers.grammar.settings`."""

    seed: int = 1
    start: str = CUT
    threads: int = 1
    # True to sample sequentially, without blocks.
    sequential: bool = False
    # Blocks of a chain that is not sequential, or None for blocks that are suited to the number of pairs.
    blocks: Blocks | None = None
    # False to omit the density factor, as in Figure 6 of [CFGŠ14].
    density: bool = True


class StorelessChain:
    """Chain over the sentence pairs of a batch, without a store. The caller must call `close`."""

    def __init__(
        self,
        model: Model,
        batch: Batch,
        schedule: PairSchedule,
        options: StorelessChainOptions,
        resample: Callable[..., Any] = sweep_pairs,
    ) -> None:
        """`resample` is a kernel with the parameters of `sweep_pairs`."""
        self._options = options
        self._schedule = schedule
        self._executor = ThreadPoolExecutor(options.threads)
        self.kernel = build(
            model, batch, resample=resample,
            blocks=None if options.sequential else options.blocks or Blocks.suited_to(batch.size),
            workers=options.threads, run=self._executor.map,
        )  # fmt: skip
        derivations = initial_state(options.seed, batch, options.start)
        table = count_rules(batch, derivations, empty_table(batch.longest_rule), model, 1)
        self.state = ChainState(derivations, table, empty_averages(batch))
        self._sweeps: NDArray[np.int64] = np.zeros(batch.size, np.int64)

    def sweep(self) -> SweepInfo:
        """Run the next sweep of the schedule over all pairs."""
        self._sweeps += 1
        stages, powers = self._schedule.stages(self._sweeps), self._schedule.powers(self._sweeps)
        averaged = np.zeros(len(stages), np.bool_)
        plan = SweepPlan(self._sweeps, stages, powers, averaged, self._options.density, self._schedule.avoid_current)
        self.state, info = self.kernel.step(self._options.seed, self.state, plan)
        return info

    def log_likelihood(self) -> float:
        """Return the natural log-likelihood of all rule tokens."""
        return log_likelihood(self.state.table, self.kernel.model)

    def close(self) -> None:
        """End the threads."""
        self._executor.shutdown()


def _count_edges(forests: Forests) -> int:
    return int(forests.node["degree"].sum(dtype=np.int64))


def measure_forests(corpus: Corpus) -> Figures:
    """Measure the pairs per second of building forests on one core, and the size of the forests."""
    batch = read_batch(corpus)
    seconds, forests = min(
        (time_call(lambda: build_forests(batch.bitext, SETTINGS.span_limit)) for _ in range(_REPEATS)),
        key=itemgetter(0),
    )
    return {
        "pairs": forests.pairs,
        "nodes": forests.nodes,
        "edges": _count_edges(forests),
        "bytes": sum(array.nbytes for array in forests),
        "pairs_per_second": forests.pairs / seconds,
    }


def measure_sweeps(corpus: Corpus) -> Figures:
    """Measure 100 sweeps with the schedule of [CFGŠ14 §5.3], then sweeps over all levels on one core."""
    batch = read_batch(corpus)
    schedule = Schedule()
    options = StorelessChainOptions(corpus.seed, threads=corpus.threads)
    chain = StorelessChain(build_model_for(batch), batch, schedule, options)
    before = chain.log_likelihood()
    stages_seconds: dict[int, float] = {}
    total = 0.0
    # Compile or load the kernels now, so that the measured times exclude it.
    few = read_batch(replace(corpus, pairs=32))
    StorelessChain(build_model_for(few), few, EVERY_NODE, options).sweep()
    for number in range(1, 101):
        stage = int(schedule.reached(np.array([number]))[0])
        seconds, _ = time_call(chain.sweep)
        stages_seconds[stage] = stages_seconds.get(stage, 0.0) + seconds
        total += seconds
    after = chain.log_likelihood()
    table = chain.state.table
    chain.kernel = build(chain.kernel.model, batch)
    seconds = min(time_call(chain.sweep)[0] for _ in range(_FULL_SWEEPS))
    return {
        "pairs": batch.size,
        "threads": corpus.threads,
        "hundred_sweeps_seconds": total,
        "seconds_by_stage": {str(k): round(v, 3) for k, v in stages_seconds.items()},
        "rules": table.rule_types,
        "rule_tokens": table.rule_tokens,
        "log_likelihood_before": before,
        "log_likelihood_after": after,
        "full_sweep_microseconds_per_pair_and_core": 1e6 * seconds / batch.size,
        "table_bytes": table.rows.nbytes,
    }


_STARTS = 5
"""Number of starts with cached kernels. The fastest start is reported."""
_FIRST_PAIRS = 100
_FIRST_SWEEP = """
import time
started = time.perf_counter()
from hierogram.daemon.memory import relax_gc
relax_gc()
from hierogram.daemon.learning.kinds.synchronous import BackgroundCompilation
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.tools.lab.measures.results import Corpus
from hierogram.tools.lab.measures.sampling import StorelessChain, StorelessChainOptions, build_model_for, read_batch
compilation = BackgroundCompilation()
batch = read_batch(Corpus(*{files!r}))
chain = StorelessChain(build_model_for(batch), batch, Schedule(), StorelessChainOptions(threads=2))
compilation.wait()
chain.sweep()
print(time.perf_counter() - started)
"""


def _first_sweep(files: list[str], environment: dict[str, str]) -> float:
    """Return the seconds from the start of a new Python process to the end of the first sweep."""
    command = [sys.executable, "-c", _FIRST_SWEEP.format(files=files)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def measure_starting(corpus: Corpus) -> Figures:
    """Measure the seconds from Python's start to the first sweep's end, without and with cached kernels."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HIEROGRAM_CACHE": str(Path(folder) / "cache")}
        # Let Python write bytecode, because otherwise each process would compile all modules.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        files = replace(corpus, pairs=_FIRST_PAIRS).files(Path(folder))
        return {
            "first_sweep_cold_seconds": _first_sweep(files, environment),
            "first_sweep_warm_seconds": min(_first_sweep(files, environment) for _ in range(_STARTS)),
        }
