"""Align the words of a corpus: sample both directions with several chains in threads, then symmetrize.

`align` aligns files. `align_sides` aligns batches of stored pairs, for `incremental`.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.alignment.options import BOTH, FORWARD, AlignOptions
from hierogram.daemon.learning.stored_links import LinkedTexts, LinksByDirection, Units, words_and_stems
from hierogram.daemon.progress import Steps
from hierogram.samplers.alignment.bitext import MAX_WORDS, Direction, Side, make_direction, read_side
from hierogram.samplers.alignment.chain import UNLINKED, LinkEvidence, make_evidence
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
    link_posteriors,
    mean_posterior,
)
from hierogram.samplers.alignment.models.registry import DEFAULT_MODEL, JOINT_MODELS, MODELS
from hierogram.samplers.alignment.models.registry import options_for as model_options
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, chain_seed, decode, run_chain
from hierogram.samplers.alignment.options import EXPECTED, GDFA, POSTERIOR, AlignerOptions
from hierogram.samplers.alignment.prior_counts import PriorCounts, PriorsByUnit, split_directions
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.rules import split_line
from hierogram.storage.records.parts import index_words

INCREMENTAL_OPTIONS: dict[str, Any] = {"sweeps": 12, "burn_in": 6, "warming": 0, "thinning": 1}
"""Options for aligning new pairs given the counts of many other pairs, which needs few sweeps."""
_PAIRS_PER_CHUNK = 10_000
_MAX_LANE_WORDS = 20_000_000
"""Maximum emitted words of several lanes of `_sample` together, at about 40 bytes per word and lane."""
EXTREME_RATIO = 9
"""Maximum ratio of the lengths of a counted pair's sides, relative to the median ratio of the corpus."""
COUNTED_COPIES = 4
"""Number of copies that are all counted. A later copy is counted if its ordinal is a power of two."""


@dataclass(frozen=True, slots=True)
class AlignedCorpus:
    """Alignment of a corpus. Iteration yields a list of (source, target, probability) per pair.

    `skipped` contains the pairs that are too long to align: index of the pair, and word count of its longer side.
    """

    links: LinkList
    posterior: NDArray[np.float32]
    skipped: Mapping[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.links.offset) - 1

    def __iter__(self) -> Iterator[list[tuple[int, int, float]]]:
        # Convert in chunks, because Python objects take much more memory than arrays.
        for first in range(0, len(self), _PAIRS_PER_CHUNK):
            offset = self.links.offset[first : first + _PAIRS_PER_CHUNK + 1]
            rows = slice(int(offset[0]), int(offset[-1]))
            columns = (column[rows].tolist() for column in (self.links.source, self.links.target, self.posterior))
            links = zip(*columns, strict=True)
            for number in np.diff(offset).tolist():
                yield list(islice(links, number))

    def to_words(self, sources: Iterable[str], targets: Iterable[str]) -> "AlignedCorpus":
        """Convert links between parts to links between words. Probabilities are maxima over the parts."""
        links: list[tuple[int, int]] = []
        posterior: list[float] = []
        offset = [0]
        for pair_links, *lines in zip(self, sources, targets, strict=True):
            source, target = (index_words(split_line(line)) for line in lines)
            best: dict[tuple[int, int], float] = {}
            for i, j, p in pair_links:
                link = source[i], target[j]
                best[link] = max(p, best.get(link, 0.0))
            links += sorted(best)
            posterior += [best[link] for link in sorted(best)]
            offset.append(len(links))
        positions = np.array(links, np.int16).reshape(-1, 2)
        word_links = LinkList(positions[:, 0], positions[:, 1], np.array(offset, np.int64))
        return AlignedCorpus(word_links, np.array(posterior, np.float32), self.skipped)

    def select(self, pairs: NDArray[np.int64]) -> "AlignedCorpus":
        """Return the alignment of the pairs at these indices, in this order. Indices may repeat."""
        lengths = np.diff(self.links.offset)[pairs]
        offset = np.append(0, np.cumsum(lengths))
        columns: list[NDArray[Any]] = [self.links.source, self.links.target, self.posterior]
        source, target, posterior = selected = [np.empty(offset[-1], column.dtype) for column in columns]
        # Copy in chunks, because an index array for all links would take more memory than the links.
        for first in range(0, len(pairs), _PAIRS_PER_CHUNK):
            part = slice(first, first + _PAIRS_PER_CHUNK)
            links = slice(offset[first], offset[min(part.stop, len(pairs))])
            starts = np.repeat(self.links.offset[pairs[part]] - offset[:-1][part], lengths[part])
            for to, column in zip(selected, columns, strict=True):
                to[links] = column[np.arange(links.start, links.stop) + starts]
        return AlignedCorpus(LinkList(source, target, offset), posterior, self.skipped)

    def concatenate(self, other: "AlignedCorpus") -> "AlignedCorpus":
        """Return the alignment of these pairs followed by the other pairs."""
        source, target = (np.append(*columns) for columns in zip(self.links[:2], other.links[:2], strict=True))
        offset = np.append(self.links.offset, self.links.offset[-1] + other.links.offset[1:])
        links = LinkList(source, target, offset)
        return AlignedCorpus(links, np.append(self.posterior, other.posterior), self.skipped)

    def lines(self, with_scores: bool = False) -> Iterator[str]:
        """Return a Pharaoh line per pair, such as `0-0 1-2`. `with_scores` appends ` ||| ` and probabilities."""
        return map(" ||| ".join, self.lines_and_scores()) if with_scores else map(_pharaoh_line, self)

    def lines_and_scores(self, decimals: int = 4) -> Iterator[tuple[str, str]]:
        """Yield the Pharaoh line and the link probabilities, separated by spaces, of each pair."""
        for links in self:
            yield _pharaoh_line(links), " ".join([f"{p:.{decimals}f}" for _, _, p in links])

    def json_lines(self) -> Iterator[str]:
        """Yield a JSON object per pair: `alignment` (a Pharaoh line) and `links` with probabilities."""
        for links in self:
            plain = [{"source": s, "target": t, "probability": round(p, 4)} for s, t, p in links]
            yield json.dumps({"alignment": _pharaoh_line(links), "links": plain})

    def naacl_lines(self) -> Iterator[str]:
        """Yield a NAACL line `pair source target S probability` for each link, with 1-based numbers."""
        for number, links in enumerate(self, 1):
            yield from (f"{number} {s + 1} {t + 1} S {p:.4f}" for s, t, p in links)


def _pharaoh_line(links: Iterable[tuple[int, int, float]]) -> str:
    return " ".join([f"{s}-{t}" for s, t, _ in links])


def corpus_options(request: AlignOptions, pairs: int) -> AlignerOptions:
    """Return the sampler's options. Unset sweeps and chains follow from the model and the number of pairs."""
    return model_options(request.model, pairs, request.sweeps, chains=request.chains, seed=request.seed)


_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class _ChainThreads:
    """Threads that run chains, which call `count_sweep` after each sweep."""

    def __init__(self, total: int, report: Steps | None) -> None:
        self._total = total
        self._report = report
        self._done = 0
        self._lock = threading.Lock()
        self.stopped = False

    def count_sweep(self) -> None:
        if self.stopped:
            raise CancelledError
        with self._lock:
            self._done += 1
            if self._report is not None:
                self._report(self._done, self._total)

    def run_all(self, run: Callable[[_Job], _Result], jobs: Sequence[_Job], threads: int | None) -> list[_Result]:
        """Run jobs in threads. If a job fails, the other jobs end after their current sweep."""
        with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(jobs)), "align") as pool:
            try:
                return list(pool.map(run, jobs))
            except BaseException:
                self.stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class DirectionTask(NamedTuple):
    """Direction to sample, with the counts of other pairs, the initial links and the known links.

    Direction `number` 0 emits target words, direction 1 source words. `units` are the directions between words and, if
    any chain uses stems, between stems. `prior` are the counts of other pairs, None without other pairs. Without
    initial `links`, each chain draws its own. `evidence` are human links.
    """

    number: int
    units: Sequence[Direction]
    prior: PriorsByUnit | None
    links: NDArray[np.int16] | None
    evidence: LinkEvidence | None = None

    @property
    def direction(self) -> Direction:
        """Direction between words."""
        return self.units[0]

    def unit(self, with_stems: bool) -> tuple[Direction, PriorCounts | None]:
        """Return the direction between words, or between stems, and the counts of other pairs, if any."""
        return self.units[with_stems], None if self.prior is None else self.prior[with_stems][self.number]


def make_direction_tasks(
    units: Units, prior: PriorsByUnit | None = None, links: LinksByDirection | None = None
) -> list[DirectionTask]:
    """Return the tasks of both directions, forward first, with the initial `links`."""
    forward = [make_direction(target, source) for source, target in units]
    backward = [make_direction(source, target) for source, target in units]
    starts = links or (None, None)
    return [DirectionTask(number, both, prior, starts[number]) for number, both in enumerate((forward, backward))]


def align(
    source: Iterable[str],
    target: Iterable[str],
    request: AlignOptions | None = None,
    report: Steps | None = None,
    read_prior: Callable[[Side, Side], PriorsByUnit] | None = None,
) -> AlignedCorpus:
    """Align the words of sentence pairs. `report` receives the number of sweeps done and in total.

    `read_prior` returns the counts of other pairs for the words of both sides. Equal sentences, options and seed give
    equal links with any number of threads. Except in joint models, pairs with an empty side or very different lengths
    are not counted when other pairs are aligned (see `assign_roles`), but their words belong to the vocabulary. Pairs
    with a side of more than `MAX_WORDS` words have no links. Raises `UsageError` and `AlignmentInputError`.
    """
    request = request or AlignOptions()
    sides, skipped = _read_sides(source, target)
    if request.model in JOINT_MODELS:
        if request.direction != BOTH or read_prior is not None:
            incompatible = "--store" if read_prior is not None else f"--direction {request.direction}"
            raise UsageError(
                f"the model {request.model} aligns both directions jointly, without prior counts: remove {incompatible}"
            )
        options = corpus_options(request, len(sides[0].offset) - 1)
        samples = _sample_jointly(sides[0], sides[1], options, request.threads, report)
        return AlignedCorpus(*decode_links(samples, *sides, implied=False), skipped)
    prior = read_prior(*sides) if read_prior is not None else None
    # Build a direction only to raise an error if the sides have different numbers of lines.
    make_direction(*sides)
    return replace(_align_by_role(sides, request, report, prior), skipped=skipped)


def _read_sides(source: Iterable[str], target: Iterable[str]) -> tuple[list[Side], dict[int, int]]:
    """Read both sides, without sentences of pairs that are too long, and `AlignedCorpus.skipped`."""
    skipped: dict[int, int] = {}

    def without_long(lines: Iterable[str]) -> Iterator[str]:
        for pair, line in enumerate(lines):
            # Count characters first, because this is faster than splitting.
            if len(line) > MAX_WORDS and (words := len(split_line(line))) > MAX_WORDS:
                skipped[pair] = max(words, skipped.get(pair, 0))
                yield ""
            else:
                yield line

    sides = [read_side(without_long(lines)) for lines in (source, target)]
    return [_clear_sentences(side, list(skipped)) for side in sides] if skipped else sides, skipped


class Roles(NamedTuple):
    """Roles of the P pairs of a corpus: counted pairs train the aligner, uncounted pairs do not.

    A pair with an empty side, or with sides of very different lengths, is rarely a translation, and its links would
    spoil the counts. Only a few copies of a repeated pair are counted, so that it does not dominate the counts. The
    other copies are neither counted nor uncounted, and get the links of the first copy.

    `counted` int64[C]: indices of the pairs that are aligned together, ascending. `uncounted` int64[U]: indices of the
    pairs that are aligned given the counts of the counted pairs, ascending. `same_as` int64[P]: index of the pair whose
    links a pair gets: the first copy for these copies, otherwise the pair itself.
    """

    counted: NDArray[np.int64]
    uncounted: NDArray[np.int64]
    same_as: NDArray[np.int64]


def assign_roles(source: Side, target: Side) -> Roles:
    """Assign roles to all pairs. Of n > `COUNTED_COPIES` equal pairs, 2 + ⌊log2 n⌋ are counted.

    If every pair has an empty side or very different lengths, all pairs except surplus copies are counted.
    """
    same_as = _find_surplus_copies(source, target)
    # Leave out surplus copies, so that frequent pairs do not determine the median ratio.
    kept = np.flatnonzero(same_as == np.arange(len(same_as)))
    lengths, target_lengths = np.diff(source.offset)[kept], np.diff(target.offset)[kept]
    filled = (lengths > 0) & (target_lengths > 0)
    scaled = lengths * (np.median(target_lengths[filled] / lengths[filled]) if filled.any() else 1.0)
    extreme = np.maximum(scaled, target_lengths) > EXTREME_RATIO * np.minimum(scaled, target_lengths)
    extreme |= ~filled
    return Roles(kept, kept[:0], same_as) if extreme.all() else Roles(kept[~extreme], kept[extreme], same_as)


def _find_surplus_copies(source: Side, target: Side) -> NDArray[np.int64]:
    """Return `Roles.same_as`."""
    pairs = len(source.offset) - 1
    # Hashes take a tenth of the memory of a dictionary of texts. Among ten million pairs, the probability of
    # a collision of 64-bit hashes is 3 in a million.
    hashes = np.fromiter(map(hash, zip(_sentences(source), _sentences(target), strict=True)), np.int64, pairs)
    order = np.argsort(hashes, kind="stable")
    is_first = np.ones(pairs, np.bool_)
    is_first[1:] = hashes[order[1:]] != hashes[order[:-1]]
    begin = np.maximum.accumulate(np.where(is_first, np.arange(pairs), 0))
    copies = np.arange(pairs) - begin + 1
    is_surplus = (copies > COUNTED_COPIES) & (copies & (copies - 1) != 0)
    same_as = np.arange(pairs)
    same_as[order[is_surplus]] = order[begin[is_surplus]]
    return same_as


def _sentences(side: Side) -> Iterator[bytes]:
    for start, stop in pairwise(side.offset):
        yield side.words[start:stop].tobytes()


def _clear_sentences(side: Side, pairs: Sequence[int]) -> Side:
    lengths = np.diff(side.offset)
    is_kept = np.isin(np.arange(len(lengths)), pairs, invert=True)
    offset = np.concatenate([side.offset[:1], np.cumsum(lengths * is_kept)])
    return Side(side.words[np.repeat(is_kept, lengths)], offset, side.vocabulary)


def select_sentences(side: Side, pairs: NDArray[np.int64]) -> Side:
    """Return only the sentences of the pairs at these ascending indices, with the whole vocabulary."""
    if len(pairs) == len(side.offset) - 1:
        return side
    lengths = np.diff(side.offset)
    is_chosen = np.zeros(len(lengths), np.bool_)
    is_chosen[pairs] = True
    return Side(side.words[np.repeat(is_chosen, lengths)], np.append(0, np.cumsum(lengths[pairs])), side.vocabulary)


def _align_by_role(
    sides: list[Side], request: AlignOptions, report: Steps | None, prior: PriorsByUnit | None
) -> AlignedCorpus:
    """Align counted, then uncounted pairs, and copy links to surplus copies. Clears the list `sides`."""
    roles = assign_roles(*sides)
    source, target = sides
    uncounted = select_sentences(source, roles.uncounted), select_sentences(target, roles.uncounted)
    counted = select_sentences(source, roles.counted), select_sentences(target, roles.counted)
    # Free the sides also in the caller, because they take as much memory as their parts.
    del source, target
    sides.clear()
    options = corpus_options(request, len(roles.counted))
    aligned, thresholds, links = _align_subset(*counted, request, options, report, prior)
    if len(roles.uncounted):
        if MODELS[request.model].uses_prior_counts:
            if prior is None:
                prior = _count_links(*counted, links, request.direction)
            options = replace(options, **INCREMENTAL_OPTIONS)
        aligned = aligned.concatenate(_align_subset(*uncounted, request, options, None, prior, thresholds)[0])
    if len(roles.counted) == len(roles.same_as):
        return aligned
    position = np.zeros(len(roles.same_as), np.int64)
    position[np.concatenate([roles.counted, roles.uncounted])] = np.arange(len(aligned))
    return aligned.select(position[roles.same_as])


def _align_subset(
    source: Side,
    target: Side,
    request: AlignOptions,
    options: AlignerOptions,
    report: Steps | None,
    prior: PriorsByUnit | None,
    thresholds: Thresholds | None = None,
) -> tuple[AlignedCorpus, Thresholds | None, list[NDArray[np.int16]]]:
    """Align a subset. Also returns thresholds (None unless `EXPECTED`) and links by direction."""
    tasks = make_direction_tasks(words_and_stems(source, target) if options.stems else [(source, target)], prior)
    if request.direction != BOTH:
        tasks = tasks[:1] if request.direction == FORWARD else tasks[1:]
    marginals = _sample(tasks, options, request.threads, report)
    directions = [task.direction for task in tasks]
    # Free the stems, which take much memory and are not needed for decoding.
    del tasks
    if request.direction != BOTH:
        decoded = decode(directions[0], options.model, marginals[0])
        return _one_direction(request.direction, directions[0], decoded), None, [decoded.links]
    links = _best_links(directions, options, marginals)
    if request.symmetrization == EXPECTED and thresholds is None:
        thresholds = expected_thresholds(source, target, marginals)
    joined = join_directions(request.symmetrization, links, marginals, source, target, thresholds)
    return AlignedCorpus(joined, mean_posterior(joined, source, target, marginals)), thresholds, links


def _count_links(source: Side, target: Side, links: Sequence[NDArray[np.int16]], direction: str) -> PriorsByUnit:
    """Count the links of words and of stems. Words of an unsampled direction count as unlinked."""
    if direction == FORWARD:
        links = [*links, np.full(len(source.words), UNLINKED, np.int16)]
    elif direction != BOTH:
        links = [np.full(len(target.words), UNLINKED, np.int16), *links]
    texts = LinkedTexts.from_sides(source, target)
    units = zip(texts.counts((links[0], links[1])), texts.directions, strict=True)
    return [
        [counts._replace(emitted_words=len(unit.emitted.vocabulary)) for counts, unit in zip(*both, strict=True)]
        for both in units
    ]


def _sample_jointly(
    source: Side,
    target: Side,
    options: AlignerOptions,
    threads: int | None,
    report: Steps | None,
    prior: PriorsByUnit | None = None,
) -> LinkSamples:
    """Sample from a joint model of both directions. Each chain starts from links of the default model."""
    sampler = JOINT_MODELS[options.model].load()(source, target, options, prior[0] if prior else ())
    first_options = model_options(
        DEFAULT_MODEL, len(source.offset) - 1, chains=1, similarity=options.similarity, stems=False
    )
    tasks = make_direction_tasks([(source, target)], prior)
    chain_threads = _ChainThreads(options.chains * (len(tasks) * first_options.sweeps + options.sweeps), report)

    def run(chain: int) -> LinkSamples:
        key = chain_seed(options.seed, 0, chain)
        marginals = []
        for task in tasks:
            kernel = AlignmentKernel(first_options, *task.unit(with_stems=False))
            marginals.append(run_chain(kernel, chain_seed(key, task.number, 0), report=chain_threads.count_sweep))
        decoded = _best_links([task.direction for task in tasks], first_options, marginals)
        links = join_directions(GDFA, decoded, marginals, source, target)
        posterior = mean_posterior(links, source, target, marginals)
        samples: LinkSamples = sampler.sample(key, links, posterior, chain_threads.count_sweep)
        return samples

    return reduce(LinkSamples.joined, chain_threads.run_all(run, range(options.chains), threads))


def align_sides(
    units: Units,
    options: AlignerOptions,
    threads: int | None = None,
    report: Steps | None = None,
    prior: PriorsByUnit | None = None,
    links: LinksByDirection | None = None,
    known: Mapping[int, KnownLinks] | None = None,
) -> tuple[LinksByDirection, AlignedCorpus]:
    """Align pairs given initial and human links. Returns directional links and the alignment."""
    source, target = units[0]
    if options.model in JOINT_MODELS:
        samples = _sample_jointly(source, target, options, threads, report, prior)
        # Apply known links to the result, because joint models ignore them while sampling.
        joined, posterior = decode_links(samples, source, target, implied=True)
        if known:
            joined = _apply_known_links(joined, known, exclusive=True)
            posterior = link_posteriors(samples, joined, source, target)
            _set_fixed_posteriors(posterior, joined, known)
        return split_directions(joined, source, target), AlignedCorpus(joined, posterior)
    tasks = make_direction_tasks(units, prior, links)
    if known:
        tasks = [
            task._replace(evidence=make_evidence(task.direction.bitext, known, task.number == 0)) for task in tasks
        ]
    marginals = _sample(tasks, options, threads, report)
    decoded = _best_links([task.direction for task in tasks], options, marginals)
    joined = join_directions(POSTERIOR, decoded, marginals, source, target)
    if known:
        joined = _apply_known_links(joined, known)
    posterior = mean_posterior(joined, source, target, marginals)
    _set_fixed_posteriors(posterior, joined, known or {})
    return (decoded[0], decoded[1]), AlignedCorpus(joined, posterior)


def _best_links(
    directions: Sequence[Direction], options: AlignerOptions, marginals: Sequence[Marginals]
) -> list[NDArray[np.int16]]:
    """Return the best links of each direction: position linked to each emitted word, or -1."""
    return [decode(direction, options.model, m).links for direction, m in zip(directions, marginals, strict=True)]


def _apply_known_links(links: LinkList, known: Mapping[int, KnownLinks], exclusive: bool = False) -> LinkList:
    """Impose human links by pair index. With `exclusive`, words with fixed links lose other links."""
    sources, targets = (np.split(column, links.offset[1:-1]) for column in (links.source, links.target))
    for pair, human_links in known.items():
        pair_links = zip(sources[pair].tolist(), targets[pair].tolist(), strict=True)
        corrected = human_links.impose(human_links.without_fixed_words(pair_links) if exclusive else pair_links)
        sources[pair], targets[pair] = np.array(corrected, np.int16).reshape(-1, 2).T
    offset = np.append(0, np.cumsum(list(map(len, sources))))
    return LinkList(np.concatenate(sources), np.concatenate(targets), offset)


def _set_fixed_posteriors(posterior: NDArray[np.float32], links: LinkList, known: Mapping[int, KnownLinks]) -> None:
    for pair, (fixed, _) in known.items():
        for link in range(int(links.offset[pair]), int(links.offset[pair + 1])):
            if (int(links.source[link]), int(links.target[link])) in fixed:
                posterior[link] = 1


def _sample(
    tasks: Sequence[DirectionTask], options: AlignerOptions, threads: int | None, report: Steps | None
) -> list[Marginals]:
    """Run the chains of all tasks, in parallel lanes of consecutive chains. Returns samples by task."""
    # Limit the number of lanes, because each lane needs memory. The number must not depend on `threads`, because it can
    # change the result.
    words = sum(len(task.direction.bitext.emitted) for task in tasks)
    lanes = min(options.chains, max(1, _MAX_LANE_WORDS // max(words, 1)))
    jobs = [(task, lane) for lane in range(lanes) for task in tasks]
    chain_threads = _ChainThreads(len(tasks) * options.chains * options.sweeps, report)

    def run(job: tuple[DirectionTask, int]) -> Marginals:
        task, lane = job
        marginals = empty_marginals(task.direction.bitext)
        for chain in range(lane, options.chains, lanes):
            kernel = AlignmentKernel(options, *task.unit(options.uses_stems(chain)), task.evidence)
            key = chain_seed(options.seed, task.number, chain)
            run_chain(kernel, key, task.links, chain_threads.count_sweep, marginals)
        return marginals

    sampled = chain_threads.run_all(run, jobs, threads)
    totals = sampled[: len(tasks)]
    for number in range(len(tasks), len(jobs)):
        k = number % len(tasks)
        add_marginals(tasks[k].direction.bitext, totals[k], sampled[number])
    return totals


def _one_direction(name: str, direction: Direction, decoded: DirectionLinks) -> AlignedCorpus:
    offset = direction.bitext.emitted_offset
    linked = np.flatnonzero(decoded.links >= 0)
    pair = np.searchsorted(offset, linked, side="right") - 1
    conditioning, emitted = decoded.links[linked], (linked - offset[pair]).astype(np.int16)
    link_offset = np.searchsorted(linked, offset).astype(np.int64)
    if name == FORWARD:
        order = np.argsort(pair << 16 | conditioning, kind="stable")
        links = LinkList(conditioning[order], emitted[order], link_offset)
        return AlignedCorpus(links, decoded.posterior[linked[order]])
    return AlignedCorpus(LinkList(emitted, conditioning, link_offset), decoded.posterior[linked])
