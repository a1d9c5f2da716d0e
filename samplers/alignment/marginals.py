"""Posterior probabilities of sampled links, and decoding [SA16 §4.5].

Both directions are combined by averaging their posteriors (Liang, Taskar & Klein 2006) or by symmetrization.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side, Sides
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.options import EXPECTED, POSTERIOR, SYMMETRIZATIONS
from hierogram.samplers.alignment.symmetrization import LinkList, allocate_links, symmetrize, trim
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import AlignmentInputError

CELL = np.float32
WHOLE = 65520
"""Integer that represents probability 1: divisible by 1 to 10, so shares of few samples are exact."""
_MAX_ENTRIES = 8_000_000
_MIN_SLOTS, _MAX_SLOTS = 2, 8
"""Limits of the entries per emitted word. Larger corpora have sharper posteriors and need fewer."""
_NEGLIGIBLE = 0.001
"""Probabilities below this are dropped if a pair has more cells than entries."""
_LIKELY = 0.5
"""Decoding threshold of joint models."""
BESIDE_RATIO = 0.8
"""Ratio of `beside` to `likely` in `expected_thresholds`."""
_STEPS = 1000
"""Number of thresholds among which the expected F-score is maximized."""
_MIN_LIKELY = 0.1
"""Minimum of `likely` in `expected_thresholds`."""


class Marginals(NamedTuple):
    """Mean posteriors of links over samples, linear. Only the largest posteriors of each pair are stored.

    `cells` is scratch memory for the posteriors of one pair. Each emitted word has a row: the probability of no link,
    or of a collocation, which also has a link (bhmm-z), then the probability of a link to each conditioning position.
    """

    # uint32[slots * N]: posteriors. The entries of a pair begin at `slots` times its first emitted position, and end
    # before the first 0 or the next pair. The high half of an entry is the distance from the previous entry's cell in
    # `cells`. The low half is the probability * WHOLE.
    entries: NDArray[np.uint32]
    # int64[1]: number of samples. The caller of `store_sums` updates it after all pairs.
    samples: NDArray[np.int64]
    cells: NDArray[np.float32]
    # int32[cells]: scratch memory for the indices of cells to store.
    kept: NDArray[np.int32]
    # Number of entries per emitted word.
    slots: int


class DirectionLinks(NamedTuple):
    """Linked position of each emitted word or -1, int16[N], and posterior of this choice, float32[N]."""

    links: NDArray[np.int16]
    posterior: NDArray[np.float32]


def empty_marginals(sides: Sides) -> Marginals:
    """Return marginals without samples."""
    words = len(sides.emitted)
    slots = min(max(_MAX_ENTRIES // max(words, 1), _MIN_SLOTS), _MAX_SLOTS)
    largest = int((np.diff(sides.emitted_offset) * (np.diff(sides.conditioning_offset) + 1)).max(initial=0))
    entries = np.zeros(slots * words, np.uint32)
    return Marginals(entries, np.zeros(1, np.int64), np.zeros(largest, CELL), np.zeros(largest, np.int32), slots)


@njit
def load_pair(emitted_offset, conditioning_offset, pair, factor, marginals):
    """Set `cells` to a pair's mean posteriors times `factor`. Returns (emitted words, conditioning words)."""
    start, stop = emitted_offset[pair], emitted_offset[pair + 1]
    length = conditioning_offset[pair + 1] - conditioning_offset[pair]
    marginals.cells[: (stop - start) * (length + 1)] = CELL(0.0)
    cell = -1
    scale = factor / WHOLE
    for k in range(marginals.slots * start, marginals.slots * stop):
        entry = np.int64(marginals.entries[k])
        if entry == 0:
            break
        cell += entry >> 16
        marginals.cells[cell] = CELL(scale * (entry & 0xFFFF))
    return stop - start, length


@njit_inline
def load_sums(sides, pair, marginals):
    """Set `cells` to a pair's posteriors, summed over all samples. Returns word counts like `load_pair`."""
    return load_pair(sides.emitted_offset, sides.conditioning_offset, pair, np.float64(marginals.samples[0]), marginals)


@njit
def store_sums(sides, pair, samples, marginals):
    """Store the means `cells` / `samples` of a pair, or only the largest means if not all fit."""
    start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
    size = (stop - start) * (sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair] + 1)
    first, end = marginals.slots * start, marginals.slots * stop
    lowest = CELL(samples * (_NEGLIGIBLE if size > end - first else 0.5 / WHOLE))
    kept = 0
    for k in range(size):
        marginals.kept[kept] = k
        kept += marginals.cells[k] >= lowest
    while kept > end - first:
        lowest *= CELL(1.5)
        candidates, kept = kept, 0
        for k in range(candidates):
            marginals.kept[kept] = marginals.kept[k]
            kept += marginals.cells[marginals.kept[k]] >= lowest
    before = np.int64(-1)
    scale = WHOLE / samples
    for k in range(kept):
        cell = np.int64(marginals.kept[k])
        while cell - before > 0xFFFF and first < end:
            marginals.entries[first] = 0xFFFF << 16
            before += 0xFFFF
            first += 1
        if first < end:
            mass = min(np.int64(marginals.cells[cell] * scale + 0.5), WHOLE)
            marginals.entries[first] = np.uint32((cell - before) << 16 | mass)
            before = cell
            first += 1
    if first < end:
        marginals.entries[first] = 0


@njit
def add_marginals(sides: Sides, total: Marginals, added: Marginals) -> None:
    """Add the samples `added` of other chains to `total`. Rounding depends on the order of the additions."""
    samples = total.samples[0] + added.samples[0]
    for pair in range(len(sides.emitted_offset) - 1):
        load_sums(sides, pair, total)
        words, length = load_sums(sides, pair, added)
        for k in range(words * (length + 1)):
            total.cells[k] += added.cells[k]
        store_sums(sides, pair, samples, total)
    total.samples[0] = samples


@njit_inline
def add_conditional(marginals, first, weight, number):
    """Add the probabilities of `number` cells instead of a draw, to reduce variance (Rao-Blackwell)."""
    total, below = weight[number - 1], 0.0
    for k in range(number):
        marginals.cells[first + k] += CELL((weight[k] - below) / total)
        below = weight[k]


def pair_posteriors(sides: Sides, pair: int, marginals: Marginals) -> NDArray[np.float32]:
    """Return the link posteriors of a pair, float32[emitted words, conditioning words]."""
    words, length = load_pair(sides.emitted_offset, sides.conditioning_offset, pair, 1.0, marginals)
    posteriors = marginals.cells[: words * (length + 1)].reshape(words, length + 1)
    return posteriors[:, 1:].copy()


@njit
def _decode(sides, marginals, by_half, links, posterior):
    for pair in range(len(sides.emitted_offset) - 1):
        _, length = load_pair(sides.emitted_offset, sides.conditioning_offset, pair, 1.0, marginals)
        row = 0
        for g in range(sides.emitted_offset[pair], sides.emitted_offset[pair + 1]):
            best = UNLINKED
            max_cell = np.float32(0.0)
            for i in range(length):
                if marginals.cells[row + 1 + i] > max_cell:
                    best = i
                    max_cell = marginals.cells[row + 1 + i]
            unlinked = marginals.cells[row]
            if best == UNLINKED or unlinked > (np.float32(0.5) if by_half else max_cell):
                links[g] = UNLINKED
                posterior[g] = unlinked
            else:
                links[g] = best
                posterior[g] = max_cell
            row += length + 1


def decode(sides: Sides, marginals: Marginals, by_half: bool = False) -> DirectionLinks:
    """Return the most probable link of each emitted word.

    A word without stored posteriors of links is unlinked. `by_half`: other words are unlinked only with a probability
    above 1/2.
    """
    links = np.zeros(len(sides.emitted), np.int16)
    posterior = np.zeros(len(links), np.float32)
    _decode(sides, marginals, by_half, links, posterior)
    return DirectionLinks(links, posterior)


@njit_inline
def _load_both(source_offset, target_offset, pair, forward, backward):
    load_pair(target_offset, source_offset, pair, 1.0, forward)
    return load_pair(source_offset, target_offset, pair, 1.0, backward)


@njit_inline
def _mean_at(forward, backward, height, width, s, t):
    # Cells are ordered by emitted word: by target word in `forward`, by source word in `backward`.
    target_probability = forward.cells[t * (height + 1) + s + 1]
    source_probability = backward.cells[s * (width + 1) + t + 1]
    return np.float32((target_probability + source_probability) / 2)


@njit
def _link_means(source_offset, target_offset, forward, backward, links, means):
    for pair in range(len(source_offset) - 1):
        height, width = _load_both(source_offset, target_offset, pair, forward, backward)
        for k in range(links.offset[pair], links.offset[pair + 1]):
            s, t = np.int64(links.source[k]), np.int64(links.target[k])
            means[k] = _mean_at(forward, backward, height, width, s, t)


def mean_posterior(links: LinkList, source: Side, target: Side, marginals: Sequence[Marginals]) -> NDArray[np.float32]:
    """Return the mean of both directions' posteriors for each link, float32[L]."""
    means = np.zeros(len(links.source), np.float32)
    _link_means(source.offset, target.offset, marginals[0], marginals[1], links, means)
    return means


class Thresholds(NamedTuple):
    """Mean-posterior thresholds: `likely` for links, `beside` for adjacent links of unlinked words."""

    likely: float
    beside: float


FIXED = Thresholds(likely=0.35, beside=0.2)
"""Thresholds of stores. The best `likely` is half of the highest F-score [Lewis 1995]."""


@njit_inline
def _is_likely(work, height, width, s, t, likely):
    return 0 <= s < height and 0 <= t < width and work.cells[s * width + t] > likely


@njit_inline
def _grows(work, height, width, s, t, likely, beside):
    if work.cells[s * width + t] <= beside or not (work.source_free[s] or work.target_free[t]):
        return False
    if _is_likely(work, height, width, s - 1, t, likely) or _is_likely(work, height, width, s + 1, t, likely):
        return True
    return _is_likely(work, height, width, s, t - 1, likely) or _is_likely(work, height, width, s, t + 1, likely)


@njit
def _sum_by_mean(source_offset, target_offset, forward, backward, number, total):
    for pair in range(len(source_offset) - 1):
        height, width = _load_both(source_offset, target_offset, pair, forward, backward)
        for s in range(height):
            for t in range(width):
                mean = _mean_at(forward, backward, height, width, s, t)
                step = min(np.int64(mean * _STEPS), _STEPS - 1)
                number[step] += 1
                total[step] += mean


def expected_thresholds(source: Side, target: Side, marginals: Sequence[Marginals]) -> Thresholds:
    """Return thresholds. `likely` >= `_MIN_LIKELY` maximizes the expected F-score of mean posteriors."""
    number, total = np.zeros(_STEPS, np.int64), np.zeros(_STEPS)
    _sum_by_mean(source.offset, target.offset, marginals[0], marginals[1], number, total)
    min_step = round(_MIN_LIKELY * _STEPS)
    # Number of links above each threshold, and expected number of correct links among them.
    above, correct = np.cumsum(number[::-1])[::-1][min_step:], np.cumsum(total[::-1])[::-1][min_step:]
    likely = (min_step + int(np.argmax(2 * correct / np.maximum(above + total.sum(), 1e-9)))) / _STEPS
    return Thresholds(likely, BESIDE_RATIO * likely)


@njit
def _decode_mean(source_offset, target_offset, forward, backward, likely, beside, work, links):
    written = 0
    for pair in range(len(source_offset) - 1):
        height, width = _load_both(source_offset, target_offset, pair, forward, backward)
        work.source_free[:height] = 1
        work.target_free[:width] = 1
        for s in range(height):
            for t in range(width):
                work.cells[s * width + t] = _mean_at(forward, backward, height, width, s, t)
                if _is_likely(work, height, width, s, t, likely):
                    work.source_free[s] = 0
                    work.target_free[t] = 0
        for s in range(height):
            for t in range(width):
                is_linked = _is_likely(work, height, width, s, t, likely)
                if is_linked or _grows(work, height, width, s, t, likely, beside):
                    links.source[written] = s
                    links.target[written] = t
                    written += 1
        links.offset[pair + 1] = written


def decode_mean(source: Side, target: Side, marginals: Sequence[Marginals], thresholds: Thresholds = FIXED) -> LinkList:
    """Decode mean posteriors: links above `likely`, and adjacent links of unlinked words above `beside`."""
    # The posteriors of a word sum to at most 1 in each direction, up to rounding. This bounds the number of links.
    max_links = int((len(source.words) + len(target.words)) / (1.9 * thresholds.beside)) + 1
    links, work = allocate_links(max_links, source.offset, target.offset, np.float32)
    _decode_mean(source.offset, target.offset, marginals[0], marginals[1], *thresholds, work, links)
    return trim(links)


def join_directions(
    symmetrization: str,
    decoded: Sequence[NDArray[np.int16]],
    marginals: Sequence[Marginals],
    source: Side,
    target: Side,
    thresholds: Thresholds | None = None,
) -> LinkList:
    """Combine both directions. Raises `AlignmentInputError` for an unknown symmetrization.

    `thresholds` apply to `EXPECTED` and by default maximize the expected F-score. `decoded` has the links of both
    directions, which `EXPECTED` and `POSTERIOR` do not use.
    """
    if symmetrization == EXPECTED:
        return decode_mean(source, target, marginals, thresholds or expected_thresholds(source, target, marginals))
    if symmetrization == POSTERIOR:
        return decode_mean(source, target, marginals)
    if symmetrization not in SYMMETRIZATIONS:
        expected = ", ".join(SYMMETRIZATIONS)
        raise AlignmentInputError(f"unknown symmetrization {symmetrization!r}: expected {expected}")
    return symmetrize(symmetrization, decoded[0], decoded[1], source.offset, target.offset)


class LinkSamples(NamedTuple):
    """Sampled or expected link counts of all C cells (source, target) of the pairs, in row-major order."""

    # float32[C]: number of samples in which the words are linked.
    links: NDArray[np.float32]
    # float32[C]: number of samples with an implied link of an unlinked word (`itg.summaries.add_links`).
    implied: NDArray[np.float32]
    samples: int

    def joined(self, other: "LinkSamples") -> "LinkSamples":
        """Return these samples together with the samples of another chain."""
        return LinkSamples(self.links + other.links, self.implied + other.implied, self.samples + other.samples)


def decode_links(
    samples: LinkSamples, source: Side, target: Side, *, implied: bool
) -> tuple[LinkList, NDArray[np.float32]]:
    """Return links with posteriors above 1/2, and the posteriors. `implied` includes implied links."""
    posterior = samples.links + samples.implied if implied else samples.links
    posterior = posterior / np.float32(max(samples.samples, 1))
    heights, widths = np.diff(source.offset), np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(heights * widths)])
    cells = np.flatnonzero(posterior > _LIKELY)
    pairs = np.searchsorted(cell_offset, cells, "right") - 1
    rows, columns = np.divmod(cells - cell_offset[pairs], np.maximum(widths[pairs], 1))
    offset = np.searchsorted(cells, cell_offset).astype(np.int64)
    return LinkList(rows.astype(np.int16), columns.astype(np.int16), offset), posterior[cells]


def link_posteriors(samples: LinkSamples, links: LinkList, source: Side, target: Side) -> NDArray[np.float32]:
    """Return the posteriors of `links`, float32[L]. They include `samples.implied`."""
    widths = np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(source.offset) * widths)])
    pairs = np.repeat(np.arange(len(widths)), np.diff(links.offset))
    cells = cell_offset[pairs] + links.source.astype(np.int64) * widths[pairs] + links.target
    posterior: NDArray[np.float32] = (samples.links + samples.implied)[cells] / np.float32(max(samples.samples, 1))
    return posterior
