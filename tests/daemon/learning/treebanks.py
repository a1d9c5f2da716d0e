"""A small treebank, and stores of it."""

import re
from collections import Counter
from collections.abc import Sequence

from tests.daemon.learning.stores import fill
from tests.storage.building import NewPair

from hierogram.samplers.grammar.brackets import read_parse
from hierogram.samplers.grammar.settings import TREES as TREE_GRAMMAR
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

QUICK = Settings(grammar=TREE_GRAMMAR, annealing=6, temperature=3.0, round_sweeps=2, seed=5, start="cut")

TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    "(S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog))))",
    "(S (NP (PRP she)) (VP (VBD slept)))",
    "(S (NP (PRP she)) (VP (VBD saw) (NP (DT the) (NN dog))))",
] * 3


def expansions(text: str) -> Counter[tuple[str, ...]]:
    """Count the productions of a tree or fragment, without frontier nonterminals."""
    tokens = re.findall(r"[()]|[^\s()]+", text)
    stack: list[list[str]] = []
    found: Counter[tuple[str, ...]] = Counter()
    for k, token in enumerate(tokens):
        if token == "(":
            stack.append([])
        elif token == ")":
            symbols = stack.pop()
            if len(symbols) > 1:
                found[tuple(symbols)] += 1
            if stack:
                stack[-1].append(symbols[0])
        else:
            stack[-1].append(token if tokens[k - 1] == "(" else "'" + token)
    return found


def put(store: Store, texts: Sequence[str], first: int = 1) -> None:
    """Store trees in bracket notation. Fails if a tree is rejected."""
    pairs = []
    for k, text in enumerate(texts):
        words = read_parse(text).words
        pairs.append(NewPair(" ".join(words), text, "", len(words), 0, first + k, occurrence=texts[:k].count(text)))
    assert fill(store, pairs) == len(texts)
