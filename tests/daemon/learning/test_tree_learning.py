"""A tree grammar in a store: learn, commit, continue, verify."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.learning.treebanks import QUICK, TREES, expansions, put
from tests.storage.building import read_counts

from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts
from hierogram.daemon.learning.kinds.trees import TreeChain, load_trees
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.exceptions import BracketError
from hierogram.samplers.grammar.brackets import read_parse
from hierogram.samplers.grammar.numbers import MAX_LABEL, ONE_USE, ROUNDING_STEP
from hierogram.samplers.trees.sampler import TreePlan
from hierogram.storage.records.grammar import LabelRow
from hierogram.storage.store import Store, open_store
from hierogram.tools.lab.measures.treebanks import count_fragments

Sides = tuple[str, str]


@pytest.fixture
def treebank(store_url: str) -> Iterator[Store]:
    """A store with a small treebank. Parametrized by database."""
    with open_store(store_url, create=True, settings=QUICK) as store:
        put(store, TREES)
        yield store


def test_stored_rules_equal_the_rules_of_the_derivations(treebank: Store) -> None:
    done = learn(treebank, sweeps=10)
    assert (done.pairs, done.sweeps, done.pair_sweeps) == (12, 16, 16 * 12)
    assert done.rules_in_use_after == treebank.status().rules_in_use
    assert done.tokens_after == treebank.status().rule_tokens
    assert treebank.status().last_log_likelihood == pytest.approx(done.log_likelihood_after)
    checked = verify(treebank)
    assert checked.problems == []
    assert checked.pairs == 12
    assert checked.expected_tokens > checked.rule_tokens / 4
    used = sum(
        n * count for (_, fragment), (count, _) in read_counts(treebank).items() for n in expansions(fragment).values()
    )
    assert used == sum(sum(expansions(text).values()) for text in TREES)
    labels = {row.label: row for row in treebank.labels()}
    assert set(labels) == {node.label for text in TREES for node in read_parse(text).nodes}
    assert all(row.strength > 0 and 0 < row.expansion_probability < 1 for row in labels.values())


def test_rules_are_found_by_label_and_by_word(treebank: Store) -> None:
    learn(treebank, sweeps=4)
    of_noun_phrases = treebank.find_rules("NP", limit=1000, current_sample=True)
    in_use = {rule for rule, (count, _) in read_counts(treebank).items() if count}
    assert {rule.target for rule in of_noun_phrases} == {fragment for label, fragment in in_use if label == "NP"}
    assert sum(rule.p_target_given_source for rule in of_noun_phrases) == pytest.approx(1)
    with_dog = treebank.find_rules(words=["dog"], limit=1000, current_sample=True)
    assert with_dog
    assert {rule.target for rule in with_dog} == {fragment for _, fragment in in_use if " dog)" in fragment}
    row = with_dog[0]
    assert row.length == sum(expansions(row.target).values())
    assert row.nonterminals == sum(piece.startswith("(") and ")" in piece for piece in row.target.split(" "))


def test_a_run_in_parts_equals_a_single_run_and_a_chain_without_a_store(store_url: str, tmp_path: Path) -> None:
    with open_store(store_url, create=True, settings=QUICK) as treebank:
        put(treebank, TREES)
        learn(treebank, sweeps=3)
        learn(treebank, sweeps=4)
        found = read_counts(treebank)
        learned = treebank.labels()
    counts, config, labels = TreeChainRun().after(13)
    assert learned == labels
    assert {rule: count for rule, (count, _) in found.items() if count} == counts
    with open_store(f"sqlite:///{tmp_path}/uninterrupted.db", create=True, settings=QUICK) as treebank:
        put(treebank, TREES)
        learn(treebank, sweeps=7)
        assert read_counts(treebank) == found
    # A mean below `ROUNDING_STEP` is rounded to 0 or to the step, so each tree may be wrong by up to the step.
    uses = {rule: uses for rule, (_, uses) in found.items()}
    assert set(uses) <= set(config)
    for rule, mean in config.items():
        assert uses.get(rule, 0) == pytest.approx(mean, abs=len(TREES) * ROUNDING_STEP / ONE_USE)


class TreeChainRun:
    """Chain with the same trees, seed and schedule, run without a store."""

    def __init__(self) -> None:
        from hierogram.samplers.forests.derivations import initial_state
        from hierogram.samplers.grammar.schedules import Annealing

        loaded = load_trees(TREES, range(1, len(TREES) + 1))
        self.schedule = Annealing(QUICK.annealing, QUICK.temperature)
        self.chain = TreeChain(EmptyCounts(QUICK, (0, 0)), ChainConfig())
        state = initial_state(QUICK.seed, loaded.batch, QUICK.start)
        self.chain.add_pairs(loaded, state, np.zeros(len(TREES), np.bool_))

    def after(self, sweeps: int) -> tuple[dict[Sides, int], dict[Sides, float], list[LabelRow]]:
        """Run `sweeps` sweeps. Returns current uses, mean uses over the sweeps after annealing, and the labels."""
        kept: list[dict[Sides, int]] = []
        for number in range(1, sweeps + 1):
            own = np.full(len(TREES), number, np.int64)
            plan = TreePlan(number, own, self.schedule.temperatures(own))
            self.chain.state, _ = self.chain.kernel.step(QUICK.seed, self.chain.state, plan)
            if number > QUICK.annealing:
                kept.append({(f.label, f.fragment): f.uses for f in count_fragments(self.chain)})
        counts = {(f.label, f.fragment): f.uses for f in count_fragments(self.chain)}
        config = {
            rule: sum(sample.get(rule, 0) for sample in kept) / len(kept)
            for rule in {rule for sample in kept for rule in sample}
        }
        return counts, config, sorted(self.chain.labels())


def test_trees_with_more_labels_than_codes_are_refused() -> None:
    children = " ".join(f"(L{number} a)" for number in range(1, MAX_LABEL))
    assert len(load_trees([f"(L0 {children})"], [1]).labels) == MAX_LABEL + 1
    with pytest.raises(BracketError, match=f"{MAX_LABEL + 1:,} different labels"):
        load_trees([f"(L0 {children} (L{MAX_LABEL} a))"], [1])
