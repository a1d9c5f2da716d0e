"""Links inside each rule of a derivation, compared with rules that are written symbol by symbol."""

from collections import Counter

import numpy as np
from tests.reference import examples
from tests.reference.forest import Forest
from tests.reference.models import PitmanYor
from tests.reference.rules import Variables
from tests.samplers.synchronous.kernel_chain import KernelChain, to_bitext

from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.samplers.counts.occurrences import SIDE_BITS, rule_links
from hierogram.samplers.counts.texts import render_rules, spellings

Links = tuple[tuple[int, int], ...]


def _written_out(forest: Forest, variables: Variables, v: int, side: int) -> list[tuple[str, int]]:
    """Return the symbols of one side of the rule at node v, each as ("word", position) or ("node", number)."""
    found: list[tuple[str, int]] = []
    spans = [(node.source, node.target)[side] for node in forest.nodes]
    start, end = spans[v]
    tails = sorted(forest.nodes[v].edges[variables.edges[v]], key=spans.__getitem__)
    position = start
    for t in tails:
        tail_start, tail_end = spans[t]
        found += [("word", w) for w in range(position, tail_start)]
        found += [("node", t)] if variables.cuts[t] else _written_out(forest, variables, t, side)
        position = tail_end
    return found + [("word", w) for w in range(position, end)]


def _links_of_rules(forest: Forest, variables: Variables, links: set[tuple[int, int]]) -> list[tuple[str, Links]]:
    """Return the sides of each rule as text, with the links between its symbols."""
    rules = []
    waiting = [len(forest.nodes) - 1]
    while waiting:
        v = waiting.pop()
        source, target = (_written_out(forest, variables, v, side) for side in (0, 1))
        inside = tuple(
            (i, j)
            for i, (kind, a) in enumerate(source)
            for j, (other, b) in enumerate(target)
            if kind == other == "word" and (a, b) in links
        )
        numbers = {node: k for k, node in enumerate((n for kind, n in source if kind == "node"), 1)}
        waiting += numbers
        words = (forest.source, forest.target)
        text = " ||| ".join(
            " ".join(words[side][n] if kind == "word" else f"[X,{numbers[n]}]" for kind, n in symbols)
            for side, symbols in enumerate((source, target))
        )
        rules.append((text, inside))
    return rules


def test_the_links_inside_every_rule_are_found() -> None:
    pairs = examples.random_pairs(seed=53, count=60, longest=9, words="ab")
    chain = KernelChain([examples.direct_forest(*pair) for pair in pairs], PitmanYor(0.5, 5.0, 2.0), seed=6)
    for _ in range(3):
        chain.sweep()
    expected: Counter[tuple[str, Links]] = Counter()
    for forest, variables, (_, _, links) in zip(chain.forests, chain.variables(), pairs, strict=True):
        expected.update(_links_of_rules(forest, variables, set(links)))
    deltas = add_state(empty_deltas(), chain.batch, chain.state, (1, 0, 0, 0), np.arange(chain.batch.size))
    batch = chain.batch._replace(bitext=to_bitext(pairs))
    sides = render_rules(
        deltas,
        np.arange(deltas.entries),
        spellings(sorted({word for source, _, _ in pairs for word in source})),
        spellings(sorted({word for _, target, _ in pairs for word in target})),
    )
    texts = [f"{source} ||| {target}" for source, target in zip(*(side.strings() for side in sides), strict=True)]
    found = rule_links(deltas, batch, chain.state, np.arange(batch.size))
    counted: Counter[tuple[str, Links]] = Counter()
    for k, entry in enumerate(found.entries.tolist()):
        packed = found.links[found.offset[k] : found.offset[k + 1]].tolist()
        counted[texts[entry], tuple((link >> SIDE_BITS, link & 0xFFFF) for link in packed)] += 1
    assert counted == expected
    assert len({text for text, _ in expected}) < len(expected), "some rule has two alignments"
