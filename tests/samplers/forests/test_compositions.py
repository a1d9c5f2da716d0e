"""Compositions and their expected occurrences compared with the twin, and the table of n-gram counts."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from tests.reference.compositions import expected_occurrences as twin
from tests.reference.examples import TANGLED, TWICE, UNLINKED, random_pairs
from tests.reference.forest import Forest, direct_forest
from tests.reference.rules import compositions
from tests.samplers.synchronous.kernel_chain import SALT, rules_of_deltas, to_batch

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.forests.compositions import (
    Ngrams,
    add_ngrams,
    empty_ngrams,
    expected_occurrences,
    list_compositions,
)
from hierogram.samplers.forests.derivations import Batch
from hierogram.samplers.grammar.numbers import ONE_COMPOSITION
from hierogram.samplers.grammar.rules import MAX_SHORT_SOURCE, render_side

NO_NGRAMS = empty_ngrams()


@pytest.mark.parametrize("span_limit", [0, 3, 7])
def test_the_kernel_makes_the_twin_s_compositions(span_limit: int) -> None:
    forests = [UNLINKED, TWICE, TANGLED, *(direct_forest(*pair) for pair in random_pairs(33, 200, 16))]
    batch = to_batch(forests, span_limit)
    expected = Counter(rule for forest in forests for rule in compositions(forest, span_limit))
    found = list_compositions(batch, NO_NGRAMS)
    deltas = add_fragments(empty_deltas(), batch, found.fragments)
    assert rules_of_deltas(deltas, forests, "expected_uses") == {r: ONE_COMPOSITION * n for r, n in expected.items()}
    assert len(found.keys) == expected.total() > 100
    assert {len(rule.source) for rule in expected} == set(range(1, min(span_limit or 5, 5) + 1))
    assert {sum(isinstance(symbol, int) for symbol in rule.source) for rule in expected} == {0, 1}
    rows = np.arange(len(found.keys)) % 3 == 1
    some = add_fragments(empty_deltas(), batch, found.fragments.select(rows))
    # Each rule has the key under which it is counted.
    assert set(some.entry["key_low"][: some.entries].tolist()) == set(found.keys[rows].tolist())
    assert any(n > 1 for n in expected.values())


def test_a_batch_without_phrases_has_no_compositions() -> None:
    batch = to_batch([direct_forest(("a", "b"), ("x",), set())], 0)
    assert len(list_compositions(batch, NO_NGRAMS).keys) == 0


@pytest.fixture(scope="module")
def varied() -> list[Forest]:
    """Forests of sentences in which most n-grams occur once."""
    random = Random(3)
    words = [tuple(f"w{int(random.expovariate(0.01))}" for _ in range(30)) for _ in range(150)]
    return [direct_forest(source, ("x",), set()) for source in words]


@pytest.fixture(scope="module")
def counted() -> tuple[list[Forest], Batch, Ngrams]:
    forests = [direct_forest(*pair) for pair in random_pairs(7, 150, 16)]
    batch = to_batch(forests, 7)
    parts = [to_batch(forests[:50], 7), to_batch(forests[50:], 7)]
    ngrams = empty_ngrams()
    for part in parts:
        ngrams = add_ngrams(ngrams, part)
    return forests, batch, ngrams


@pytest.mark.slow
def test_expected_occurrences_of_compositions_match_the_twin(counted: tuple[list[Forest], Batch, Ngrams]) -> None:
    forests, batch, ngrams = counted
    sentences = [forest.source for forest in forests]
    found = list_compositions(batch, ngrams)
    rules = [rule for forest in forests for rule in compositions(forest, 7)]
    texts = expected_occurrences(ngrams, [render_side(rule.source) for rule in rules], SALT)
    twins = {side: twin(side, sentences) for side in {rule.source for rule in rules}}
    expected = np.array([twins[rule.source] for rule in rules])
    assert texts == pytest.approx(expected, rel=1e-9)
    long = np.array([len(rule.source) > MAX_SHORT_SOURCE for rule in rules])
    assert found.expected == pytest.approx(np.where(long, expected, 0.0), rel=1e-9)
    assert 100 < long.sum() < len(rules) - 100
    assert np.ptp(np.log(expected[long])) > 5


def all_ngrams(forests: list[Forest]) -> Counter[tuple[str, ...]]:
    """Return the number of occurrences of each n-gram of up to three words in the sentences."""
    return Counter(
        forest.source[end - n : end]
        for forest in forests
        for end in range(1, len(forest.source) + 1)
        for n in range(1, min(3, end) + 1)
    )


def test_each_ngram_has_its_own_count(counted: tuple[list[Forest], Batch, Ngrams]) -> None:
    forests, _, ngrams = counted
    exact = all_ngrams(forests)
    assert sorted(ngrams.counts[ngrams.keys != 0].tolist()) == sorted(exact.values())
    assert ngrams.distinct == len(exact) == np.count_nonzero(ngrams.keys)
    assert ngrams.words == sum(len(forest.source) for forest in forests)
    assert not ngrams.counts[ngrams.keys == 0].any()


def test_the_ngram_table_grows_before_it_is_full(varied: list[Forest]) -> None:
    ngrams, sizes = empty_ngrams(), set()
    for k in range(0, len(varied), 10):
        ngrams = add_ngrams(ngrams, to_batch(varied[k : k + 10], 0))
        sizes.add(len(ngrams.keys))
        assert ngrams.distinct == np.count_nonzero(ngrams.keys) < 0.7 * len(ngrams.keys)
    assert len(sizes) > 1
    assert Counter(ngrams.counts[ngrams.keys != 0].tolist()) == Counter(all_ngrams(varied).values())


def test_the_ngram_table_at_its_maximum_size_drops_ngrams_with_one_occurrence(
    varied: list[Forest], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = add_ngrams(empty_ngrams(), to_batch(varied, 0))
    monkeypatch.setattr("hierogram.samplers.forests.compositions._MAX_SLOTS", 1 << 12)
    ngrams, drops = empty_ngrams(), 0
    for k in range(0, len(varied), 10):
        before = ngrams.distinct
        ngrams = add_ngrams(ngrams, to_batch(varied[k : k + 10], 0))
        drops += ngrams.distinct < before
    assert 0 < drops < 15
    exact = dict(zip(whole.keys.tolist(), whole.counts.tolist(), strict=True))
    found = dict(zip(ngrams.keys.tolist(), ngrams.counts.tolist(), strict=True))
    missing = [exact[key] - found[key] for key in found]
    assert 0 <= min(missing) < max(missing) <= drops
    assert all(count <= drops + 1 for key, count in exact.items() if key not in found)
    assert ngrams.words == whole.words


def test_the_expected_text_is_as_long_as_the_corpus_or_100000_words() -> None:
    def count_words(ngrams: Ngrams) -> float:
        """Return the length of the text in words: a side of one nonterminal is expected once per word."""
        return float(expected_occurrences(ngrams, ["[X,1]"], 0)[0])

    assert count_words(empty_ngrams()) == 100_000
    batch = to_batch([direct_forest(("a",) * 100, ("x",), {(0, 0)})] * 1_100, 0)
    assert count_words(add_ngrams(empty_ngrams(), batch)) == 110_000
