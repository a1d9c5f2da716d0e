"""ITG as an aligner, with expected links by randomized pruning of each pair's chart [BPK09].

A mask fixes some of the given one-to-one links. Emission probabilities depend on the given links and on Model 1.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.marginals import LinkSamples
from hierogram.samplers.alignment.models.itg import ItgAligner
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.charts.pairs import ANY, PairWords, Rules, make_rules
from hierogram.samplers.charts.pruning.chain import PruningKernel, run_chain, weighted_mean
from hierogram.samplers.charts.pruning.systems import PairSystem
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.model1 import Model1
from hierogram.samplers.itg.starts import one_to_one

_X1, _X2 = -1, -2
_ITG_SIDES: list[tuple[list[int], list[int]]] = [
    ([ANY], [ANY]), ([ANY], []), ([], [ANY]), ([_X1, _X2], [_X1, _X2]), ([_X1, _X2], [_X2, _X1]),
]  # fmt: skip
_MAX_EDGES = 1 << 22
"""Maximum number of edges under a mask. A pair that needs more edges keeps its given one-to-one links."""


def itg_rules(weights: Sequence[float] | NDArray[np.float64] = (1, 1, 1, 0.4, 0.1)) -> Rules:
    """Return an ITG with the weights of five rules: f/e, f/ε, ε/e, [X X] and ⟨X X⟩, linear."""
    return make_rules(_ITG_SIDES, np.asarray(weights, np.float64), empty_sides=True)


def words_of_pair(batch: ItgBatch, pair: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return source words int32[n], target words int32[m], and types of all word pairs int32[n, m]."""
    source = batch.source[batch.source_offset[pair] : batch.source_offset[pair + 1]]
    target = batch.target[batch.target_offset[pair] : batch.target_offset[pair + 1]]
    types = batch.types[batch.cell_offset[pair] : batch.cell_offset[pair + 1]]
    return source, target, types.reshape(len(source), len(target))


class LinkedPairs(NamedTuple):
    """Sentence pairs, their Model 1, and their one-to-one `links`.

    `type_links` has the number of links of each type of word pair. `source_links` and `target_links` have the number of
    links of each word.
    """

    batch: ItgBatch
    model1: Model1
    links: list[NDArray[np.int32]]
    type_links: NDArray[np.float64]
    source_links: NDArray[np.float64]
    target_links: NDArray[np.float64]

    @classmethod
    def from_links(cls, batch: ItgBatch, model1: Model1, links: list[NDArray[np.int32]]) -> Self:
        """Return the linked pairs with their link counts.

        `links` has one int32[L, 2] per pair: source and target position of each link.
        """
        counts = np.zeros(batch.emitted_types), np.zeros(batch.source_words), np.zeros(batch.target_words)
        for pair, (i, x) in enumerate(pair_links.T for pair_links in links):
            source, target, types = words_of_pair(batch, pair)
            for count, linked in zip(counts, (types[i, x], source[i], target[x]), strict=True):
                np.add.at(count, linked, 1)
        return cls(batch, model1, links, *counts)

    def model1_probabilities(self, pair: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return Model 1's P(e_x | f_i) float64[n + 1, m] and P(f_i | e_x) float64[n, m + 1], empty word last."""
        model, (source, target, types) = self.model1, words_of_pair(self.batch, pair)
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
        sources, targets, types = words_of_pair(self.batch, pair)
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
    """Aligner of one corpus by randomized pruning. `options.sweeps` is the number of masks per pair."""

    def sample(
        self, key: int, links: LinkList, posterior: NDArray[np.float32], report: Callable[[], None] | None = None
    ) -> LinkSamples:
        """Return expected links, averaged over masks that fix some of the most probable one-to-one links of `links`."""
        batch, masks = self._batch, self._options.sweeps
        chosen = one_to_one(links.source, links.target, posterior, links.offset, batch.source_offset)
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
                system = PairSystem(rules, linked.words(pair), variables, max_edges=_MAX_EDGES)
                try:
                    # Halve the key, because it is unsigned and the streams of masks have signed keys.
                    steps = run_chain(PruningKernel(system, int(batch.pairs[pair]), chains=2), masks, key >> 1)
                    cells[:] = weighted_mean(steps)[: len(cells)]
                except SamplerError:
                    cells.reshape(-1, len(system.words.target))[tuple(variables.T)] = 1
            for _ in range(pair * masks // batch.size, (pair + 1) * masks // batch.size):
                if report is not None:
                    report()
        return LinkSamples(expected, np.zeros(len(batch.types), np.float32), 1)
