"""Estimation stays within its memory limit for texts of any length."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_DIFFERENT_WORDS = 20_000
_WORDS_PER_SENTENCE = 20


def _peak_mib(folder: Path, words: int, memory: int) -> float:
    """Return the peak memory in MiB of `lm`, which must succeed, for `words` words with mostly distinct 3-grams."""
    weights = 1 / np.arange(1, _DIFFERENT_WORDS + 1)
    drawn = np.random.default_rng(1).choice(
        _DIFFERENT_WORDS, (words // _WORDS_PER_SENTENCE, _WORDS_PER_SENTENCE), p=weights / weights.sum()
    )
    text = folder / "text"
    np.savetxt(text, drawn, fmt="w%d")
    command = [sys.executable, "-m", "hierogram.daemon.cli.main", "lm", str(text), "-o", str(folder / "out.arpa")]
    started = subprocess.Popen(
        [*command, "--memory", str(memory)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0
    return used.ru_maxrss / 1024


@pytest.mark.campaign
def test_memory_depends_on_the_limit_and_not_on_the_length_of_the_text(tmp_path: Path) -> None:
    short, long = (_peak_mib(tmp_path, words, 100) for words in (500_000, 4_000_000))
    assert long < short + 60
    assert _peak_mib(tmp_path, 4_000_000, 1_000) > long + 100
