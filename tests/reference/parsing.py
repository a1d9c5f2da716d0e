"""Derivations of a sentence by a tree-substitution grammar, enumerated from the definition: no chart, no symbols.

A fragment is a nested tuple, label first; `("NN",)` is a frontier nonterminal, a string is a word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import lgamma, prod

Fragment = tuple
Grammar = dict[Fragment, float]
"""Fragments with their weights, linear."""


class Derivation:
    """Fragments in preorder, and the tree that they make."""

    def __init__(self, fragments: tuple[Fragment, ...], tree: Fragment) -> None:
        self.fragments = fragments
        self.tree = tree


def derivations(grammar: Grammar, label: str, words: Sequence[str], depth: int) -> Iterator[Derivation]:
    """Yield all derivations of the words from a label with fragments nested up to `depth` deep."""
    if depth == 0:
        return
    for fragment in grammar:
        if fragment[0] == label:
            for used, tree in expansions(grammar, fragment, tuple(words), depth):
                yield Derivation((fragment, *used), tree)


def expansions(
    grammar: Grammar, node, words: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[Fragment, ...], Fragment]]:
    """Yield ways to expand a part of a fragment to exactly these words: the fragments below it, and its tree."""
    if isinstance(node, str):
        if words == (node,):
            yield (), node
    elif len(node) == 1:
        for below in derivations(grammar, node[0], words, depth - 1):
            yield below.fragments, below.tree
    else:
        for parts in divisions(words, len(node) - 1):
            ways = [list(expansions(grammar, child, part, depth)) for child, part in zip(node[1:], parts, strict=True)]
            for choice in product(*ways):
                yield sum((used for used, _ in choice), ()), (node[0], *(tree for _, tree in choice))


def divisions(words: tuple[str, ...], parts: int) -> Iterator[list[tuple[str, ...]]]:
    if parts == 1:
        if words:
            yield [words]
        return
    for first in range(1, len(words) - parts + 2):
        for rest in divisions(words[first:], parts - 1):
            yield [words[:first], *rest]


def weight(grammar: Grammar, derivation: Derivation) -> float:
    """Return the probability of a derivation whose fragments are independent."""
    return prod(grammar[fragment] for fragment in derivation.fragments)


def process_log_weight(seated: Grammar, whole: dict[str, float], derivation: Derivation) -> float:
    """Return the natural log of the probability of the derivation's fragments in sequence, under Dirichlet processes.

    `seated` is n_e + αP0(e) for each fragment, `whole` n_c + α for each label.
    """
    uses = Counter(derivation.fragments)
    labels = Counter(fragment[0] for fragment in derivation.fragments)
    total = sum(lgamma(seated[f] + n) - lgamma(seated[f]) for f, n in uses.items())
    return total - sum(lgamma(whole[c] + n) - lgamma(whole[c]) for c, n in labels.items())


def productions(tree, start: int = 0) -> tuple[list[tuple], int]:
    """Return the productions of a tree as (label, right side, start, splits…, end), and the end of the tree."""
    if isinstance(tree, str):
        return [], start + 1
    found, at, ends = [], start, []
    for child in tree[1:]:
        below, at = productions(child, at)
        found += below
        ends.append(at)
    right = tuple(child if isinstance(child, str) else child[0] for child in tree[1:])
    return [(tree[0], right, start, *ends), *found], at
