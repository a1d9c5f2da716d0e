"""Overlap of two grammars, and the recorded statistics of a chain, on tables small enough to count by hand."""

import numpy as np
import pytest

from hierogram.samplers.counts.models import ModelSettings, build_model
from hierogram.samplers.counts.table import CountTable, empty_table, fill_table
from hierogram.samplers.diagnostics.overlap import (
    GrammarCounts,
    count_uses,
    look_up_counts,
    mean_counts,
    mean_overlap,
    overlap,
    trace_draw,
)
from hierogram.samplers.grammar.keys import pack_size

MODEL = build_model(ModelSettings(), 9, 9, 12)


def make_table(counts: dict[int, int]) -> CountTable:
    """Return a table of rules whose keys are (k << 40, 5 k)."""
    numbers = np.array(list(counts), np.uint64)
    keys = np.stack((numbers << np.uint64(40), np.uint64(5) * numbers), axis=1)
    ones = np.ones(len(numbers), np.int64)
    sizes = pack_size(2 * ones, ones, ones)
    return fill_table(empty_table(12, len(keys)), MODEL, keys, np.array(list(counts.values()), np.int64), sizes)


def grammar(counts: dict[int, int]) -> GrammarCounts:
    return count_uses(make_table(counts))


def test_rules_of_a_table_are_sorted_by_key() -> None:
    found = grammar({3: 7, 1: 2, 2: 1})
    assert (found.keys["high"] >> np.uint64(40)).tolist() == [1, 2, 3]
    assert found.uses.tolist() == [2, 1, 7]


def test_overlaps_equal_values_computed_by_hand() -> None:
    one, other = grammar({1: 3, 2: 1, 3: 2, 4: 4}), grammar({1: 1, 3: 6, 5: 3})
    found = overlap(one, other)
    assert found.rules == pytest.approx(2 / 5)
    # Rules 1, 3 and 4 of one grammar and rules 3 and 5 of the other are used at least twice.
    assert found.used_twice == pytest.approx(1 / 4)
    assert found.uses == pytest.approx(0.1 + 0.2)
    assert overlap(one, one) == (1.0, 1.0, pytest.approx(1.0))


def test_overlap_of_means_can_omit_rare_rules() -> None:
    mean = mean_counts([grammar({1: 3, 2: 1}), grammar({1: 1}), grammar({1: 2, 9: 4})])
    assert mean.uses == pytest.approx([2, 1 / 3, 4 / 3])
    assert overlap(mean, grammar({1: 2, 9: 1}), 0.5).rules == 1.0
    assert mean_overlap([grammar({1: 1}), grammar({1: 1}), grammar({2: 1})]).rules == pytest.approx(1 / 3)


def test_the_mean_overlap_of_one_grammar_is_refused() -> None:
    with pytest.raises(ValueError, match="two grammars"):
        mean_overlap([grammar({1: 1})])


def test_a_trace_records_likelihoods_totals_and_counts() -> None:
    table = make_table({1: 3, 2: 1, 3: 2})
    keys = np.array([[2 << 40, 10], [8 << 40, 40], [1 << 40, 5]], np.uint64)
    assert look_up_counts(table, keys).tolist() == [1, 0, 3]
    assert trace_draw(-7.5, table, keys).tolist() == [-7.5, 6, 3, 1, 0, 3]
