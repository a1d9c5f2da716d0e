"""Where rules may start in a pair, so that charts look at no others: most rules have words that are not there."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.pairs import ANY, Rules, Words
from hierogram.samplers.compiled.jit import njit


class Reach(NamedTuple):
    """Where R rules may start in a pair of n source and m target words, and how soon each may end.

    `source[r, i]`, int32[R, n+1]: where rule r's source side ends at the earliest if it starts at position i; n + 1 if
    it cannot start there. `target[r, x]`, int32[R, m+1]: the same of target sides, m + 1 if one cannot start there.
    `rule[first[i]]` … `rule[first[i + 1] - 1]`: the rules whose source side may start at position i and whose target
    side may start somewhere, by number. `first` int64[n+2], `rule` int32.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    first: NDArray[np.int64]
    rule: NDArray[np.int32]


def make_reach(rules: Rules, words: Words, empty_sides: bool) -> Reach:
    """Where all rules may start in a pair; `empty_sides`: whether a nonterminal may have no words on one side."""
    n, m, number = len(words.source), len(words.target), len(rules.weight)
    source, target = np.empty((number, n + 1), np.int32), np.empty((number, m + 1), np.int32)
    least = 0 if empty_sides else 1
    note_ends(rules.source, rules.source_first, words.source, least, source)
    note_ends(rules.target, rules.target_first, words.target, least, target)
    somewhere: NDArray[np.bool_] = np.asarray((target <= m).any(axis=1))
    usable = (source <= n) & somewhere[:, None]
    start, rule = np.nonzero(usable.T)
    return Reach(source, target, np.searchsorted(start, np.arange(n + 2)), rule.astype(np.int32))


@njit
def note_ends(symbols, first, words, least, ends):
    """Fill `ends` int32[R, words + 1], the earliest end of each side from each position.

    A nonterminal takes `least` words, as few as it may. A word that comes after a nonterminal is taken at the first
    place where it stands from there on.
    """
    size = len(words)
    for rule in range(len(ends)):
        for start in range(size + 1):
            at = start
            moved = False
            for k in range(first[rule], first[rule + 1]):
                if symbols[k] < 0 and symbols[k] != ANY:
                    at += least
                    moved = True
                elif symbols[k] == ANY:
                    at += 1
                else:
                    while moved and at < size and words[at] != symbols[k]:
                        at += 1
                    at = at + 1 if at < size and words[at] == symbols[k] else size + 1
                if at > size:
                    at = size + 1
                    break
            ends[rule, start] = at
