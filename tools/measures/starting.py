"""How long a person waits for the command line, and for the first sweep."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from hierogram.tools.measures.results import Corpus, Figures

_REPEATS = 5
_PAIRS = 100
_FIRST_SWEEP = """
import time
started = time.perf_counter()
from hierogram.daemon.garbage_collection import collect_seldom
collect_seldom()
import numpy as np
from hierogram.daemon.learning.kinds.compiling import SweepKernel
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.tools.measures.results import Corpus
from hierogram.tools.measures.sampling import Chain, load
corpus = Corpus(*{files!r})
kernel = SweepKernel()
batch, model = load(corpus)
chain = Chain(batch, model, corpus, blocks=Blocks.suited_to(batch.size))
kernel.wait()
chain.sweep(1, np.ones(batch.size, np.int16))
print(time.perf_counter() - started)
"""


def _timed(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def _first_sweep(files: list[str], environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", _FIRST_SWEEP.format(files=files)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout)


def measure_starting(corpus: Corpus) -> Figures:
    """Seconds until `hierogram --help` has answered, and until a first sweep is done, kernels compiled or not."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HIEROGRAM_CACHE": str(Path(folder) / "cache")}
        # Without it, Python would parse every module again each time.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        files = replace(corpus, pairs=_PAIRS).files(Path(folder))
        command = [sys.executable, "-m", "hierogram.daemon.main", "--help"]
        return {
            "help_seconds": min(_timed(command, environment) for _ in range(_REPEATS)),
            "first_sweep_cold_seconds": _first_sweep(files, environment),
            "first_sweep_warm_seconds": min(_first_sweep(files, environment) for _ in range(_REPEATS)),
        }
