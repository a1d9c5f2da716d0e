"""Chains of the aligner over the pairs that a store aligned: how far they agree on links."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.grammar.chain_options import ChainOptions
from hierogram.samplers.alignment.bitext import Direction, make_direction, read_side
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, options_for
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, AlignmentState, build, chain_seed
from hierogram.storage.records import PairRow

_OWN, _NONE, _ANY = "the model's", "none", "random"
LINK_STARTS = (_OWN, _NONE, _ANY)
"""First links of the chains, in turn: the model's own, none, and each word's to any word."""
_WAYS = ("target from source", "source from target")


class LinkDraws(NamedTuple):
    """Draws of links: `draws` float64[L, C, N], 1 where the chain had the link; `names` of the L links; `seconds` of
    sampling and of writing draws down, all chains together."""

    draws: NDArray[np.float64]
    names: list[str]
    seconds: float
    overhead: float


NO_LINKS = LinkDraws(np.zeros((0, 0, 0)), [], 0.0, 0.0)
"""Where a store has aligned no pairs."""


def run_link_chains(
    rows: Sequence[PairRow], options: ChainOptions, report: Callable[[], None] = lambda: None
) -> LinkDraws:
    """Chains of the default aligner over the pairs, both directions, in memory only; `report` hears of each sweep.

    Each direction watches half of the links, evenly spread over those that a chain had after its burn-in.
    """
    sides = read_side(row.source for row in rows), read_side(row.target for row in rows)
    found = [
        _Way(number, make_direction(sides[1 - number], sides[number]), rows, options).draws(report)
        for number in range(len(_WAYS))
    ]
    return LinkDraws(
        np.concatenate([one.draws for one in found]),
        [name for one in found for name in one.names],
        sum(one.seconds for one in found),
        sum(one.overhead for one in found),
    )


def link_sweeps(pairs: int, options: ChainOptions) -> int:
    """Sweeps of all chains in both directions together."""
    return len(_WAYS) * options.chains * (_burn_in(pairs, options) + options.sweeps)


def _burn_in(pairs: int, options: ChainOptions) -> int:
    return options_for(DEFAULT_MODEL, pairs).burn_in if options.warm_up is None else options.warm_up


class _Way:
    """The chains of one direction."""

    def __init__(self, number: int, direction: Direction, rows: Sequence[PairRow], options: ChainOptions) -> None:
        self._number = number
        self._direction = direction
        self._rows = rows
        self._options = options
        self._model = options_for(DEFAULT_MODEL, len(rows))
        self._kernel = build(self._model, direction)
        self._seconds = 0.0

    def draws(self, report: Callable[[], None]) -> LinkDraws:
        """Take all chains through their sweeps."""
        options = self._options
        keys = [chain_seed(options.seed + chain, self._number, chain) for chain in range(options.chains)]
        _warm(self._kernel, keys[0])
        states = [self._kernel.init(key, self._first_links(chain, key)) for chain, key in enumerate(keys)]
        burn_in = _burn_in(len(self._rows), options)
        for chain, key in enumerate(keys):
            for sweep in range(1, burn_in + 1):
                states[chain] = self._sweep(key, states[chain], sweep)
                report()
        started = time.perf_counter()
        words, positions = self._watched([state.chain.links for state in states])
        overhead = time.perf_counter() - started
        drawn = np.zeros((len(words), options.chains, max(1, options.sweeps // options.every)))
        for chain, key in enumerate(keys):
            for draw in range(drawn.shape[2]):
                for sweep in range(options.every):
                    number = burn_in + draw * options.every + sweep + 1
                    states[chain] = self._sweep(key, states[chain], number)
                    report()
                started = time.perf_counter()
                drawn[:, chain, draw] = states[chain].chain.links[words] == positions
                overhead += time.perf_counter() - started
        return LinkDraws(drawn, self._names(words, positions), self._seconds, overhead)

    def _first_links(self, chain: int, key: int) -> NDArray[np.int16] | None:
        """Where a chain begins; None for the model's own links."""
        start = LINK_STARTS[chain % len(LINK_STARTS)]
        if start == _OWN:
            return None
        sides = self._direction.sides
        if start == _NONE:
            return np.full(len(sides.emitted), UNLINKED, np.int16)
        widths = np.repeat(np.diff(sides.conditioning_offset), np.diff(sides.emitted_offset))
        return np.random.default_rng(key).integers(0, widths).astype(np.int16)

    def _sweep(self, key: int, state: AlignmentState, number: int) -> AlignmentState:
        started = time.perf_counter()
        state, _ = self._kernel.step(key, state, self._model.plan(number)._replace(sampled=False))
        self._seconds += time.perf_counter() - started
        return state

    def _watched(self, links: Sequence[NDArray[np.int16]]) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Emitted words and the positions that they are linked to, of links that chains have now."""
        numbers = np.unique(np.concatenate([(np.arange(len(one)) << 16) | one for one in links if len(one)]))
        numbers = numbers[(numbers & 0xFFFF) != UNLINKED & 0xFFFF]
        wanted = min(len(numbers), self._options.links // 2)
        chosen = numbers[np.linspace(0, len(numbers) - 1, wanted).astype(np.int64)] if wanted else numbers[:0]
        return chosen >> 16, (chosen & 0xFFFF).astype(np.int16)

    def _names(self, words: NDArray[np.int64], positions: NDArray[np.int16]) -> list[str]:
        """`chat - cat, 1-2 of pair 7 (target from source)`."""
        offset = self._direction.sides.emitted_offset
        pairs = np.searchsorted(offset, words, side="right") - 1
        names = []
        for pair, place, position in zip(pairs.tolist(), (words - offset[pairs]).tolist(), positions, strict=True):
            row = self._rows[pair]
            i, j = (int(position), place) if self._number == 0 else (place, int(position))
            source, target = row.source.split(" ")[i], row.target.split(" ")[j]
            names.append(f"{source} - {target}, {i}-{j} of pair {row.id} ({_WAYS[self._number]})")
        return names


def _warm(kernel: AlignmentKernel, key: int) -> None:
    """Compile, or load, what sweeps, before the clock starts."""
    kernel.step(key, kernel.init(key), kernel.options.plan(1)._replace(sampled=False))
