"""The command that compares starts of `bhmm`.

Its likelihood equals the twin's up to a constant, and its starts have all, some or none of the links of Model 1.
"""

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.reference.alignment import BHMM, Settings, log_joint
from tests.samplers.alignment.kernels import random_corpus, random_state, to_chain, to_direction, to_options
from tests.tools.lab.programs import run_lab

from hierogram.tools.lab.papers.alignment_starts import HALF, MODEL1, UNLINKED_START, first_links, log_likelihood


def test_the_likelihood_equals_the_twin_s_up_to_a_constant() -> None:
    random, settings = Random(1), Settings(BHMM)
    corpus = random_corpus(random)
    gaps = []
    for _ in range(6):
        state = random_state(corpus, BHMM, random)
        log_p = log_likelihood(to_chain(corpus, state, settings), to_options(settings), len(corpus.emitted_words))
        gaps.append(log_p - log_joint(corpus, state, settings))
    assert all(one == pytest.approx(other) for one, other in pairwise(gaps))


def test_starts_have_all_some_or_none_of_the_model_1_links() -> None:
    direction = to_direction(random_corpus(Random(2)))
    whole, half, none = (first_links(direction, start, 1) for start in (MODEL1, HALF, UNLINKED_START))
    assert (none == -1).all()
    assert ((half == whole) | (half == -1)).all()
    assert 0 < np.count_nonzero(half >= 0) < np.count_nonzero(whole >= 0)


def test_the_command_runs_a_chain_from_each_start(tmp_path: Path) -> None:
    for name, line in (("s", "la {0} {1}"), ("t", "the {1} {0}")):
        lines = [line.format(f"w{k % 5}", f"v{k % 7}") for k in range(70)]
        (tmp_path / name).write_text("".join(f"{one}\n" for one in lines))
    files = [str(tmp_path / name) for name in "st"]
    rows = [line.split("\t") for line in run_lab("papers.alignment_starts", *files, "--sweeps", "40").splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [
        (s, str(n)) for s in (MODEL1, HALF, UNLINKED_START) for n in (8, 16, 24, 32, 40)
    ]
    ends = [float(row[2]) for row in rows[4::5]]
    # Such a regular text has one lexicon, and all chains find it.
    assert max(ends) - min(ends) < 0.02 * abs(max(ends))
