"""A treebank sampled without a store."""

import gc
import weakref
from collections import Counter

from tests.daemon.learning.treebanks import TREES, expansions

from hierogram.samplers.grammar.brackets import read_parse
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.tools.lab.measures.treebanks import count_fragments, sample_treebank


def test_the_grammar_consists_of_fragments_of_the_trees() -> None:
    chain = sample_treebank(TREES, seed=3, annealing=Annealing(20, 3.0), sweeps=5)
    fragments = count_fragments(chain)
    assert len({(f.label, f.fragment) for f in fragments}) == len(fragments) == chain.rule_types
    assert all(f.fragment.startswith(f"({f.label} ") and f.uses > 0 for f in fragments)
    used: Counter[tuple[str, ...]] = Counter()
    for fragment in fragments:
        for symbols, number in expansions(fragment.fragment).items():
            used[symbols] += number * fragment.uses
    assert used == sum(map(expansions, TREES), Counter())
    assert {row.label for row in chain.labels()} == {node.label for text in TREES for node in read_parse(text).nodes}
    # The grammar has larger fragments that are reused.
    assert any(sum(expansions(f.fragment).values()) > 1 and f.uses > 1 for f in fragments)


def test_the_same_seed_gives_the_same_grammar() -> None:
    first, second, other = (
        sample_treebank(TREES, seed=seed, base="pcfg", annealing=Annealing(5, 3.0), sweeps=9) for seed in (1, 1, 2)
    )
    assert count_fragments(first) == count_fragments(second) != count_fragments(other)
    assert first.labels() == second.labels() != other.labels()


def test_a_chain_does_not_keep_pairs_whose_counts_were_changed() -> None:
    chain = sample_treebank(TREES, annealing=Annealing(2, 3.0), sweeps=1)
    assert chain.state is not None
    nodes = weakref.ref(chain.loaded.batch.forests.node_offset)
    chain.change_counts(chain.loaded, chain.state.derivations, -1)
    gc.collect()
    assert nodes() is None
