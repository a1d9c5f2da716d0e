"""Posteriors of sampled links, of one direction or of both, and the links decoded from them [SA16 §4.5].

Both directions are combined by averaging their posteriors (Liang, Taskar & Klein 2006) or by symmetrization.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side, Sides
from hierogram.samplers.alignment.chain import UNLINKED
from hierogram.samplers.alignment.options import EXPECTED, POSTERIOR
from hierogram.samplers.alignment.symmetrization import LinkList, symmetrize
from hierogram.samplers.compiled.jit import njit, njit_inline

CELL = np.float32
LIKELY = 0.5
"""Decoding threshold for one-to-one links: no two links above it share a word."""
LIKELY_IN_MEAN = 0.35
"""Decoding threshold for the mean posterior of both directions: half of an F-score of .7 [Lewis 1995]."""
LIKELY_BESIDE = 0.2
"""Lower threshold for a word without a decoded link, next to a decoded link."""
BESIDE = 0.8
"""Expected F-score: factor on the posterior of links next to a decoded one, which are right less often."""
_STEPS = 1000
"""Number of thresholds among which the expected F-score is maximized."""
_MIN_LIKELY = 0.1


class Marginals(NamedTuple):
    """Sums over samples of the posterior probabilities of links (linear)."""

    # float32[C]: indexed by (emitted, conditioning) position of each pair.
    cells: NDArray[np.float32]
    # float32[N]: posterior of an unlinked or collocated word.
    unlinked: NDArray[np.float32]
    # int64[1].
    samples: NDArray[np.int64]


class DirectionLinks(NamedTuple):
    """Links of one direction: `links` int16[N] (conditioning position, or -1), and their posteriors float32[N]."""

    links: NDArray[np.int16]
    posterior: NDArray[np.float32]


def empty_marginals(sides: Sides) -> Marginals:
    """Return sums over no samples."""
    return Marginals(
        np.zeros(int(sides.cell_offset[-1]), np.float32),
        np.zeros(len(sides.emitted), np.float32),
        np.zeros(1, np.int64),
    )


@njit
def add_marginals(total: Marginals, added: Marginals) -> None:
    """Add the sums of another chain, in place. Add chains in a fixed order, since float sums depend on it."""
    for k in range(len(total.cells)):
        total.cells[k] += added.cells[k]
    for g in range(len(total.unlinked)):
        total.unlinked[g] += added.unlinked[g]
    total.samples[0] += added.samples[0]


@njit_inline
def add_sample(marginals, cell, g, i):
    """Count the current link of emitted position g: position i or UNLINKED."""
    if i == UNLINKED:
        marginals.unlinked[g] += CELL(1.0)
    else:
        marginals.cells[cell + i] += CELL(1.0)


@njit_inline
def add_conditional(marginals, cell, g, scratch, number):
    """Add the conditional distribution of a link, which has less variance than the draw [Rao-Blackwell]."""
    total = scratch.weight[number - 1]
    below = 0.0
    for k in range(number):
        share = CELL((scratch.weight[k] - below) / total)
        below = scratch.weight[k]
        if scratch.candidate[k] == UNLINKED:
            marginals.unlinked[g] += share
        else:
            marginals.cells[cell + scratch.candidate[k]] += share


@njit
def _decode(sides, marginals, by_half, links, posterior):
    samples = marginals.samples[0]
    for pair in range(len(sides.emitted_offset) - 1):
        start = sides.emitted_offset[pair]
        length = sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair]
        for g in range(start, sides.emitted_offset[pair + 1]):
            cell = sides.cell_offset[pair] + (g - start) * length
            best = UNLINKED
            max_cell = np.float32(0.0)
            for i in range(length):
                if marginals.cells[cell + i] > max_cell:
                    best = i
                    max_cell = marginals.cells[cell + i]
            unlinked = marginals.unlinked[g]
            if best == UNLINKED or (2 * unlinked > samples if by_half else unlinked > max_cell):
                links[g] = UNLINKED
                posterior[g] = unlinked / samples
            else:
                links[g] = best
                posterior[g] = max_cell / samples


def decode(sides: Sides, marginals: Marginals, by_half: bool = False) -> DirectionLinks:
    """Return the most probable position of each word, or -1; with `by_half`, -1 if it is unlinked in most samples."""
    links = np.zeros(len(sides.emitted), np.int16)
    posterior = np.zeros(len(links), np.float32)
    _decode(sides, marginals, by_half, links, posterior)
    return DirectionLinks(links, posterior)


def mean_posterior(links: LinkList, source: Side, target: Side, marginals: Sequence[Marginals]) -> NDArray[np.float32]:
    """Return each link's posterior, float32[L]: the mean over both directions."""
    numbers = np.diff(links.offset)
    s, t = links.source.astype(np.int64), links.target.astype(np.int64)
    widths = np.diff(source.offset), np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths[0] * widths[1])])
    cells = np.repeat(cell_offset[:-1], numbers)
    forward = marginals[0].cells[cells + t * np.repeat(widths[0], numbers) + s] / marginals[0].samples[0]
    backward = marginals[1].cells[cells + s * np.repeat(widths[1], numbers) + t] / marginals[1].samples[0]
    mean: NDArray[np.float32] = ((forward + backward) / 2).astype(np.float32)
    return mean


class Thresholds(NamedTuple):
    """Thresholds of mean posteriors: for any link, and for a link next to one that was decoded."""

    likely: float
    beside: float


FIXED = Thresholds(LIKELY_IN_MEAN, LIKELY_BESIDE)
"""Thresholds of stores, whose grammars were measured with them: they keep more links than human annotators."""


class _Means(NamedTuple):
    """One pair's `mean` over both directions, float32[source words x target words], and unlinked words, uint8."""

    mean: NDArray[np.float32]
    source_free: NDArray[np.uint8]
    target_free: NDArray[np.uint8]


@njit_inline
def _is_likely(means, height, width, s, t, likely):
    return 0 <= s < height and 0 <= t < width and means.mean[s * width + t] > likely


@njit_inline
def _grows(means, height, width, s, t, likely, beside):
    """Return whether one word of the link is unlinked and the other has an adjacent likely link."""
    if means.mean[s * width + t] <= beside or not (means.source_free[s] or means.target_free[t]):
        return False
    if _is_likely(means, height, width, s - 1, t, likely) or _is_likely(means, height, width, s + 1, t, likely):
        return True
    return _is_likely(means, height, width, s, t - 1, likely) or _is_likely(means, height, width, s, t + 1, likely)


@njit_inline
def _mean_at(forward, backward, cell, height, width, s, t):
    # Each direction's cells are ordered by its emitted words.
    target_probability = forward.cells[cell + t * height + s] / forward.samples[0]
    source_probability = backward.cells[cell + s * width + t] / backward.samples[0]
    return np.float32((target_probability + source_probability) / 2)


@njit
def _sum_by_mean(source_offset, target_offset, forward, backward, number, total):
    cell = 0
    for pair in range(len(source_offset) - 1):
        height = source_offset[pair + 1] - source_offset[pair]
        width = target_offset[pair + 1] - target_offset[pair]
        for s in range(height):
            for t in range(width):
                mean = _mean_at(forward, backward, cell, height, width, s, t)
                step = min(np.int64(mean * _STEPS), _STEPS - 1)
                number[step] += 1
                total[step] += mean
        cell += height * width


def expected_thresholds(source: Side, target: Side, marginals: Sequence[Marginals]) -> Thresholds:
    """Return the threshold that maximizes the expected F-score of all pairs' links, if each mean is a probability."""
    number, total = np.zeros(_STEPS, np.int64), np.zeros(_STEPS)
    _sum_by_mean(source.offset, target.offset, marginals[0], marginals[1], number, total)
    min_step = round(_MIN_LIKELY * _STEPS)
    # Number of links above each threshold, and the expected number of correct ones.
    above, right = np.cumsum(number[::-1])[::-1][min_step:], np.cumsum(total[::-1])[::-1][min_step:]
    likely = (min_step + int(np.argmax(2 * right / np.maximum(above + total.sum(), 1e-9)))) / _STEPS
    return Thresholds(likely, BESIDE * likely)


@njit
def _decode_mean(source_offset, target_offset, forward, backward, likely, beside, means, links):
    written = 0
    cell = 0
    for pair in range(len(source_offset) - 1):
        height = source_offset[pair + 1] - source_offset[pair]
        width = target_offset[pair + 1] - target_offset[pair]
        means.source_free[:height] = 1
        means.target_free[:width] = 1
        for s in range(height):
            for t in range(width):
                means.mean[s * width + t] = _mean_at(forward, backward, cell, height, width, s, t)
                if _is_likely(means, height, width, s, t, likely):
                    means.source_free[s] = 0
                    means.target_free[t] = 0
        for s in range(height):
            for t in range(width):
                is_linked = _is_likely(means, height, width, s, t, likely)
                if is_linked or _grows(means, height, width, s, t, likely, beside):
                    links.source[written] = s
                    links.target[written] = t
                    written += 1
        cell += height * width
        links.offset[pair + 1] = written


def decode_mean(source: Side, target: Side, marginals: Sequence[Marginals], thresholds: Thresholds = FIXED) -> LinkList:
    """Decode the links that are likely in the mean over both directions, and adjacent ones.

    An adjacent link needs a word without a likely link, and a likely link of the other word next to it.
    """
    # A word's posteriors sum to at most 1 in either direction, which bounds the number of links.
    max_links = int((len(source.words) + len(target.words)) / (2 * thresholds.beside)) + 1
    output = LinkList(
        np.zeros(max_links, np.int16), np.zeros(max_links, np.int16), np.zeros(len(source.offset), np.int64)
    )
    heights, widths = np.diff(source.offset), np.diff(target.offset)
    means = _Means(
        np.zeros(int((heights * widths).max(initial=0)), np.float32),
        np.zeros(int(heights.max(initial=0)), np.uint8),
        np.zeros(int(widths.max(initial=0)), np.uint8),
    )
    _decode_mean(source.offset, target.offset, marginals[0], marginals[1], *thresholds, means, output)
    links = output.offset[-1]
    return LinkList(output.source[:links].copy(), output.target[:links].copy(), output.offset)


def join_directions(
    symmetrization: str,
    decoded: Sequence[DirectionLinks],
    marginals: Sequence[Marginals],
    source: Side,
    target: Side,
    thresholds: Thresholds | None = None,
) -> LinkList:
    """Combine both directions' links by a symmetrization. Raises `AlignmentInputError`.

    `thresholds` replace those that maximize the expected F-score of these pairs.
    """
    if symmetrization == EXPECTED:
        return decode_mean(source, target, marginals, thresholds or expected_thresholds(source, target, marginals))
    if symmetrization == POSTERIOR:
        return decode_mean(source, target, marginals)
    return symmetrize(symmetrization, decoded[0].links, decoded[1].links, source.offset, target.offset)


class LinkSamples(NamedTuple):
    """Number of samples with a link at each (source, target) position, row by row.

    `links` float32[C]; `implied` float32[C] counts links of unlinked words that their neighbors imply.
    """

    links: NDArray[np.float32]
    implied: NDArray[np.float32]
    samples: int

    def joined(self, other: "LinkSamples") -> "LinkSamples":
        """Return the samples of both chains."""
        return LinkSamples(self.links + other.links, self.implied + other.implied, self.samples + other.samples)


def decode_links(
    samples: LinkSamples, source: Side, target: Side, *, implied: bool
) -> tuple[LinkList, NDArray[np.float32]]:
    """Return the likely links and their posteriors float32[L]; with `implied`, also links implied by chunks."""
    posterior = samples.links + samples.implied if implied else samples.links
    posterior = posterior / np.float32(max(samples.samples, 1))
    heights, widths = np.diff(source.offset), np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(heights * widths)])
    cells = np.flatnonzero(posterior > LIKELY)
    pairs = np.searchsorted(cell_offset, cells, "right") - 1
    rows, columns = np.divmod(cells - cell_offset[pairs], np.maximum(widths[pairs], 1))
    offset = np.searchsorted(cells, cell_offset).astype(np.int64)
    return LinkList(rows.astype(np.int16), columns.astype(np.int16), offset), posterior[cells]


def link_posteriors(samples: LinkSamples, links: LinkList, source: Side, target: Side) -> NDArray[np.float32]:
    """Return the posteriors float32[L] of links, including those implied by chunks."""
    widths = np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(source.offset) * widths)])
    pairs = np.repeat(np.arange(len(widths)), np.diff(links.offset))
    cells = cell_offset[pairs] + links.source.astype(np.int64) * widths[pairs] + links.target
    posterior: NDArray[np.float32] = (samples.links + samples.implied)[cells] / np.float32(max(samples.samples, 1))
    return posterior
