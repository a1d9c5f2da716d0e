"""Decoder that ranks fixed candidates by weights."""

from random import Random

import numpy as np
from numpy.typing import NDArray

from hierogram.tools.translation.tuning import NBest

Words = tuple[str, ...]


def select_best(candidates: NBest, weights: NDArray[np.float64], count: int) -> NBest:
    first = np.argsort(-(candidates.features @ weights), kind="stable")[:count]
    return NBest([candidates.words[k] for k in first], candidates.features[first])


class ListDecoder:
    """Decoder of fixed candidates. A better score by the planted weights, plus noise, means fewer wrong words.

    A call returns the 30 best candidates of each sentence.
    """

    def __init__(self, planted: list[float], sentences: int, candidates: int, seed: int, noise: float) -> None:
        random = Random(seed)
        self.references: list[list[Words]] = []
        self._candidates: list[NBest] = []
        for _ in range(sentences):
            reference = tuple(f"w{random.randrange(200)}" for _ in range(random.randint(12, 20)))
            features = np.array([[random.gauss(0, 1) for _ in planted] for _ in range(candidates)])
            quality = features @ np.array(planted) + np.array([random.gauss(0, noise) for _ in range(candidates)])
            words: list[Words] = [()] * candidates
            for rank, k in enumerate(np.argsort(-quality)):
                # Rank 0 has the highest quality and no wrong word. Each later rank has as many or more wrong words.
                wrong = set(random.sample(range(len(reference)), round(len(reference) * rank / candidates)))
                words[k] = tuple("x" if place in wrong else word for place, word in enumerate(reference))
            self.references.append([reference])
            self._candidates.append(NBest(words, features))

    def __call__(self, weights: NDArray[np.float64]) -> list[NBest]:
        return [select_best(candidates, weights, 30) for candidates in self._candidates]
