"""Summaries of derivations compared with plain Python: rule uses, averages over sweeps, and records."""

from collections import Counter
from math import prod
from random import Random

import numpy as np
import pytest
from tests.reference.averages import draw_of_rule, error_variance, round_uses
from tests.reference.itg.samplers import (
    PAIR,
    SOURCE_NULL,
    TARGET_NULL,
    Dish,
    Pair,
    Tree,
    derivations,
    find_dish,
    list_uses,
    phrase,
)
from tests.samplers.itg.corpora import Pairs, make_kernel, to_batch, to_derivations, to_trees

from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.grammar.columns import empty_blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.numbers import MAX_SWEEPS, ONE_SQUARE, ONE_USE, SHARED_ROUNDING_STEP, VARIANCE_PER_DRAW
from hierogram.samplers.itg.batch import ItgBatch
from hierogram.samplers.itg.derivations import decode, encode
from hierogram.samplers.itg.starts import MODEL1
from hierogram.samplers.itg.summaries import (
    RuleUses,
    add_derivations,
    empty_averages,
    list_derivation_uses,
    list_record_uses,
    read_averages,
    sum_uses,
    write_averages,
)
from hierogram.tools.lab.baselines.itg import make_plan

PAIRS: Pairs = (((0, 1, 0), (1, 2)), ((1,), (0, 0, 1)), ((), (1, 1)), ((2, 0), ()), ((0, 1), (0, 1)))


def count_rules(pair: Pair, tree: Tree) -> Counter[Dish]:
    return Counter(find_dish(pair, use) for use in list_uses(tree))


def by_rule(batch: ItgBatch, uses: RuleUses) -> dict[tuple[int, Dish], tuple[int, int, int]]:
    """Return the kernels' added count, expected uses and variance, by pair and rule."""
    found: dict[tuple[int, Dish], tuple[int, int, int]] = {}
    f, e = batch.source_words, batch.target_words
    for rule, pair, *numbers in zip(*(column.tolist() for column in uses), strict=True):
        if rule < 2:
            name = (rule, -1, -1)
        elif rule < 2 + f:
            name = (SOURCE_NULL, rule - 2, -1)
        elif rule < 2 + f + e:
            name = (TARGET_NULL, -1, rule - 2 - f)
        elif (of_type := rule - 2 - f - e) < len(batch.type_source):
            name = (PAIR, int(batch.type_source[of_type]), int(batch.type_target[of_type]))
        else:
            of_phrase = of_type - len(batch.type_source)
            (s, t), (i, x, *_) = batch.phrases.sizes[of_phrase].tolist(), batch.phrases.first[of_phrase].tolist()
            words = batch.source[i : i + s].tolist(), batch.target[x : x + t].tolist()
            name = (phrase(s, t), *map(tuple, words))
        before = found.get((pair, name), (0, 0, 0))
        found[pair, name] = (before[0] + numbers[0], before[1] + numbers[1], before[2] + numbers[2])
    return found


def random_trees(random: Random, longest: int = 1) -> tuple[Tree, ...]:
    return tuple(random.choice(derivations(len(f), len(e), longest)) for f, e in PAIRS)


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_rule_uses_match_the_twin(longest: int) -> None:
    batch = to_batch(PAIRS, longest)
    random = Random(3)
    for first in (0, 2):
        trees = random_trees(random, longest)
        chosen, averaged = np.array([random.choices((False, True), k=2) for _ in PAIRS[first:]]).T.copy()
        found = by_rule(batch, list_derivation_uses(batch, to_derivations(batch, trees), chosen, averaged, first))
        # The current uses of pairs without averages are also their expected uses.
        expected = {
            (pair, rule): (uses, uses * ONE_USE * drawn, uses * VARIANCE_PER_DRAW * ONE_SQUARE * drawn)
            for pair, drawn in enumerate((~averaged).tolist(), first)
            if chosen[pair - first]
            for rule, uses in count_rules(PAIRS[pair], trees[pair]).items()
        }
        assert found == expected


@pytest.mark.parametrize("longest", [1, 2, 3])
def test_averages_are_the_mean_uses_in_all_sweeps(longest: int) -> None:
    batch = to_batch(PAIRS, longest)
    random = Random(5)
    averages = empty_averages(batch)
    expected: list[Counter[Dish]] = [Counter() for _ in PAIRS]
    sweeps = [0] * len(PAIRS)
    for _ in range(9):
        trees = random_trees(random, longest)
        due = np.array([random.random() < 0.7 for _ in PAIRS])
        add_derivations(batch, to_derivations(batch, trees), due, averages)
        for pair in np.flatnonzero(due).tolist():
            expected[pair] += count_rules(PAIRS[pair], trees[pair])
            sweeps[pair] += 1
    assert averages.sweeps.tolist() == sweeps
    records = write_averages(batch, averages)
    again = read_averages(batch, records)
    assert (again.uses == averages.uses).all()
    assert (again.sweeps == averages.sweeps).all()
    # A rule that occurs at two places of a pair is rounded at each.
    one = list_record_uses(batch, records)
    found = by_rule(batch, one)
    for pair, of_pair in enumerate(expected):
        for rule, uses in of_pair.items():
            count, mean, _ = found.pop((pair, rule))
            assert count == 0
            assert abs(uses * ONE_USE / sweeps[pair] - mean) < 5
    assert found == {}
    of_pair = np.array(sweeps)[one.pairs]
    assert one.variances.tolist() == [
        error_variance(m, s) for m, s in zip(one.expected_uses.tolist(), of_pair.tolist(), strict=True)
    ]


STRAIGHT: Tree = (0, (PAIR,), (PAIR,))
NULLS: Tree = (0, (0, (SOURCE_NULL,), (SOURCE_NULL,)), (0, (TARGET_NULL,), (TARGET_NULL,)))


@pytest.mark.parametrize(("before", "since"), [(0, 40), (31, 600), (512, 512), (1_000, 20_000), (2_048, 1_500)])
def test_averages_follow_a_chain_that_changes_its_derivation(before: int, since: int) -> None:
    batch = to_batch((((0, 1), (0, 1)),))
    averages = empty_averages(batch)
    due = np.ones(1, np.bool_)
    put_in = [to_derivations(batch, [tree]) for tree in (NULLS, STRAIGHT)]
    weights, sweeps = [0.0, 0.0], 0
    for number in range(before + since):
        which = int(number >= before)
        add_derivations(batch, put_in[which], due, averages)
        weights[which] += 1
        sweeps += 1
        if sweeps == MAX_SWEEPS:
            weights, sweeps = [weight / 2 for weight in weights], sweeps // 2
    assert averages.sweeps.tolist() == [sweeps]
    twins = [count_rules(((0, 1), (0, 1)), tree) for tree in (NULLS, STRAIGHT)]
    found = by_rule(batch, list_record_uses(batch, write_averages(batch, averages)))
    for rule in twins[0] | twins[1]:
        truth = sum(weight * own[rule] for weight, own in zip(weights, twins, strict=True)) / sweeps
        _, mean, _ = found.get((0, rule), (0, 0, 0))
        # Halves of odd sums are rounded down at each of the rule's places. Rare rules are rounded to 0 or 1/32.
        lost = 3 * (before + since >= MAX_SWEEPS) / sweeps + (1 / 32 if mean == 0 else 1 / ONE_USE)
        gained = 1 / 32 if mean == SHARED_ROUNDING_STEP else 1 / ONE_USE
        assert -gained <= truth - mean / ONE_USE < lost
    assert int(averages.uses.max()) <= 3 * sweeps


def test_small_uses_of_a_place_are_rounded_at_random() -> None:
    """A place used in one of 90 sweeps has 1/90 of a use, which its own draw rounds to 1/32 or 0."""
    pairs = (((0, 1), (0, 1)),) * 40
    batch = to_batch(pairs)
    averages = empty_averages(batch)
    for number in range(90):
        tree = NULLS if number == 3 else STRAIGHT
        add_derivations(batch, to_derivations(batch, [tree] * 40), np.ones(40, np.bool_), averages)
    uses = list_record_uses(batch, write_averages(batch, averages))
    small = uses.expected_uses == SHARED_ROUNDING_STEP
    # The places of the four words without a partner follow the places of the two rules with children.
    expected = [
        (pair, round_uses(ONE_USE, 0, 90, draw_of_rule(pair, place, 0), shared=True))
        for pair in range(40)
        for place in range(2, 6)
    ]
    counted = [(pair, *rounded) for pair, rounded in expected if rounded[0]]
    found = zip(uses.pairs[small], uses.expected_uses[small], uses.variances[small], strict=True)
    assert [tuple(map(int, one)) for one in found] == counted
    # There are 160 places with 1/90 of a use each.
    assert len(counted) / 32 == pytest.approx(160 / 90, abs=0.5)


def drawn_corpus(random: Random) -> Pairs:
    """Return pairs that share words, so that their derivations are ambiguous."""
    return tuple(
        (
            tuple(random.randrange(8) for _ in range(random.randint(1, 6))),
            tuple(random.randrange(8) for _ in range(random.randint(1, 6))),
        )
        for _ in range(24)
    )


def test_averages_do_not_depend_on_when_a_chain_is_committed() -> None:
    """Records are equal whether a chain is committed often or once. Their uses match the exact uses up to rounding."""
    pairs = drawn_corpus(Random(11))
    kernel = make_kernel(pairs)
    state = kernel.init(1, MODEL1)
    sweeps = 200
    due = np.ones(len(pairs), np.bool_)
    committed = {number: empty_averages(kernel.batch) for number in (1, 16, 37, sweeps)}
    exact: list[Counter[Dish]] = [Counter() for _ in pairs]
    for number in range(1, sweeps + 1):
        state, _ = kernel.step(1, state, make_plan(kernel.batch, number))
        for pair, tree in enumerate(to_trees(state)):
            exact[pair] += count_rules(pairs[pair], tree)
        for each in committed:
            add_derivations(kernel.batch, state.derivations, due, committed[each])
            if number % each == 0:
                committed[each] = read_averages(kernel.batch, write_averages(kernel.batch, committed[each]))
    records = [write_averages(kernel.batch, averages) for averages in committed.values()]
    assert len({record.content.tobytes() for record in records}) == 1
    kept = list_record_uses(kernel.batch, records[0])
    total = sum(sum(of_pair.values()) for of_pair in exact) / sweeps
    found = by_rule(kernel.batch, kept)
    for pair, of_pair in enumerate(exact):
        for rule, uses in of_pair.items():
            _, mean, _ = found.get((pair, rule), (0, 0, 0))
            alike = prod(max(1, side.count(word)) for side, word in zip(pairs[pair], rule[1:], strict=True))
            # At each of its places, a rule with less than 1/32 of a use is rounded to 0 or 1/32.
            assert abs(uses / sweeps * ONE_USE - mean) < alike * SHARED_ROUNDING_STEP
    assert int(kept.expected_uses.sum()) / ONE_USE == pytest.approx(total, rel=0.005)


def test_malformed_records_and_derivations_are_refused() -> None:
    batch = to_batch(PAIRS)
    averages = empty_averages(batch)
    add_derivations(batch, to_derivations(batch, random_trees(Random(1))), np.ones(len(PAIRS), np.bool_), averages)
    good = split_blobs(write_averages(batch, averages))
    for bad in (good[0][:-1], good[0] + b"\x7f\x01", good[0] + b"\x00\x00", b"\x00\x01\x01", b"\x80"):
        records = join_blobs([bad, *good[1:]])
        with pytest.raises(DerivationError, match=r"averages of pair (number )?0"):
            read_averages(batch, records)
        with pytest.raises(DerivationError, match=r"averages of pair (number )?0"):
            list_record_uses(batch, records)
    trees = split_blobs(encode(to_derivations(batch, random_trees(Random(1)))))
    for bad in (trees[0][:-1], trees[1], b"\x07", b"\x02" * 99):
        with pytest.raises(DerivationError, match=r"derivation of pair (number )?0"):
            decode(batch, join_blobs([bad, *trees[1:]]))
    # Errors have the number of the pair in the batch, even if the bytes begin with another pair.
    with pytest.raises(DerivationError, match=r"averages of pair number 1"):
        list_record_uses(batch, join_blobs([b"\x80"]), 1)


def test_phrases_that_are_too_long_or_cross_the_end_are_refused() -> None:
    """Checks derivations and records of averages."""
    pairs: Pairs = (((0, 1, 2), (0, 1)), ((0,), (1,)))
    long = encode(to_derivations(to_batch(pairs, 3), [(phrase(3, 2),), (PAIR,)]))
    for longest, fitting in ((3, True), (2, False), (1, False)):
        batch = to_batch(pairs, longest)
        if fitting:
            uses = by_rule(batch, list_derivation_uses(batch, decode(batch, long), *np.ones((2, 2), np.bool_)))
            assert uses[0, (phrase(3, 2), (0, 1, 2), (0, 1))][0] == 1
            assert encode(decode(batch, long)).content.tolist() == long.content.tolist()
            continue
        with pytest.raises(DerivationError, match=r"derivation of pair (number )?0"):
            decode(batch, long)
    batch = to_batch(pairs, 2)
    # A record has the number of sweeps, 2, and one rule. Rules 0 to 12 are straight, inverted, five nulls and six word
    # pairs. Each of the six cells then has three phrase pairs.
    for place, fitting in ((13, True), (13 + 3 * 6 - 1, False), (13 + 3 * 5 + 1, False), (13 + 3 * 3 + 1, True)):
        records = join_blobs([bytes([2, place, 1]), b""])
        if fitting:
            assert len(list_record_uses(batch, records).rules) == 1
            assert write_averages(batch, read_averages(batch, records)).content.tolist() == [2, place, 1]
            continue
        for read in (read_averages, list_record_uses):
            with pytest.raises(DerivationError, match=r"averages of pair (number )?0"):
                read(batch, records)


def test_uses_that_cancel_out_are_omitted() -> None:
    columns = [np.array(column) for column in ([3, 1, 3, 2], [0, 0, 1, 1], [1, 2, -1, 0], [0, 5, 0, 0], [0, 0, 0, 0])]
    found = sum_uses([RuleUses(*columns), RuleUses(*(column[:0] for column in columns))])
    assert [column.tolist() for column in found] == [[1], [0], [2], [5], [0]]
    assert len(sum_uses([]).rules) == 0
    assert len(list_record_uses(to_batch(PAIRS), empty_blobs(len(PAIRS))).rules) == 0
