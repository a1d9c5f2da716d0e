"""Word features of a pair, counted in the other pairs. Words may be any values."""

from collections import Counter
from typing import NamedTuple

import numpy as np


class LinkedPair(NamedTuple):
    """Words of both sides, and links between their positions."""

    source: list[int]
    target: list[int]
    links: list[tuple[int, int]]

    def side(self, side: int) -> list[int]:
        return self.target if side else self.source


def alone(others: list[LinkedPair], words: list[int], side: int) -> np.ndarray:
    counts = Counter(word for pair in others for word in pair.side(side))
    return np.array([(counts[word] + 0.5) / (counts.total() + 0.5 * (len(counts) + 1)) for word in words])


def nulls(others: list[LinkedPair], words: list[int], side: int) -> np.ndarray:
    counts = Counter(word for pair in others for word in pair.side(side))
    free = Counter(
        word
        for pair in others
        for place, word in enumerate(pair.side(side))
        if place not in {link[side] for link in pair.links}
    )
    rate = max(free.total() / max(counts.total(), 1) if counts else 1.0, 1e-6)
    shares = [(free[word] + rate) / (counts[word] + 1) / rate for word in words]
    return alone(others, words, side) * np.array(shares)


def count_links(others: list[LinkedPair]) -> Counter:
    return Counter((pair.source[i], pair.target[x]) for pair in others for i, x in pair.links)


def together(others: list[LinkedPair], pair: LinkedPair) -> np.ndarray:
    links = count_links(others)

    def given(side: int, word: int, other: int, p: float) -> float:
        with_word = {link: times for link, times in links.items() if link[side] == word}
        link = (other, word) if side else (word, other)
        return (max(links[link] - 0.5, 0) + (len(with_word) / 2 + 1) * p) / (sum(with_word.values()) + 1)

    source, target = alone(others, pair.source, 0), alone(others, pair.target, 1)
    return np.array(
        [
            [np.sqrt(p * given(0, f, e, q) * q * given(1, e, f, p)) for e, q in zip(pair.target, target, strict=True)]
            for f, p in zip(pair.source, source, strict=True)
        ]
    )


def neighbors(others: list[LinkedPair], words: list[int], side: int) -> np.ndarray:
    triples: Counter = Counter()
    for pair in others:
        padded = ["<s>", *pair.side(side), "</s>"]
        triples.update(zip(padded, padded[1:], padded[2:], strict=False))

    def count(*wanted: object) -> int:
        return sum(
            n for triple, n in triples.items() if all(w is None or w == t for w, t in zip(wanted, triple, strict=True))
        )

    padded = ["<s>", *words, "</s>"]
    rows = []
    for u, a, b, c in zip(alone(others, words, side), padded, padded[1:], padded[2:], strict=False):
        left = (count(a, b, None) + 2 * u) / (count(a, None, None) + 2)
        right = (count(None, b, c) + 2 * u) / (count(None, None, c) + 2)
        both = (count(a, b, c) + (left + right) / 2) / (count(a, None, c) + 1)
        rows.append([np.log(p / u) for p in (left, right, both)])
    return np.array(rows)


def features(others: list[LinkedPair], pair: LinkedPair, side: int) -> np.ndarray:
    """Return the nine features of each word of a side."""
    links = count_links(others)
    own, rest = pair.side(side), pair.side(1 - side)
    u, v = alone(others, own, side), alone(others, rest, 1 - side)
    c = np.array([[links[(i, j) if side else (j, i)] for j in own] for i in rest], float)
    totals = [sum(n for link, n in links.items() if link[side] == j) for j in own]
    others_totals = [sum(n for link, n in links.items() if link[1 - side] == i) for i in rest]
    given = (c + u) / (np.array(others_totals)[:, None] + 1) / u
    back = (c + v[:, None]) / (np.array(totals) + 1)
    share = 0.02 + (back / back.sum(axis=1, keepdims=True)).sum(axis=0)
    columns = [given.mean(axis=0), given.max(axis=0), (back / v[:, None]).max(axis=0), share, u, [len(own)] * len(own)]
    return np.column_stack([neighbors(others, own, side), *map(np.log, columns)])
