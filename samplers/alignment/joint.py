"""What a model of both directions at once does: samples of whole alignments, and the links that they make likely."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.prior_counts import PriorCounts
from hierogram.samplers.alignment.symmetrization import LinkList

LIKELY = 0.5
"""Links whose posterior is above are decoded; among one-to-one links no two of them share a word."""


class LinkSamples(NamedTuple):
    """How many samples have a link at each (source, target) position, pair after pair, row by row: `links` float32[C];
    `implied` float32[C] those of words without a link whose neighbours imply one. `samples`: how many there are.
    """

    links: NDArray[np.float32]
    implied: NDArray[np.float32]
    samples: int

    def joined(self, other: "LinkSamples") -> "LinkSamples":
        """The samples of both chains."""
        return LinkSamples(self.links + other.links, self.implied + other.implied, self.samples + other.samples)


class JointSampler(Protocol):
    """The sampler of a corpus under a model."""

    def sample(
        self, key: int, links: LinkList, posterior: NDArray[np.float32], report: Callable[[], None] | None = None
    ) -> LinkSamples:
        """All sweeps of one chain from links and their posteriors float32[L] on; `report` is called after each sweep.

        Several threads may ask at once.
        """


Prepare = Callable[[Side, Side, AlignerOptions, Sequence[PriorCounts | None]], JointSampler]
"""Makes the sampler of source and target sentences, beside counts of other pairs, forward and backward, if there are
any; raises `AlignmentInputError`."""


def decode_links(
    samples: LinkSamples, source: Side, target: Side, *, implied: bool
) -> tuple[LinkList, NDArray[np.float32]]:
    """The likely links and their posteriors float32[L]; with `implied` also those that chunks imply."""
    posterior = samples.links + samples.implied if implied else samples.links
    posterior = posterior / np.float32(max(samples.samples, 1))
    heights, widths = np.diff(source.offset), np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(heights * widths)])
    cells = np.flatnonzero(posterior > LIKELY)
    pairs = np.searchsorted(cell_offset, cells, "right") - 1
    rows, columns = np.divmod(cells - cell_offset[pairs], np.maximum(widths[pairs], 1))
    offset = np.searchsorted(cells, cell_offset).astype(np.int64)
    return LinkList(rows.astype(np.int16), columns.astype(np.int16), offset), posterior[cells]


def posterior_of(samples: LinkSamples, links: LinkList, source: Side, target: Side) -> NDArray[np.float32]:
    """The posteriors float32[L] of links, those that chunks imply included."""
    widths = np.diff(target.offset)
    cell_offset = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(source.offset) * widths)])
    pairs = np.repeat(np.arange(len(widths)), np.diff(links.offset))
    cells = cell_offset[pairs] + links.source.astype(np.int64) * widths[pairs] + links.target
    posterior: NDArray[np.float32] = (samples.links + samples.implied)[cells] / np.float32(max(samples.samples, 1))
    return posterior
