"""Word alignment of a corpus: sample both directions with several chains in threads, then symmetrize."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.alignment.requests import BOTH, DIRECTIONS, FORWARD, Request
from hierogram.daemon.learning.alignment.robust import roles_of, some_pairs
from hierogram.daemon.learning.stored_links import LinkedTexts, Links, units_of
from hierogram.daemon.progress import Steps
from hierogram.daemon.text.segments import words_of_parts
from hierogram.samplers.alignment.bitext import MOST_WORDS, Direction, Side, make_direction, read_side, tokens_of
from hierogram.samplers.alignment.chain import UNLINKED, LinkEvidence, evidence_of
from hierogram.samplers.alignment.marginals import (
    DirectionLinks,
    LinkSamples,
    Marginals,
    Thresholds,
    add_marginals,
    decode_links,
    empty_marginals,
    expected_thresholds,
    join_directions,
    mean_posterior,
    posterior_of,
)
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, JOINT_MODELS, MODELS, every_model
from hierogram.samplers.alignment.models.registry import options_for as model_options
from hierogram.samplers.alignment.models.sampler import build, chain_seed, decode, run_chain
from hierogram.samplers.alignment.options import EXPECTED, GDFA, POSTERIOR, SYMMETRIZATIONS, AlignerOptions
from hierogram.samplers.alignment.prior_counts import BothCounts, LearnedCounts, PriorCounts, links_of_alignment
from hierogram.samplers.alignment.symmetrization import LinkList, list_links
from hierogram.samplers.grammar.known_links import KnownLinks

_INCREMENTAL: dict[str, Any] = {"sweeps": 12, "burn_in": 6, "warming": 0}
_ANSWERING: dict[str, Any] = {"sweeps": 6, "burn_in": 3, "warming": 1}
_REJUVENATING: dict[str, Any] = {"sweeps": 6, "burn_in": 2, "chains": 3, "warming": 0}


@dataclass(frozen=True, slots=True)
class Aligned:
    """Links of all pairs, sorted by source, then target position, and each link's posterior probability, float32[L].

    `skipped` are the pairs that are too long to align, by index, with the words of their longer side.
    """

    links: LinkList
    posterior: NDArray[np.float32]
    skipped: Mapping[int, int] = field(default_factory=dict)

    @property
    def pairs(self) -> int:
        """Number of sentence pairs."""
        return len(self.links.offset) - 1

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self.pairs

    def __iter__(self) -> Iterator[list[tuple[int, int, float]]]:
        """Yield each pair's links: source and target position, from 0, and posterior probability."""
        links = zip(self.links.source.tolist(), self.links.target.tolist(), self.posterior.tolist(), strict=True)
        for start, stop in pairwise(self.links.offset.tolist()):
            yield list(islice(links, stop - start))

    def in_words(self, sources: Iterable[str], targets: Iterable[str]) -> "Aligned":
        """Return the links between words, given lines whose tokens are
        word parts. A link has the highest probability of its parts' links.
        """
        links: list[tuple[int, int]] = []
        posterior: list[float] = []
        offset = [0]
        for own, *lines in zip(self, sources, targets, strict=True):
            source, target = (words_of_parts(tokens_of(line)) for line in lines)
            best: dict[tuple[int, int], float] = {}
            for i, j, p in own:
                link = source[i], target[j]
                best[link] = max(p, best.get(link, 0.0))
            for link, p in sorted(best.items()):
                links.append(link)
                posterior.append(p)
            offset.append(len(links))
        places = np.array(links, np.int16).reshape(-1, 2)
        return Aligned(
            LinkList(places[:, 0], places[:, 1], np.array(offset, np.int64)),
            np.array(posterior, np.float32),
            self.skipped,
        )

    def of_pairs(self, pairs: NDArray[np.int64]) -> "Aligned":
        """Return the alignment of pairs by index, in this order; a pair may occur several times."""
        lengths = np.diff(self.links.offset)[pairs]
        offset = np.zeros(len(pairs) + 1, np.int64)
        np.cumsum(lengths, out=offset[1:])
        places = np.arange(offset[-1]) + np.repeat(self.links.offset[pairs] - offset[:-1], lengths)
        links = LinkList(self.links.source[places], self.links.target[places], offset)
        return Aligned(links, self.posterior[places], self.skipped)

    def followed_by(self, other: "Aligned") -> "Aligned":
        """Return the alignment of these pairs and then of the other ones."""
        links = LinkList(
            np.concatenate([self.links.source, other.links.source]),
            np.concatenate([self.links.target, other.links.target]),
            np.concatenate([self.links.offset, self.links.offset[-1] + other.links.offset[1:]]),
        )
        return Aligned(links, np.concatenate([self.posterior, other.posterior]), self.skipped)

    def lines(self, with_scores: bool = False) -> Iterator[str]:
        """Yield Pharaoh lines `0-0 1-2`; scores append ` ||| ` and the links' posteriors in the same order."""
        source, target = self.links.source.tolist(), self.links.target.tolist()
        offset, posterior = self.links.offset.tolist(), self.posterior.tolist()
        for start, stop in pairwise(offset):
            line = " ".join([f"{source[k]}-{target[k]}" for k in range(start, stop)])
            if with_scores:
                line += " ||| " + " ".join([f"{p:.4f}" for p in posterior[start:stop]])
            yield line


def options_for(request: Request, pairs: int) -> AlignerOptions:
    """Return the sampler options for a corpus of `pairs` pairs. Raises `UsageError` if the model does not exist."""
    if request.model not in every_model():
        raise UsageError(f"unknown model {request.model!r}: expected {', '.join(every_model())}")
    return model_options(
        request.model,
        pairs,
        request.sweeps,
        chains=request.chains,
        seed=request.seed,
    )


def incremental_options(pairs: int, request: Request, *, linked: bool = False) -> AlignerOptions:
    """Return options for pairs to be aligned given many known pairs: few sweeps, since most counts exist already.

    `linked`: the pairs start from their present links.
    """
    return replace(options_for(request, pairs), thinning=1, **(_REJUVENATING if linked else _INCREMENTAL))


@lru_cache
def answering_options(request: Request) -> AlignerOptions:
    """Return options for a pair in a request, which is not stored: fewer sweeps, but with warm-up."""
    return replace(options_for(request, 1), thinning=1, **_ANSWERING)


class _Sweeps:
    """Sweep counter of all threads. Once stopped, it ends each chain that reports."""

    def __init__(self, total: int, report: Steps | None) -> None:
        self._total = total
        self._report = report
        self._done = 0
        self._lock = threading.Lock()
        self.stopped = False

    def one_done(self) -> None:
        if self.stopped:
            raise CancelledError
        with self._lock:
            self._done += 1
            if self._report is not None:
                self._report(self._done, self._total)


class View(NamedTuple):
    """A direction in terms of words or of stems, and the counts of other pairs."""

    direction: Direction
    prior: PriorCounts | None


class Way(NamedTuple):
    """A direction to sample: 0 emits target words, 1 source words. Also the initial links and the known links.

    The first of the `views` is that of words, the optional second that of stems.
    """

    number: int
    views: list[View]
    links: NDArray[np.int16] | None
    evidence: LinkEvidence | None = None

    @property
    def direction(self) -> Direction:
        """The direction in terms of words."""
        return self.views[0].direction


class Sample(Protocol):
    """Function that runs all chains and returns each direction's samples, added in the order of its chains."""

    def __call__(self, ways: Sequence[Way], options: AlignerOptions, *, report: Steps | None) -> list[Marginals]:
        """Run the chains; `report` receives sweeps done and in total."""


def ways_of(
    source: Side,
    target: Side,
    options: AlignerOptions,
    prior: LearnedCounts | None = None,
    links: Links | None = None,
    stems: tuple[Side, Side] | None = None,
) -> list[Way]:
    """Return both directions, forward and backward. The `stems` of both sides are computed if needed and not given."""
    if stems is None and options.stems:
        stems = units_of(source, target)[1]
    ways = []
    for number, starts in enumerate(links or (None, None)):
        direction = make_direction(source, target) if number else make_direction(target, source)
        directions = [direction]
        if stems is not None:
            emitted, conditioning = stems if number else stems[::-1]
            # Stems have the same positions as their words.
            sides = direction.sides._replace(emitted=emitted.words, conditioning=conditioning.words)
            directions.append(Direction(sides, emitted, conditioning))
        views = [View(view, prior[k][number] if prior is not None else None) for k, view in enumerate(directions)]
        ways.append(Way(number, views, starts))
    return ways


def align(
    source: Iterable[str],
    target: Iterable[str],
    request: Request | None = None,
    report: Steps | None = None,
    known: Callable[[Side, Side], LearnedCounts] | None = None,
) -> Aligned:
    """Align sentences with their translations; `report` receives sweeps done and in total.

    `known` returns the counts of other pairs for the words of both sides. Equal sentences, options and seed give equal
    links, whatever the number of threads. Pairs that teach nothing do not change the links of the others. Pairs with a
    side of more than `MOST_WORDS` words are skipped. Raises `UsageError` and `AlignmentInputError`.
    """
    request = request or Request()
    if request.direction not in DIRECTIONS:
        raise UsageError(f"unknown direction {request.direction!r}: expected {', '.join(DIRECTIONS)}")
    if request.symmetrization not in SYMMETRIZATIONS:
        names = ", ".join(SYMMETRIZATIONS)
        raise UsageError(f"unknown symmetrization {request.symmetrization!r}: expected {names}")
    sources, targets = list(source), list(target)
    skipped = _without_long(sources, targets)
    source_side, target_side = read_side(sources), read_side(targets)
    if request.model in JOINT_MODELS:
        if request.direction != BOTH or known is not None:
            without = "--store" if known is not None else f"--direction {request.direction}"
            raise UsageError(
                f"the model {request.model} aligns both directions jointly, without prior counts: leave out {without}"
            )
        options = options_for(request, len(sources))
        samples = _sample_jointly(source_side, target_side, options, request.threads, report)
        return replace(Aligned(*decode_links(samples, source_side, target_side, implied=False)), skipped=skipped)
    prior = known(source_side, target_side) if known is not None else None
    # Raises if the sides have different numbers of lines.
    make_direction(source_side, target_side)
    found = _align_robustly(source_side, target_side, request, report, prior)
    return replace(found, skipped=skipped)


def _without_long(sources: list[str], targets: list[str]) -> dict[int, int]:
    """Replace both sides of pairs that are too long to align by empty ones; return their indices and lengths."""
    skipped: dict[int, int] = {}
    for lines in (sources, targets):
        for pair, line in enumerate(lines):
            # Counting characters is faster than splitting.
            if len(line) > MOST_WORDS and (words := len(tokens_of(line))) > MOST_WORDS:
                skipped[pair] = max(words, skipped.get(pair, 0))
    for pair in skipped:
        for lines in (sources, targets):
            if pair < len(lines):
                lines[pair] = ""
    return skipped


def _align_robustly(
    source: Side, target: Side, request: Request, report: Steps | None, prior: LearnedCounts | None
) -> Aligned:
    """Align the pairs that teach together, then the pairs apart, given the counts of the former or the `prior`."""
    roles = roles_of(source, target)
    sides = some_pairs(source, roles.teaching), some_pairs(target, roles.teaching)
    options = options_for(request, len(roles.teaching))
    found, thresholds, links = _align_part(*sides, request, options, report, prior)
    if len(roles.apart):
        if MODELS[request.model].prior_counts:
            if prior is None:
                prior = _counts_of(*sides, links, request.direction)
            options = replace(options, thinning=1, **_INCREMENTAL)
        sides = some_pairs(source, roles.apart), some_pairs(target, roles.apart)
        found = found.followed_by(_align_part(*sides, request, options, None, prior, thresholds)[0])
    if len(roles.teaching) == len(roles.same_as):
        return found
    place = np.zeros(len(roles.same_as), np.int64)
    place[np.concatenate([roles.teaching, roles.apart])] = np.arange(len(found))
    return found.of_pairs(place[roles.same_as])


def _align_part(
    source: Side,
    target: Side,
    request: Request,
    options: AlignerOptions,
    report: Steps | None,
    prior: LearnedCounts | None,
    thresholds: Thresholds | None = None,
) -> tuple[Aligned, Thresholds | None, list[NDArray[np.int16]]]:
    """Align some pairs together; return also the thresholds that decoded them, and each sampled direction's links.

    The links are of both directions, forward and backward, unless one was requested.
    """
    ways = ways_of(source, target, options, prior)
    if request.direction != BOTH:
        ways = ways[:1] if request.direction == FORWARD else ways[1:]
    marginals = _sample(ways, options, request.threads, report)
    decoded = _decoded(ways, options, marginals)
    links = [one.links for one in decoded]
    if request.direction != BOTH:
        return _one_direction(request.direction, ways[0].direction, decoded[0]), None, links
    if request.symmetrization == EXPECTED and thresholds is None:
        thresholds = expected_thresholds(source, target, marginals)
    joined = join_directions(request.symmetrization, decoded, marginals, source, target, thresholds)
    return Aligned(joined, mean_posterior(joined, source, target, marginals)), thresholds, links


def _counts_of(source: Side, target: Side, links: Sequence[NDArray[np.int16]], direction: str) -> LearnedCounts:
    """Return the counts of links, by words and by stems; a direction that was not sampled has no links."""
    if direction == FORWARD:
        links = [*links, np.full(len(source.words), UNLINKED, np.int16)]
    elif direction != BOTH:
        links = [np.full(len(target.words), UNLINKED, np.int16), *links]
    texts = LinkedTexts.of_sides(source, target)
    found = texts.counts((links[0], links[1]), np.ones(len(source.offset) - 1, np.int64))

    def with_words(both: BothCounts, units: tuple[Direction, Direction]) -> BothCounts:
        forward, backward = (
            counts._replace(emitted_words=len(unit.emitted.vocabulary))
            for counts, unit in zip(both, units, strict=True)
        )
        return forward, backward

    return with_words(found[0], texts.units[0]), with_words(found[1], texts.units[1])


def _sample_jointly(
    source: Side,
    target: Side,
    options: AlignerOptions,
    threads: int | None,
    report: Steps | None,
    prior: LearnedCounts | None = None,
) -> LinkSamples:
    """Sample from a joint model of both directions; chains are added in order.

    Each chain starts from the links of one chain of the default model per direction.
    """
    of_words = prior[0] if prior is not None else (None, None)
    sampler = JOINT_MODELS[options.model].sampler()(source, target, options, of_words)
    first_options = model_options(
        DEFAULT_MODEL, len(source.offset) - 1, chains=1, similarity=options.similarity, stems=False
    )
    ways = ways_of(source, target, first_options, prior)
    sweeps = _Sweeps(options.chains * (len(ways) * first_options.sweeps + options.sweeps), report)
    workers = min(threads or os.cpu_count() or 1, options.chains)

    def run(chain: int) -> LinkSamples:
        key = chain_seed(options.seed, 0, chain)
        keys = [chain_seed(key, way.number, 0) for way in ways]
        marginals = [run_way(way, first_options, 0, sweeps.one_done, own) for way, own in zip(ways, keys, strict=True)]
        found = _decoded(ways, first_options, marginals)
        links = join_directions(GDFA, found, marginals, source, target)
        return sampler.sample(key, links, mean_posterior(links, source, target, marginals), sweeps.one_done)

    with ThreadPoolExecutor(workers, "align") as pool:
        try:
            first, *others = pool.map(run, range(options.chains))
        except BaseException:
            sweeps.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for more in others:
        first = first.joined(more)
    return first


def align_sides(
    source: Side,
    target: Side,
    options: AlignerOptions,
    threads: int | None = None,
    report: Steps | None = None,
    prior: LearnedCounts | None = None,
    links: Links | None = None,
    known: Mapping[int, KnownLinks] | None = None,
    symmetrization: str = POSTERIOR,
    sample: Sample | None = None,
) -> tuple[Links, Aligned]:
    """Align both ways; return both directions' links (of target words, of source words) and the symmetrized alignment.

    Optional inputs besides the texts: `prior` counts of other pairs, initial `links` of both
    directions, `known` links of some pairs by index, and `sample`, which runs the chains
    instead of threads. A joint model uses neither symmetrization nor initial links, always
    runs in threads, and samples without the known links, which are then imposed on its result.
    """
    if options.model in JOINT_MODELS:
        samples = _sample_jointly(source, target, options, threads, report, prior)
        aligned = _with_known(samples, source, target, known or {})
        return both_ways(aligned.links, source, target), aligned
    ways = ways_of(source, target, options, prior, links)
    if known:
        ways = [way._replace(evidence=evidence_of(way.direction.sides, known, way.number == 0)) for way in ways]
    marginals = (sample or partial(_sample, threads=threads))(ways, options, report=report)
    found = _decoded(ways, options, marginals)
    joined = join_directions(symmetrization, found, marginals, source, target)
    if known:
        joined = _keep_known(joined, known)
    return (found[0].links, found[1].links), Aligned(joined, mean_posterior(joined, source, target, marginals))


def _decoded(ways: Sequence[Way], options: AlignerOptions, marginals: Sequence[Marginals]) -> list[DirectionLinks]:
    return [decode(way.direction, options.model, m) for way, m in zip(ways, marginals, strict=True)]


def _keep_known(links: LinkList, known: Mapping[int, KnownLinks], alone: bool = False) -> LinkList:
    """Add the links that are fixed and remove the links that are forbidden.

    With `alone`, a word with a fixed link keeps only its fixed links.
    """
    parts: list[LinkList] = []
    bounds = links.offset.tolist()
    lengths = np.diff(links.offset)
    at = 0
    for pair in sorted(known):
        here = slice(bounds[pair], bounds[pair + 1])
        found = zip(links.source[here].tolist(), links.target[here].tolist(), strict=True)
        kept = known[pair].kept(known[pair].apart(found) if alone else found)
        own = np.array(kept, np.int16).reshape(-1, 2)
        parts += [LinkList(links.source[at : here.start], links.target[at : here.start], links.offset[:0])]
        parts += [LinkList(own[:, 0], own[:, 1], links.offset[:0])]
        lengths[pair] = len(kept)
        at = here.stop
    parts.append(LinkList(links.source[at:], links.target[at:], links.offset[:0]))
    offset = np.zeros(len(links.offset), np.int64)
    np.cumsum(lengths, out=offset[1:])
    return LinkList(
        np.concatenate([part.source for part in parts]), np.concatenate([part.target for part in parts]), offset
    )


def _with_known(samples: LinkSamples, source: Side, target: Side, known: Mapping[int, KnownLinks]) -> Aligned:
    """Return the likely links of samples, including links of chunks, adjusted to the known links."""
    links, posterior = decode_links(samples, source, target, implied=True)
    if not known:
        return Aligned(links, posterior)
    links = _keep_known(links, known, alone=True)
    posterior = posterior_of(samples, links, source, target)
    for pair, (fixed, _) in known.items():
        for at in range(int(links.offset[pair]), int(links.offset[pair + 1])):
            if (int(links.source[at]), int(links.target[at])) in fixed:
                posterior[at] = 1
    return Aligned(links, posterior)


def both_ways(links: LinkList, source: Side, target: Side) -> Links:
    """Return the links of an alignment by direction, with at most one link per target word and per source word."""
    of_source, of_target = links.source.astype(np.int64), links.target.astype(np.int64)
    return (
        links_of_alignment(of_target, of_source, links.offset, target.offset, source.offset),
        links_of_alignment(of_source, of_target, links.offset, source.offset, target.offset),
    )


def run_way(
    way: Way, options: AlignerOptions, chain: int, report: Callable[[], None] | None = None, key: int | None = None
) -> Marginals:
    """Run all sweeps of a direction's chain, numbered from 0, with the given `key` or the chain's own."""
    view = way.views[options.knows_stems(chain)]
    key = chain_seed(options.seed, way.number, chain) if key is None else key
    return run_chain(build(options, view.direction, view.prior, way.evidence), key, way.links, report)


def chains_of(ways: Sequence[Way], options: AlignerOptions) -> list[tuple[int, int]]:
    """Return all chains as (index of the direction, number of the chain), in the order in which samples are added."""
    return [(k, chain) for chain in range(options.chains) for k in range(len(ways))]


def _sample(
    ways: Sequence[Way],
    options: AlignerOptions,
    threads: int | None,
    report: Steps | None,
) -> list[Marginals]:
    """Run all chains of the directions; each direction's samples are added in the order of its chains."""
    jobs = chains_of(ways, options)
    sweeps = _Sweeps(len(jobs) * options.sweeps, report)
    totals = [empty_marginals(way.direction.sides) for way in ways]
    workers = min(threads or os.cpu_count() or 1, len(jobs))
    pending: list[tuple[int, Future[Marginals]]] = []

    with ThreadPoolExecutor(workers, "align") as pool:
        try:
            for k, chain in jobs:
                pending.append((k, pool.submit(run_way, ways[k], options, chain, sweeps.one_done)))
                # Limit the number of marginals in memory to about the number of workers: they are the largest objects.
                if len(pending) > workers:
                    _collect(pending, totals)
            while pending:
                _collect(pending, totals)
        except BaseException:
            sweeps.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return totals


def _collect(pending: list[tuple[int, Future[Marginals]]], totals: list[Marginals]) -> None:
    k, future = pending.pop(0)
    add_marginals(totals[k], future.result())


def _one_direction(name: str, direction: Direction, found: DirectionLinks) -> Aligned:
    emitted_offset, conditioning_offset = direction.sides.emitted_offset, direction.sides.conditioning_offset
    if name == FORWARD:
        links = list_links(found.links, conditioning_offset, emitted_offset)
        at = np.repeat(emitted_offset[:-1], np.diff(links.offset)) + links.target
    else:
        # Emitted words are the source words in order, so the list is already sorted.
        linked = np.flatnonzero(found.links >= 0)
        pair = np.searchsorted(emitted_offset, linked, side="right") - 1
        offset = np.searchsorted(linked, emitted_offset).astype(np.int64)
        links = LinkList((linked - emitted_offset[pair]).astype(np.int16), found.links[linked], offset)
        at = linked
    return Aligned(links, found.posterior[at])
