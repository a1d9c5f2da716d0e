"""Posterior probabilities of sampled links, and decoding [SA16 §4.5].

Both directions are combined by averaging their posteriors (Liang, Taskar & Klein 2006) or by symmetrization. Arguments
`marginals` and `decoded` for both directions are in the order forward (target words emitted), backward.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import DirectedBitext, Side
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.options import EXPECTED, POSTERIOR, SYMMETRIZATIONS
from hierogram.samplers.alignment.symmetrization import LinkList, allocate_links, symmetrize, trim
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.exceptions import AlignmentInputError

CELL = np.float32
WHOLE = 65520
"""Integer that represents probability 1: divisible by 1 to 10, so shares of few samples are exact."""
_MAX_ENTRIES = 8_000_000
"""Maximum number of entries of a corpus with more than `_MIN_SLOTS` entries per emitted word."""
_MIN_SLOTS, _MAX_SLOTS = 2, 8
"""Limits of the entries per emitted word. Larger corpora have sharper posteriors and need fewer."""
_NEGLIGIBLE = 0.001
"""If a pair has more cells than entries, lower probabilities are dropped."""
_MIN_JOINT_POSTERIOR = 0.5
"""Links of joint models are decoded above this posterior."""
BESIDE_RATIO = 0.8
"""Ratio of `beside` to `likely` in `expected_thresholds`."""
_THRESHOLDS = 1000
"""Number of thresholds from 0 to 1 among which `expected_thresholds` chooses."""
_MIN_LIKELY = 0.1
"""Minimum of `likely` in `expected_thresholds`."""


class Marginals(NamedTuple):
    """Mean posteriors of links over samples, linear. Only the largest posteriors of each pair are stored.

    `cells` is scratch memory for the posteriors of one pair, by emitted position. For each emitted position it has the
    probability of no link, then of a link to each conditioning position. In bhmm-z, whose words always have a link, the
    first cell is the probability of a collocation instead.
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


def empty_marginals(bitext: DirectedBitext) -> Marginals:
    """Return marginals without samples."""
    words = len(bitext.emitted)
    slots = min(max(_MAX_ENTRIES // max(words, 1), _MIN_SLOTS), _MAX_SLOTS)
    largest = int((np.diff(bitext.emitted_offset) * (np.diff(bitext.conditioning_offset) + 1)).max(initial=0))
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
def load_sums(bitext, pair, marginals):
    """Set `cells` to a pair's posteriors, summed over all samples. Returns word counts like `load_pair`."""
    return load_pair(
        bitext.emitted_offset, bitext.conditioning_offset, pair, np.float64(marginals.samples[0]), marginals
    )


@njit
def store_sums(bitext, pair, samples, marginals):
    """Store the means `cells` / `samples` of a pair, or only the largest ones if not all fit."""
    start, stop = bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]
    size = (stop - start) * (bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair] + 1)
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
def add_marginals(bitext: DirectedBitext, total: Marginals, added: Marginals) -> None:
    """Add the samples of other chains to `total`, in place. Rounding depends on the order of additions."""
    samples = total.samples[0] + added.samples[0]
    for pair in range(len(bitext.emitted_offset) - 1):
        load_sums(bitext, pair, total)
        words, length = load_sums(bitext, pair, added)
        for k in range(words * (length + 1)):
            total.cells[k] += added.cells[k]
        store_sums(bitext, pair, samples, total)
    total.samples[0] = samples


@njit_inline
def add_conditional(marginals, first, weight, number):
    """Add the probabilities of cells, given cumulative weights, instead of a draw (Rao-Blackwell)."""
    total, below = weight[number - 1], 0.0
    for k in range(number):
        marginals.cells[first + k] += CELL((weight[k] - below) / total)
        below = weight[k]


def pair_posteriors(bitext: DirectedBitext, pair: int, marginals: Marginals) -> NDArray[np.float32]:
    """Return the link posteriors of the pair with this index, float32[emitted words, conditioning words]."""
    words, length = load_pair(bitext.emitted_offset, bitext.conditioning_offset, pair, 1.0, marginals)
    posteriors = marginals.cells[: words * (length + 1)].reshape(words, length + 1)
    return posteriors[:, 1:].copy()


@njit
def _decode(bitext, marginals, by_half, links, posterior):
    for pair in range(len(bitext.emitted_offset) - 1):
        _, length = load_pair(bitext.emitted_offset, bitext.conditioning_offset, pair, 1.0, marginals)
        row = 0
        for g in range(bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]):
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


def decode(bitext: DirectedBitext, marginals: Marginals, by_half: bool = False) -> DirectionLinks:
    """Return the most probable link of each emitted word.

    A word without stored posteriors of links is unlinked. `by_half`: other words are unlinked only with a probability
    above 1/2.
    """
    links = np.zeros(len(bitext.emitted), np.int16)
    posterior = np.zeros(len(links), np.float32)
    _decode(bitext, marginals, by_half, links, posterior)
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
    """Return the mean of both directions' posteriors of each link, float32[L]."""
    means = np.zeros(len(links.source), np.float32)
    _link_means(source.offset, target.offset, marginals[0], marginals[1], links, means)
    return means


class Thresholds(NamedTuple):
    """Minimum mean posteriors: `likely` for links, `beside` for adjacent links of unlinked words."""

    likely: float
    beside: float


STORE_THRESHOLDS = Thresholds(likely=0.35, beside=0.2)
"""Thresholds in stores. The best `likely` is half of the highest F-score [Lewis 1995]."""


@njit_inline
def _is_likely(grid, height, width, s, t, likely):
    return 0 <= s < height and 0 <= t < width and grid.cells[s * width + t] > likely


@njit_inline
def _is_beside(grid, height, width, s, t, likely, beside):
    if grid.cells[s * width + t] <= beside or not (grid.source_free[s] or grid.target_free[t]):
        return False
    if _is_likely(grid, height, width, s - 1, t, likely) or _is_likely(grid, height, width, s + 1, t, likely):
        return True
    return _is_likely(grid, height, width, s, t - 1, likely) or _is_likely(grid, height, width, s, t + 1, likely)


@njit
def _sum_by_mean(source_offset, target_offset, forward, backward, number, total):
    for pair in range(len(source_offset) - 1):
        height, width = _load_both(source_offset, target_offset, pair, forward, backward)
        for s in range(height):
            for t in range(width):
                mean = _mean_at(forward, backward, height, width, s, t)
                step = min(np.int64(mean * _THRESHOLDS), _THRESHOLDS - 1)
                number[step] += 1
                total[step] += mean


def expected_thresholds(source: Side, target: Side, marginals: Sequence[Marginals]) -> Thresholds:
    """Return the thresholds with the highest expected F-score of links above `likely` >= `_MIN_LIKELY`."""
    number, total = np.zeros(_THRESHOLDS, np.int64), np.zeros(_THRESHOLDS)
    _sum_by_mean(source.offset, target.offset, marginals[0], marginals[1], number, total)
    min_step = round(_MIN_LIKELY * _THRESHOLDS)
    # Number of links above each threshold, and expected number of correct links among them.
    above, correct = np.cumsum(number[::-1])[::-1][min_step:], np.cumsum(total[::-1])[::-1][min_step:]
    likely = (min_step + int(np.argmax(2 * correct / np.maximum(above + total.sum(), 1e-9)))) / _THRESHOLDS
    return Thresholds(likely, BESIDE_RATIO * likely)


@njit
def _decode_mean(source_offset, target_offset, forward, backward, likely, beside, grid, links):
    written = 0
    for pair in range(len(source_offset) - 1):
        height, width = _load_both(source_offset, target_offset, pair, forward, backward)
        grid.source_free[:height] = 1
        grid.target_free[:width] = 1
        for s in range(height):
            for t in range(width):
                grid.cells[s * width + t] = _mean_at(forward, backward, height, width, s, t)
                if _is_likely(grid, height, width, s, t, likely):
                    grid.source_free[s] = 0
                    grid.target_free[t] = 0
        for s in range(height):
            for t in range(width):
                is_linked = _is_likely(grid, height, width, s, t, likely)
                if is_linked or _is_beside(grid, height, width, s, t, likely, beside):
                    links.source[written] = s
                    links.target[written] = t
                    written += 1
        links.offset[pair + 1] = written


def decode_mean(
    source: Side, target: Side, marginals: Sequence[Marginals], thresholds: Thresholds = STORE_THRESHOLDS
) -> LinkList:
    """Return the links whose mean posteriors pass the thresholds."""
    # The posteriors of a word sum to at most 1 in each direction, up to rounding. This bounds the number of links.
    max_links = int((len(source.words) + len(target.words)) / (1.9 * thresholds.beside)) + 1
    links, grid = allocate_links(max_links, source.offset, target.offset, np.float32)
    _decode_mean(source.offset, target.offset, marginals[0], marginals[1], *thresholds, grid, links)
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

    `EXPECTED` and `POSTERIOR` use only `marginals`, other symmetrizations use only the links `decoded`. `thresholds`
    apply to `EXPECTED`. By default they are `expected_thresholds`.
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
    """Link counts of all C word pairs, row by row of each sentence pair: sampled or expected."""

    # float32[C]: number of samples in which the words are linked.
    links: NDArray[np.float32]
    # float32[C]: number of samples in which the link of an unlinked word is implied (`itg.summaries.add_links`).
    implied: NDArray[np.float32]
    samples: int

    def joined(self, other: "LinkSamples") -> "LinkSamples":
        """Return these samples together with the samples of another chain."""
        return LinkSamples(self.links + other.links, self.implied + other.implied, self.samples + other.samples)


def _cell_layout(source: Side, target: Side) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the target length of each pair, and the index of its first cell in `LinkSamples`."""
    widths = np.diff(target.offset)
    return widths, np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(source.offset) * widths)])


def decode_links(
    samples: LinkSamples, source: Side, target: Side, *, implied: bool
) -> tuple[LinkList, NDArray[np.float32]]:
    """Return the links with posteriors above 1/2, and their posteriors. Implied links count if `implied`."""
    posterior = samples.links + samples.implied if implied else samples.links
    posterior = posterior / np.float32(max(samples.samples, 1))
    widths, cell_offset = _cell_layout(source, target)
    cells = np.flatnonzero(posterior > _MIN_JOINT_POSTERIOR)
    pairs = np.searchsorted(cell_offset, cells, "right") - 1
    rows, columns = np.divmod(cells - cell_offset[pairs], np.maximum(widths[pairs], 1))
    offset = np.searchsorted(cells, cell_offset).astype(np.int64)
    return LinkList(rows.astype(np.int16), columns.astype(np.int16), offset), posterior[cells]


def link_posteriors(samples: LinkSamples, links: LinkList, source: Side, target: Side) -> NDArray[np.float32]:
    """Return the posteriors of `links`, float32[L], including implied links."""
    widths, cell_offset = _cell_layout(source, target)
    pairs = np.repeat(np.arange(len(widths)), np.diff(links.offset))
    cells = cell_offset[pairs] + links.source.astype(np.int64) * widths[pairs] + links.target
    posterior: NDArray[np.float32] = (samples.links + samples.implied)[cells] / np.float32(max(samples.samples, 1))
    return posterior
