"""Measure the ITG samplers on one core."""

import time
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
_SLICES = (*((SLICE, shape) for shape in (0.10, 0.15, 0.25)), (FLAT, 0.15))
"""Slice samplers with their parameter a."""
_BURN_IN, _SWEEPS = 5, 5
_EXHAUSTIVE_PAIRS = 500
"""Maximum number of evenly spaced pairs for the exhaustive sampler."""


def _read(corpus: Corpus) -> ItgBatch:
    sentences = zip(read_sentences(corpus.source), read_sentences(corpus.target), strict=True)
    short_pairs = [pair for pair in sentences if max(len(side.split()) for side in pair) <= _LONGEST][: corpus.pairs]
    source, target = read_side(pair[0] for pair in short_pairs), read_side(pair[1] for pair in short_pairs)
    return make_batch(source.words, source.offset, target.words, target.offset)


def measure_itg(corpus: Corpus) -> Figures:
    """Measure processor time and acceptance by sampler and slice parameter a.

    Processor time is the mean over the second half of the sweeps.
    """
    batch = _read(corpus)
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
