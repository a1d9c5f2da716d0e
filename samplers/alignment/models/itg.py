"""Joint ITG aligners of both directions: sampled derivations [BC10], or randomized pruning [BPK09].

Both start from given links, because chains from Model 1 need many more sweeps to reach equally probable derivations.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Side
from hierogram.samplers.alignment.marginals import LinkSamples
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.alignment.orthography import similarities
from hierogram.samplers.alignment.prior_counts import PriorCounts
from hierogram.samplers.alignment.symmetrization import LinkList, one_to_one
from hierogram.samplers.charts.pairs import ANY, PairWords, Rules, make_rules
from hierogram.samplers.charts.pruning.chain import PruningKernel, run_chain, weighted_mean
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.settings import FLAT
from hierogram.samplers.itg.batch import ItgBatch, make_batch
from hierogram.samplers.itg.model import ItgSettings, Model1, train_model1
from hierogram.samplers.itg.sampler import ItgKernel, ItgPlan
from hierogram.samplers.itg.summaries import add_links

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
        """Run one chain from the one-to-one links of highest `posterior` among `links`."""
        batch = self._batch
        first = one_to_one(links, posterior, batch.source_offset)
        kernel = ItgKernel(batch, SETTINGS, FLAT, self._model1)
        state = kernel.init(key, first)
        linked, implied = np.zeros((2, len(batch.types)), np.float32)
        samples = 0
        for sweep in range(1, self._options.sweeps + 1):
            state, _ = kernel.step(key, state, ItgPlan(sweep, np.full(batch.size, sweep)))
            if self._options.is_sampled(sweep):
                add_links(batch, state.derivations, linked, implied)
                samples += 1
            if report is not None:
                report()
        return LinkSamples(linked, implied, samples)


def count_link_uses(batch: ItgBatch, prior_counts: Sequence[PriorCounts]) -> NDArray[np.float64]:
    """Return links of other pairs by word-pair type, float64[T], as means of both directions."""
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


_X1, _X2 = -1, -2
_ITG_SIDES: list[tuple[list[int], list[int]]] = [
    ([ANY], [ANY]), ([ANY], []), ([], [ANY]), ([_X1, _X2], [_X1, _X2]), ([_X1, _X2], [_X2, _X1]),
]  # fmt: skip
_MAX_EDGES = 1 << 22
"""Maximum number of edges under a mask. A pair that needs more edges keeps its given one-to-one links."""


def itg_rules(weights: Sequence[float] | NDArray[np.float64] = (1, 1, 1, 0.4, 0.1)) -> Rules:
    """Return an ITG with the weights of five rules: f/e, f/ε, ε/e, [X X] and ⟨X X⟩, linear."""
    return make_rules(_ITG_SIDES, np.asarray(weights, np.float64), empty_sides=True)


def slice_pair(batch: ItgBatch, pair: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return a pair's source words int32[n], target words int32[m], and word-pair types int32[n, m]."""
    source = batch.source[batch.source_offset[pair] : batch.source_offset[pair + 1]]
    target = batch.target[batch.target_offset[pair] : batch.target_offset[pair + 1]]
    types = batch.types[batch.cell_offset[pair] : batch.cell_offset[pair + 1]]
    return source, target, types.reshape(len(source), len(target))


class LinkedPairs(NamedTuple):
    """Sentence pairs, their Model 1, and one-to-one `links` (source, target) of each pair, int32[L, 2].

    `type_links` float64[T], `source_links` float64[Vf] and `target_links` float64[Ve] are the numbers of links of each
    word-pair type, source word and target word.
    """

    batch: ItgBatch
    model1: Model1
    links: list[NDArray[np.int32]]
    type_links: NDArray[np.float64]
    source_links: NDArray[np.float64]
    target_links: NDArray[np.float64]

    @classmethod
    def from_links(cls, batch: ItgBatch, model1: Model1, links: list[NDArray[np.int32]]) -> Self:
        """Count the links of each pair, given as source and target positions int32[L, 2]."""
        counts = np.zeros(batch.emitted_types), np.zeros(batch.source_words), np.zeros(batch.target_words)
        for pair, (i, x) in enumerate(pair_links.T for pair_links in links):
            source, target, types = slice_pair(batch, pair)
            for count, linked in zip(counts, (types[i, x], source[i], target[x]), strict=True):
                np.add.at(count, linked, 1)
        return cls(batch, model1, links, *counts)

    def model1_probabilities(self, pair: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return Model 1's P(e_x | f_i) float64[n + 1, m] and P(f_i | e_x) float64[n, m + 1], empty word last."""
        model, (source, target, types) = self.model1, slice_pair(self.batch, pair)
        return (
            np.vstack([model.target[types], model.null_target[target]]),
            np.column_stack([model.source[types], model.null_source[source]]),
        )

    def words(self, pair: int) -> PairWords:
        """Return a pair with emissions [P(e|f) P(f|e)]^½, and scaling factors of its words.

        P is the relative frequency of links, with one more link of each word, which Model 1 distributes. An unlinked
        word has 0.1 times the square root of its probability given the empty word in Model 1.
        """
        target, source = self.model1_probabilities(pair)
        sources, targets, types = slice_pair(self.batch, pair)
        forward = (self.type_links[types] + target[:-1]) / (self.source_links[sources][:, None] + 1)
        backward = (self.type_links[types] + source[:, :-1]) / (self.target_links[targets] + 1)
        pairs = np.sqrt(forward * backward)
        source_words, target_words = np.sqrt(source[:, -1]) * 0.1, np.sqrt(target[-1]) * 0.1
        return PairWords(
            np.zeros(len(source_words), np.int32),
            np.zeros(len(target_words), np.int32),
            pairs,
            source_words,
            target_words,
            2 / np.sqrt(np.maximum(pairs.max(axis=1), source_words**2)),
            2 / np.sqrt(np.maximum(pairs.max(axis=0), target_words**2)),
        )


class PrunedItgAligner(ItgAligner):
    """Aligner of one corpus by randomized pruning, with `options.sweeps` masks per pair."""

    def sample(
        self, key: int, links: LinkList, posterior: NDArray[np.float32], report: Callable[[], None] | None = None
    ) -> LinkSamples:
        """Return expected links. A pair whose chart cannot be summed keeps its one-to-one links instead."""
        batch, masks = self._batch, self._options.sweeps
        chosen = one_to_one(links, posterior, batch.source_offset)
        by_pair = [
            np.column_stack([np.flatnonzero(targets >= 0), targets[targets >= 0]]).astype(np.int32)
            for targets in np.split(chosen, batch.source_offset[1:-1])
        ]
        linked = LinkedPairs.from_links(batch, self._model1, by_pair)
        expected = np.zeros(len(batch.types), np.float32)
        rules = itg_rules()
        for pair, variables in enumerate(by_pair):
            cells = expected[batch.cell_offset[pair] : batch.cell_offset[pair + 1]]
            if len(cells):
                chart = PairChart(rules, linked.words(pair), variables, max_edges=_MAX_EDGES)
                try:
                    # Halve the key, because it is unsigned and the streams of masks have signed keys.
                    steps = run_chain(PruningKernel(chart, int(batch.pairs[pair])), masks, key >> 1)
                    cells[:] = weighted_mean(steps)[: len(cells)]
                except SamplerError:
                    cells.reshape(-1, len(chart.words.target))[tuple(variables.T)] = 1
            # Report all sweeps, although pairs are processed one after another.
            for _ in range(pair * masks // batch.size, (pair + 1) * masks // batch.size):
                if report is not None:
                    report()
        return LinkSamples(expected, np.zeros(len(batch.types), np.float32), 1)
