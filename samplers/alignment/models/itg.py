"""ITG as an aligner: links of sampled derivations, both directions at once [BC10].

Chains start from given links, since chains from Model 1 need many more sweeps to reach equally probable derivations.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side
from hierogram.samplers.alignment.marginals import LinkSamples
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.orthography import similarities
from hierogram.samplers.alignment.prior_counts import PriorCounts
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings
from hierogram.samplers.itg.model1 import train_model1
from hierogram.samplers.itg.sampler import FLAT, build, make_plan
from hierogram.samplers.itg.starts import LINKS, one_to_one
from hierogram.samplers.itg.summaries import add_links, empty_links

SETTINGS = ItgSettings(
    slice_shape=0.1, long_shape=0.15, strengths=(30.0, 10.0, 10.0, 1000.0, 1000.0), sampled_strengths=False
)
"""Settings with a low strength of word pairs, which favors consistent translations across the corpus.

Strengths are not sampled: they would rise, since Model 1 was trained on the same corpus.
"""


class ItgAligner:
    """Aligner of one corpus. Its Model 1 includes link counts of other pairs if given. Thread-safe."""

    def __init__(
        self, source: Side, target: Side, options: AlignerOptions, prior_counts: Sequence[PriorCounts] = ()
    ) -> None:
        self._options = options
        self._batch = make_batch(source.words, source.offset, target.words, target.offset)
        batch = self._batch
        prior = count_link_uses(batch, prior_counts)
        if options.similarity > 0:
            alike = similarities(batch.type_source, source.vocabulary, batch.type_target, target.vocabulary)
            prior += options.similarity * alike
        self._model1 = train_model1(batch, prior)

    def sample(
        self, key: int, links: LinkList, posterior: NDArray[np.float32], report: Callable[[], None] | None = None
    ) -> LinkSamples:
        """Run all sweeps of one chain, from the most probable one-to-one links among `links`."""
        batch = self._batch
        first = one_to_one(links.source, links.target, posterior, links.offset, batch.source_offset)
        kernel = build(batch, SETTINGS, FLAT, self._model1)
        state = kernel.init(key, LINKS, first)
        sums = empty_links(batch)
        for sweep in range(1, self._options.sweeps + 1):
            state, _ = kernel.step(key, state, make_plan(batch, sweep))
            if self._options.is_sampled(sweep):
                add_links(batch, state.derivations, sums)
            if report is not None:
                report()
        return LinkSamples(sums.pairs, sums.chunks, int(sums.samples[0]))


def count_link_uses(batch: ItgBatch, prior_counts: Sequence[PriorCounts]) -> NDArray[np.float64]:
    """Count links of other pairs for each word-pair type, float64[T], as the mean of both directions."""
    uses = np.zeros(len(batch.type_source))
    types = batch.type_source.astype(np.int64) << 32 | batch.type_target
    order = np.argsort(types)
    for number, counts in enumerate(prior_counts):
        linked = counts.conditioning < len(counts.link_counts) - 1
        words = counts.conditioning[linked].astype(np.int64), counts.emitted[linked].astype(np.int64)
        pairs = words[0] << 32 | words[1] if number == 0 else words[1] << 32 | words[0]
        position = np.searchsorted(types, pairs, sorter=order)
        is_counted = position < len(types)
        is_counted[is_counted] = types[order[position[is_counted]]] == pairs[is_counted]
        uses[order[position[is_counted]]] += counts.counts[linked][is_counted] / len(prior_counts)
    return uses
