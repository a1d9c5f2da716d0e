"""How much a cheap model doubts that two words are emitted together.

The model is that of one-to-one links: each word has at most one partner, and a set of links weighs the product of its
emissions and of those of the words that are left alone. Links may cross in any way. Marginals come from messages
between words: sum-product [Pearl 1988], for one-to-one links [Huang & Jebara 2009]. They are exact where words and
emissions form a tree, and near it elsewhere.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_allocating

_ROUNDS = 20
"""Rounds of messages, there and back."""
_SMALLEST = 1e-100
"""No sum is taken to be smaller: a word may have nothing to emit but what is asked for."""


@njit_allocating
def unlinked(pairs, source_nulls, target_nulls):
    """How probable it is that two words are not partners, float64[n, m].

    `pairs` float64[n, m], `source_nulls` float64[n], `target_nulls` float64[m]: emissions, linear.
    """
    n, m = pairs.shape
    # Messages from each word to each partner: one over the weight of all that it may do without this partner.
    from_source, from_target = np.empty((n, m)), np.empty((n, m))
    for x in range(m):
        whole = target_nulls[x]
        for i in range(n):
            whole += pairs[i, x]
        for i in range(n):
            from_target[i, x] = 1.0 / max(whole, _SMALLEST)
    for _ in range(_ROUNDS):
        _send(pairs, source_nulls, from_target, from_source)
        _send(pairs.T, target_nulls, from_source.T, from_target.T)
    found = np.empty((n, m))
    for i in range(n):
        for x in range(m):
            found[i, x] = 1.0 / (1.0 + pairs[i, x] * from_source[i, x] * from_target[i, x])
    return found


@njit
def _send(pairs, alone, received, sent):
    """Fill `sent` float64[n, m]: from each word, one over its weight alone and with all others than this partner."""
    n, m = pairs.shape
    for i in range(n):
        before = alone[i]
        for x in range(m):
            sent[i, x] = before
            before += pairs[i, x] * received[i, x]
        after = 0.0
        for x in range(m - 1, -1, -1):
            sent[i, x] = 1.0 / max(sent[i, x] + after, _SMALLEST)
            after += pairs[i, x] * received[i, x]
