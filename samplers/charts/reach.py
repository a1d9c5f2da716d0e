"""Where the sides of rules may stand in a pair: most rules are told from their words that they stand nowhere near."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.pairs import ANY, Rules, Words
from hierogram.samplers.compiled.jit import njit


class Reach(NamedTuple):
    """Of R rules and a pair of n source and m target words.

    `source` int32[R, n+1], `target` int32[R, m+1]: before which end no rule's side can end that starts at a position;
    n + 1 or m + 1 where it cannot start there. `first` int64[n+2] into `rule` int32: the rules that may start at each
    source position and whose target side may stand somewhere, in their order.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    first: NDArray[np.int64]
    rule: NDArray[np.int32]


def make_reach(rules: Rules, words: Words, empty_sides: bool) -> Reach:
    """The reach of all rules in a pair; `empty_sides`: whether a nonterminal may have no words on one side."""
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
    """Fill `ends`; `least`: how many words a nonterminal has at least.

    Words that follow a nonterminal are looked for one by one, each at the first place after the one before.
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
