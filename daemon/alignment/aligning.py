"""Word alignment of a corpus: sample both directions with several chains on several threads, symmetrise."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.samplers.alignment.aligner import (
    ALL_POSITIONS,
    BHMM_F,
    MODELS,
    AlignerOptions,
    Direction,
    DirectionLinks,
    add_marginals,
    chain_seed,
    decode,
    empty_marginals,
    make_direction,
    run_chain,
)
from hierogram.samplers.alignment.bitext import Side, read_side
from hierogram.samplers.alignment.chain import Marginals
from hierogram.samplers.alignment.prior_counts import Experience
from hierogram.samplers.alignment.symmetrization import METHODS, LinkList, list_links, symmetrize

BOTH, FORWARD, BACKWARD = "both", "forward", "backward"
DIRECTIONS = (BOTH, FORWARD, BACKWARD)
"""Forward: each target word gets at most one source word, as in P(target | source); backward: the other way about."""

_PAPER_SWEEPS, _PAPER_THINNING, _PAPER_CANDIDATES, _PAPER_CHAINS = 1000, 25, 2, 1
_MOST_SWEEPS, _FEWEST_SWEEPS, _SWEEPS_SCALE = 60, 16, 3000
_CHAINS = 4
_ARRIVAL_SWEEPS, _ARRIVAL_BURN_IN, _ARRIVAL_WARMING = 12, 6, 3
_REJUVENATING_SWEEPS, _REJUVENATING_BURN_IN, _REJUVENATING_CHAINS = 6, 2, 2


@dataclass(frozen=True, slots=True)
class Request:
    """What to align and how; None takes the model's default."""

    model: str = BHMM_F
    direction: str = BOTH
    symmetrization: str = "gdfa"
    sweeps: int | None = None
    chains: int | None = None
    candidates: int | None = None
    likeness: float | None = None
    seed: int = 1
    threads: int | None = None
    keep_case: bool = False


@dataclass(frozen=True, slots=True)
class Aligned:
    """Links of all pairs, sorted by source, then target position; and each link's posterior probability, float32[L]."""

    links: LinkList
    posterior: NDArray[np.float32]

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.links.offset) - 1

    def lines(self, with_scores: bool = False) -> Iterator[str]:
        """Pharaoh lines `0-0 1-2`; with scores followed by ` ||| ` and the links' posteriors in the same order."""
        source, target = self.links.source.tolist(), self.links.target.tolist()
        offset, posterior = self.links.offset.tolist(), self.posterior.tolist()
        for start, stop in pairwise(offset):
            line = " ".join([f"{source[k]}-{target[k]}" for k in range(start, stop)])
            if with_scores:
                line += " ||| " + " ".join([f"{p:.4f}" for p in posterior[start:stop]])
            yield line


def options_for(request: Request, pairs: int) -> AlignerOptions:
    """The sampler's options for a corpus of so many pairs.

    The paper's models have the paper's settings [SA16 §5]. bhmm-f runs several short chains: averaging over them
    gains more than sweeping longer, and a larger corpus needs fewer sweeps
    (`python -m hierogram.tools.compare_aligners` measures it).
    """
    if request.model not in MODELS:
        raise UsageError(f"no model is called {request.model!r}: there are {', '.join(MODELS)}")
    if request.model == BHMM_F:
        fitting = round(_SWEEPS_SCALE / max(pairs, 1) ** 0.5)
        sweeps = request.sweeps or min(max(fitting, _FEWEST_SWEEPS), _MOST_SWEEPS)
        options = AlignerOptions(
            model=request.model,
            sweeps=sweeps,
            chains=_CHAINS,
            burn_in=sweeps * 3 // 5,
            thinning=2 if sweeps > 4 else 1,
            candidates=ALL_POSITIONS,
            lexical=0.001,
            likeness=1.0,
            warming=sweeps // 4,
            jump=0.5,
        )
    else:
        sweeps = request.sweeps or _PAPER_SWEEPS
        options = AlignerOptions(
            model=request.model,
            sweeps=sweeps,
            chains=_PAPER_CHAINS,
            burn_in=0,
            thinning=min(_PAPER_THINNING, sweeps),
            candidates=_PAPER_CANDIDATES,
            lexical=0.0001,
            likeness=0.0,
        )
    return replace(
        options,
        seed=request.seed,
        chains=options.chains if request.chains is None else request.chains,
        candidates=options.candidates if request.candidates is None else request.candidates,
        likeness=options.likeness if request.likeness is None else request.likeness,
    )


def arrival_options(pairs: int, seed: int) -> AlignerOptions:
    """Options for new pairs beside many that are known: few sweeps, as most counts are there already."""
    return replace(
        options_for(Request(seed=seed), pairs),
        sweeps=_ARRIVAL_SWEEPS,
        burn_in=_ARRIVAL_BURN_IN,
        thinning=1,
        warming=_ARRIVAL_WARMING,
    )


def rejuvenation_options(pairs: int, seed: int) -> AlignerOptions:
    """Options for pairs that start from the links that they have."""
    return replace(
        arrival_options(pairs, seed),
        sweeps=_REJUVENATING_SWEEPS,
        burn_in=_REJUVENATING_BURN_IN,
        chains=_REJUVENATING_CHAINS,
        warming=0,
    )


class _StoppedError(Exception):
    """The run was given up while a chain was sweeping."""


class _Tally:
    """Sweeps done by all threads; the first to hear that the run was given up ends its chain."""

    def __init__(self, total: int, report: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._report = report
        self._done = 0
        self._lock = threading.Lock()
        self.stopped = False

    def sweep_done(self) -> None:
        if self.stopped:
            raise _StoppedError
        with self._lock:
            self._done += 1
            if self._report is not None:
                self._report(self._done, self._total)


def align(
    source: Iterable[str],
    target: Iterable[str],
    request: Request | None = None,
    report: Callable[[int, int], None] | None = None,
    learned: Callable[[Side, Side], Sequence[Experience]] | None = None,
) -> Aligned:
    """Align sentences with their translations; `report` hears how many sweeps of how many are done.

    `learned` gives what was learned before about the words of both sides.
    The same sentences, options and seed give the same links, whatever the number of threads. Raises `UsageError` and
    `AlignmentInputError`.
    """
    request = request or Request()
    if request.direction not in DIRECTIONS:
        raise UsageError(f"no direction is called {request.direction!r}: there are {', '.join(DIRECTIONS)}")
    if request.symmetrization not in METHODS:
        raise UsageError(f"no symmetrisation is called {request.symmetrization!r}: there are {', '.join(METHODS)}")
    source_side, target_side = read_side(source, request.keep_case), read_side(target, request.keep_case)
    options = options_for(request, len(source_side.offset) - 1)
    experience = learned(source_side, target_side) if learned is not None else None
    numbers = {BOTH: (0, 1), FORWARD: (0,), BACKWARD: (1,)}[request.direction]
    if request.direction == BOTH:
        both = align_sides(
            source_side, target_side, options, request.threads, report, experience, None, request.symmetrization
        )
        return both.aligned
    directions = [_direction(number, source_side, target_side) for number in numbers]
    known = [experience[number] if experience else None for number in numbers]
    marginals = _sample(directions, numbers, options, request.threads, report, known, [None])
    return _one_direction(request.direction, directions[0], decode(directions[0], options.model, marginals[0]))


@dataclass(frozen=True, slots=True)
class BothWays:
    """Both directions' links (of target words, and of source words), and the alignment that they make together."""

    forward: NDArray[np.int16]
    backward: NDArray[np.int16]
    aligned: Aligned


def align_sides(
    source: Side,
    target: Side,
    options: AlignerOptions,
    threads: int | None = None,
    report: Callable[[int, int], None] | None = None,
    experience: Sequence[Experience | None] | None = None,
    links: Sequence[NDArray[np.int16]] | None = None,
    symmetrization: str = "gdfa",
) -> BothWays:
    """Align both ways, beside what was learned from other pairs, starting from both ways' `links` if given."""
    directions = [_direction(number, source, target) for number in (0, 1)]
    none = (None, None)
    marginals = _sample(directions, (0, 1), options, threads, report, experience or none, links or none)
    found = [decode(d, options.model, m) for d, m in zip(directions, marginals, strict=True)]
    aligned = _joined(symmetrization, source, target, found, directions, marginals)
    return BothWays(found[0].links, found[1].links, aligned)


def _direction(number: int, source: Side, target: Side) -> Direction:
    """The forward (0) direction generates target words, the backward (1) direction source words."""
    return make_direction(source, target) if number else make_direction(target, source)


def _sample(
    directions: Sequence[Direction],
    numbers: Sequence[int],
    options: AlignerOptions,
    threads: int | None,
    report: Callable[[int, int], None] | None,
    experience: Sequence[Experience | None],
    links: Sequence[NDArray[np.int16] | None],
) -> list[Marginals]:
    """Run all chains of the directions; each direction's samples are added up in the order of its chains."""
    jobs = [(k, chain) for chain in range(options.chains) for k in range(len(directions))]
    tally = _Tally(len(jobs) * options.sweeps, report)
    totals = [empty_marginals(direction.sides) for direction in directions]
    workers = min(threads or os.cpu_count() or 1, len(jobs))
    waiting: list[tuple[int, Future[Marginals]]] = []
    with ThreadPoolExecutor(workers, "align") as pool:
        try:
            for k, chain in jobs:
                seed = chain_seed(options.seed, numbers[k], chain)
                start = directions[k], options, seed, tally.sweep_done, experience[k], links[k]
                waiting.append((k, pool.submit(run_chain, *start)))
                # Hardly more marginals than workers at once: they are the largest thing in memory.
                if len(waiting) > workers:
                    _collect(waiting, totals)
            while waiting:
                _collect(waiting, totals)
        except BaseException:
            tally.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return totals


def _collect(waiting: list[tuple[int, Future[Marginals]]], totals: list[Marginals]) -> None:
    k, future = waiting.pop(0)
    add_marginals(totals[k], future.result())


def _one_direction(name: str, direction: Direction, found: DirectionLinks) -> Aligned:
    generated_offset, given_offset = direction.sides.generated_offset, direction.sides.given_offset
    if name == FORWARD:
        links = list_links(found.links, given_offset, generated_offset)
        at = _positions(links.target, links.offset, generated_offset)
    else:
        # Generated words are the source words, in order: the list is sorted as it stands.
        linked = np.flatnonzero(found.links >= 0)
        pair = np.searchsorted(generated_offset, linked, side="right") - 1
        offset = np.searchsorted(linked, generated_offset).astype(np.int64)
        links = LinkList((linked - generated_offset[pair]).astype(np.int16), found.links[linked], offset)
        at = linked
    return Aligned(links, found.posterior[at])


def _positions(
    words: NDArray[np.int16], list_offset: NDArray[np.int64], offset: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Places in a side's arrays of the words of a link list."""
    placed: NDArray[np.int64] = np.repeat(offset[:-1], np.diff(list_offset)) + words
    return placed


def _joined(
    method: str,
    source: Side,
    target: Side,
    found: Sequence[DirectionLinks],
    directions: Sequence[Direction],
    marginals: Sequence[Marginals],
) -> Aligned:
    """Both directions symmetrised; a link's posterior is the mean of the directions'."""
    links = symmetrize(method, found[0].links, found[1].links, source.offset, target.offset)
    numbers = np.diff(links.offset)
    s, t = links.source.astype(np.int64), links.target.astype(np.int64)
    widths = (np.repeat(np.diff(source.offset), numbers), np.repeat(np.diff(target.offset), numbers))
    cells = np.repeat(directions[0].sides.cell_offset[:-1], numbers)
    forward = marginals[0].cells[cells + t * widths[0] + s] / marginals[0].samples[0]
    backward = marginals[1].cells[cells + s * widths[1] + t] / marginals[1].samples[0]
    return Aligned(links, ((forward + backward) / 2).astype(np.float32))
