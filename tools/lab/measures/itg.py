"""Measure the ITG samplers on one core."""

import time
from collections.abc import Iterable
from functools import partial

import numpy as np

from hierogram.daemon.text.lines import read_sentences
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings, train_model1
from hierogram.samplers.itg.sampler import ItgPlan
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, FLAT, GIBBS, SLICE, build
from hierogram.tools.lab.measures.results import Corpus, Figures, time_call

_LONGEST = 40
"""Maximum number of words of each side of a pair, as in [BC10]."""
_SLICES = (*((SLICE, shape) for shape in (0.10, 0.15, 0.25)), (FLAT, 0.15))
"""Slice samplers with their parameter a."""
_BURN_IN, _SWEEPS = 5, 5
_EXHAUSTIVE_PAIRS = 500
"""Maximum number of evenly spaced pairs for the exhaustive sampler."""


def read_short_pairs(source: str, target: str, pairs: int | None) -> tuple[list[str], list[str]]:
    """Return both sides of the first `pairs` pairs of up to 40 words per side, or of all such pairs."""
    sentences = zip(read_sentences(source), read_sentences(target), strict=True)
    short_pairs = [pair for pair in sentences if max(len(side.split()) for side in pair) <= _LONGEST][:pairs]
    return [pair[0] for pair in short_pairs], [pair[1] for pair in short_pairs]


def make_text_batch(source: Iterable[str], target: Iterable[str]) -> ItgBatch:
    """Return the batch of the pairs with these tokenized sides."""
    sides = read_side(source), read_side(target)
    return make_batch(sides[0].words, sides[0].offset, sides[1].words, sides[1].offset)


def measure_itg(corpus: Corpus) -> Figures:
    """Measure processor time and acceptance by sampler and slice parameter a.

    Times are means over the second half of the sweeps, acceptance over all sweeps. Failed charts are of the last sweep.
    The exhaustive sampler resamples only up to 500 pairs, in two sweeps.
    """
    batch = make_text_batch(*read_short_pairs(corpus.source, corpus.target, corpus.pairs))
    model1 = train_model1(batch)
    figures: Figures = {"pairs": batch.size, "words": len(batch.source) + len(batch.target)}
    sample = np.linspace(0, batch.size - 1, min(_EXHAUSTIVE_PAIRS, batch.size)).astype(np.int64)
    for sampler, shape in (*_SLICES, (GIBBS, 1.0), (EXHAUSTIVE, 1.0)):
        kernel = build(batch, ItgSettings(slice_shape=shape), sampler, model1)
        state = kernel.init(corpus.seed)
        seconds = []
        acceptance = []
        rounds = 2 if sampler == EXHAUSTIVE else _BURN_IN + _SWEEPS
        chosen = sample if sampler == EXHAUSTIVE else np.arange(batch.size)
        for number in range(1, rounds + 1):
            sweeps = np.zeros(batch.size, np.int64)
            sweeps[chosen] = number
            sweep = partial(kernel.step, corpus.seed, state, ItgPlan(number, sweeps))
            spent, (state, info) = time_call(sweep, time.process_time)
            seconds.append(spent)
            acceptance.append(info.accepted / info.proposed if info.proposed else 1.0)
        spent = float(np.mean(seconds[rounds // 2 :]))
        name = sampler if sampler in (GIBBS, EXHAUSTIVE) else f"{sampler}_{shape:.2f}"
        figures[name] = {
            "microseconds_per_pair": 1e6 * spent / len(chosen),
            "pairs_per_second": len(chosen) / spent,
            "acceptance": float(np.mean(acceptance)),
            "failed_charts": info.given_up,
        }
    return figures
