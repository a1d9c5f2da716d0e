"""The extraction kernels find the rules of the definition, with a buffer of any size."""

from fractions import Fraction

import numpy as np
import pytest
from tests.reference import examples
from tests.reference.examples import RandomPair
from tests.tools.lab import definition as reference
from tests.tools.lab.grammars import Extracted, extract_runs, extracted, format_rules, merged

from hierogram.samplers.grammar import rules as notation
from hierogram.tools.lab.comparison.extraction import (
    MASS_UNIT,
    ExtractionError,
    ExtractionLimits,
    read_sources,
    row_shape,
)

LIMITS = [ExtractionLimits(), ExtractionLimits(4, 3), ExtractionLimits(5, 4)]


def assert_as_defined(counts: Extracted, pairs: list[RandomPair], limits: ExtractionLimits) -> None:
    occurrences, masses = reference.extract(pairs, limits.phrase_words, limits.source_symbols)
    assert {rule: number for rule, (number, _) in counts.items()} == occurrences
    for rule, (_, mass) in counts.items():
        assert mass == pytest.approx(float(masses[rule]), abs=1e-6)
    assert sum(masses.values()) == pytest.approx(sum(mass for _, mass in counts.values()), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_extracted_rules_and_masses_equal_the_definition(limits: ExtractionLimits) -> None:
    # A small vocabulary makes rules repeat within and between pairs.
    pairs = examples.random_pairs(seed=41, count=120, longest=7, words="abc")
    pairs += examples.random_pairs(seed=42, count=4, longest=14)
    assert_as_defined(extracted(merged(extract_runs(pairs, limits, 1 << 15), limits), pairs, limits), pairs, limits)


def test_small_buffers_make_many_runs_and_the_same_grammar() -> None:
    pairs = examples.random_pairs(seed=43, count=200, longest=9, words="abcd")
    limits = ExtractionLimits()
    whole = extract_runs(pairs, limits, 1 << 15)
    assert len(whole) == 1
    for capacity, rules_per_block in ((150, 7), (400, 1)):
        runs = extract_runs(pairs, limits, capacity)
        assert len(runs) > 5
        np.testing.assert_array_equal(merged(runs, limits, rules_per_block), whole[0])


def test_a_phrase_with_more_rules_than_a_buffer_is_refused() -> None:
    pair: RandomPair = (tuple("abcde"), tuple("ABCDE"), {(k, k) for k in range(5)})
    with pytest.raises(ExtractionError, match="has more than 3 rules, the size of the buffer"):
        extract_runs([pair], ExtractionLimits(), 3)


def test_the_rules_of_one_pair_equal_rules_extracted_by_hand() -> None:
    pair: RandomPair = (("ne", "va", "pas"), ("not", "go"), {(0, 0), (1, 1), (2, 0)})
    limits = ExtractionLimits()
    rows = merged(extract_runs([pair], limits, 100), limits)
    # The phrases are `va`, which has one rule, and the whole pair, which has two rules.
    assert sorted(format_rules(rows, [pair], limits)) == [
        "ne [X,1] pas ||| not [X,1] ||| 0.5",
        "ne va pas ||| not go ||| 0.5",
        "va ||| go ||| 1",
    ]


def test_scopes_and_word_counts_match_the_rules() -> None:
    pairs = examples.random_pairs(seed=44, count=60, longest=9)
    limits = ExtractionLimits()
    rows = merged(extract_runs(pairs, limits, 1 << 15), limits)
    sides, scopes, words = read_sources(rows, row_shape(limits))
    found_scopes = set()
    for k, line in enumerate(format_rules(rows, pairs, limits)):
        rule = notation.Rule.parse(line.rsplit(" ||| ", 1)[0])
        assert (scopes[k], words[k]) == (rule.scope, rule.source_terminals)
        numbers = sides.symbols[sides.starts[k] : sides.starts[k + 1]]
        assert [-n if n < 0 else None for n in numbers] == [s if isinstance(s, int) else None for s in rule.source]
        found_scopes.add(rule.scope)
    assert found_scopes == {0, 1, 2}


def test_rows_are_sorted_by_symbols() -> None:
    pairs = examples.random_pairs(seed=45, count=60, longest=9)
    rows = merged(extract_runs(pairs, ExtractionLimits(), 300), ExtractionLimits())
    symbols = [tuple(row[: row_shape(ExtractionLimits()).symbol_width].tolist()) for row in rows]
    assert symbols == sorted(set(symbols))


def test_masses_are_written_with_up_to_four_decimals() -> None:
    pair: RandomPair = (("a",), ("A",), {(0, 0)})
    rows = merged(extract_runs([pair], ExtractionLimits(), 10), ExtractionLimits())
    shape = row_shape(ExtractionLimits())
    cases = [
        (Fraction(1, 3), "0.3333"),
        (Fraction(5, 2), "2.5"),
        (Fraction(7), "7"),
        (Fraction(99_999_999, 10**8), "1"),
        (Fraction(1003, 100), "10.03"),
        (Fraction(1, 10**5), "0"),
    ]
    for mass, text in cases:
        rows[0, shape.mass] = round(mass * MASS_UNIT)
        assert format_rules(rows, [pair], ExtractionLimits()) == [f"a ||| A ||| {text}"]
