"""Measure the ITG samplers on one core: pairs per second, time by length of a pair, memory for a long pair."""

import time
import tracemalloc
from functools import partial

import numpy as np

from hierogram.daemon.text.lines import read_sentences
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings, train_model1
from hierogram.samplers.itg.sampler import ItgPlan, make_plan
from hierogram.tools.lab.baselines.itg import EXHAUSTIVE, FLAT, GIBBS, SLICE, build
from hierogram.tools.lab.measures.results import Corpus, Figures, time_call

_LONGEST = 40
_SLICES = (*((SLICE, shape) for shape in (0.10, 0.15, 0.25)), (FLAT, 0.15))
"""Slice samplers with their parameter a."""
_BURN_IN, _SWEEPS = 5, 5
_EXHAUSTIVE_PAIRS = 500
"""Maximum number of evenly spaced pairs for the exhaustive sampler."""
_LENGTH_RANGES = ((1, 10), (11, 20), (21, 30), (31, 40))

_LONG = 100
"""Number of words on each side of the long pair."""
_MEBIBYTE = 1 << 20


def _read(corpus: Corpus) -> ItgBatch:
    sentences = zip(read_sentences(corpus.source), read_sentences(corpus.target), strict=True)
    short_pairs = [pair for pair in sentences if max(len(side.split()) for side in pair) <= _LONGEST][: corpus.pairs]
    source, target = read_side(pair[0] for pair in short_pairs), read_side(pair[1] for pair in short_pairs)
    return make_batch(source.words, source.offset, target.words, target.offset)


def measure_itg(corpus: Corpus) -> Figures:
    """Measure processor time after the first half of the sweeps, by sampler and slice parameter a."""
    batch = _read(corpus)
    model1 = train_model1(batch)
    lengths = np.maximum(np.diff(batch.source_offset), np.diff(batch.target_offset))
    figures: Figures = {"pairs": batch.size, "words": len(batch.source) + len(batch.target)}
    sample = np.linspace(0, batch.size - 1, min(_EXHAUSTIVE_PAIRS, batch.size)).astype(np.int64)
    for sampler, shape in (*_SLICES, (GIBBS, 1.0), (EXHAUSTIVE, 1.0)):
        kernel = build(batch, ItgSettings(slice_shape=shape), sampler, model1)
        state = kernel.init(corpus.seed)
        seconds = []
        acceptance = []
        number = 0
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
        if sampler != EXHAUSTIVE:
            for low, high in _LENGTH_RANGES:
                in_range = np.flatnonzero((lengths >= low) & (lengths <= high))
                if not len(in_range):
                    continue
                number += 1
                plan = make_plan(batch, number)
                plan.sweeps[(lengths < low) | (lengths > high)] = 0
                spent, (state, info) = time_call(partial(kernel.step, corpus.seed, state, plan), time.process_time)
                figures[name][f"microseconds_of_{low}_to_{high}_words"] = 1e6 * spent / len(in_range)
    figures[f"pair_of_{_LONG}_words"] = {
        f"{sampler}_{shape:.2f}": _long_pair(batch, sampler, shape) for sampler, shape in _SLICES[1:]
    }
    figures["exhaustive_over_slice_0.15"] = (
        figures[EXHAUSTIVE]["microseconds_per_pair"] / figures["slice_0.15"]["microseconds_per_pair"]
    )
    for sampler in (SLICE, FLAT):
        name = f"{sampler}_0.15"
        figures[f"{name}_over_gibbs"] = figures[name]["microseconds_per_pair"] / figures[GIBBS]["microseconds_per_pair"]
    return figures


def _long_pair(batch: ItgBatch, sampler: str, shape: float) -> Figures:
    """Measure time and peak memory of a slice sampler for a pair that consists of the first words of the corpus."""
    sides = [
        np.unique(words[:_LONG], return_inverse=True)[1].astype(np.int32) for words in (batch.source, batch.target)
    ]
    ends = [np.array([0, len(side)]) for side in sides]
    pair = make_batch(sides[0], ends[0], sides[1], ends[1])
    model1 = train_model1(pair)
    tracemalloc.start()
    kernel = build(pair, ItgSettings(slice_shape=shape), sampler, model1)
    state = kernel.init(1)
    spent, (_, info) = time_call(lambda: kernel.step(1, state, make_plan(pair, 1)), time.process_time)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "milliseconds": 1e3 * spent,
        "mebibytes": peak_bytes / _MEBIBYTE,
        "cells": info.cells,
        "failed_charts": info.given_up,
    }
