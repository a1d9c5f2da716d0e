"""Small charts for the tests of randomized pruning, with all derivations enumerated."""

import pickle
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from tests.reference.charts import enumeration
from tests.samplers.charts.pairs import ITG, MIXED, all_links, random_pair, to_kernels

from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.tools.lab.papers.pruning.pairs import branching


@dataclass(frozen=True)
class Known:
    """Chart of a pair, with all derivations enumerated on first use, which takes up to a second."""

    chart: PairChart
    pair: enumeration.Pair
    links: np.ndarray
    # True if selections are uniform [BPK09 §3.2].
    is_uniform: bool

    @cached_property
    def values(self) -> np.ndarray:
        """Values of all variables in each class of derivations, bool[classes, V]."""
        found = [[(i, x) in emitted for i, x in self.links.tolist()] for emitted, _ in self._classes]
        return np.array(found, bool).reshape(len(found), len(self.links))

    @cached_property
    def weights(self) -> np.ndarray:
        """Summed weight of each class."""
        return np.array([one.weight for _, one in self._classes])

    def expected(self, kept: np.ndarray) -> np.ndarray:
        """Return the expected features of the given classes."""
        return enumeration.expectations(self.pair, dict(self._classes[k] for k in kept))

    @property
    def _classes(self) -> list[tuple[enumeration.Links, enumeration.Class]]:
        return _enumerate_classes(pickle.dumps(self.pair))


@cache
def _enumerate_classes(pickled: bytes) -> list[tuple[enumeration.Links, enumeration.Class]]:
    """Return the classes of all derivations of a pair, which many tests need."""
    pair = pickle.loads(pickled)
    return list(enumeration.classes(pair)[pair.whole].items())


def known_pair(pair: enumeration.Pair, links: np.ndarray | None = None, is_uniform: bool = False) -> Known:
    """Return a chart with the given variables, by default all word pairs."""
    links = all_links(pair) if links is None else links
    rules, words = to_kernels(pair)
    chart = PairChart(rules, words, links.astype(np.int32), pair.empty_sides)
    chart.branching = max(2, branching(rules))
    return Known(chart, pair, links, is_uniform)


def small_charts() -> list[Known]:
    """Return charts with few variables, for exact matrices."""
    diagonal = np.array([(0, 0), (1, 1), (2, 2), (1, 2)])
    return [
        known_pair(random_pair(ITG, (2, 2), 51)),
        known_pair(random_pair(ITG, (3, 3), 52), diagonal),
        known_pair(random_pair(MIXED, (3, 3), 53, empty_sides=False), diagonal[:3]),
        known_pair(random_pair(ITG, (3, 3), 55), diagonal[:3], is_uniform=True),
        known_pair(random_pair(MIXED, (3, 3), 54, empty_sides=False)),
    ]


def charts() -> list[Known]:
    """Return larger charts, for long runs."""
    likely = np.array([(0, 0), (1, 1), (2, 2), (3, 3), (3, 2)])
    return [
        known_pair(random_pair(ITG, (4, 4), 61), likely),
        known_pair(random_pair(MIXED, (4, 4), 62), likely),
        known_pair(random_pair(MIXED, (4, 4), 63, empty_sides=False), likely),
        known_pair(random_pair(ITG, (4, 4), 64), likely[:4], is_uniform=True),
    ]
