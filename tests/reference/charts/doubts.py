"""Probabilities that two words are not partners in a one-to-one matching, by enumeration and by message passing."""

from itertools import product

import numpy as np


def doubts_by_enumeration(pairs: np.ndarray, source_nulls: np.ndarray, target_nulls: np.ndarray) -> np.ndarray:
    """Return the probability that two words are not partners, float64[n, m], from the weights of partners and nulls."""
    n, m = pairs.shape
    together, whole = np.zeros((n, m)), 0.0
    for partners in product(range(-1, m), repeat=n):
        taken = [x for x in partners if x >= 0]
        if len(set(taken)) < len(taken):
            continue
        links = [(i, x) for i, x in enumerate(partners) if x >= 0]
        weight = np.prod([pairs[link] for link in links])
        weight *= np.prod([source_nulls[i] for i, x in enumerate(partners) if x < 0])
        weight *= np.prod([target_nulls[x] for x in range(m) if x not in taken])
        whole += weight
        for link in links:
            together[link] += weight
    found: np.ndarray = 1 - together / whole
    return found


def doubts_by_passing(pairs: np.ndarray, source_nulls: np.ndarray, target_nulls: np.ndarray, rounds: int) -> np.ndarray:
    """Approximate the same probabilities by `rounds` rounds of message passing with full sums."""
    n, m = pairs.shape
    to_source = {(x, i): 1 / (target_nulls[x] + pairs[:, x].sum()) for i in range(n) for x in range(m)}
    for _ in range(rounds):
        to_target = {
            (i, x): 1 / (source_nulls[i] + sum(pairs[i, y] * to_source[y, i] for y in range(m) if y != x))
            for i in range(n)
            for x in range(m)
        }
        to_source = {
            (x, i): 1 / (target_nulls[x] + sum(pairs[j, x] * to_target[j, x] for j in range(n) if j != i))
            for i in range(n)
            for x in range(m)
        }
    return np.array([[1 / (1 + pairs[i, x] * to_target[i, x] * to_source[x, i]) for x in range(m)] for i in range(n)])
