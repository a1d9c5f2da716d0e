"""Averages of rule uses: records, damage, rounding, a limited number of slots, and changes between sweeps."""

import math
from collections import Counter
from collections.abc import Hashable
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.reference import averages as twins
from tests.reference import examples
from tests.reference.averages import Average, Entry
from tests.reference.forest import direct_forest
from tests.reference.models import Dirichlet
from tests.samplers.synchronous.averaged_chain import AveragedChain, averages_with_slots
from tests.samplers.synchronous.kernel_chain import to_batch

from hierogram.samplers.counts.deltas import CountDeltas, add_fragments, empty_deltas
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.averages import (
    BYTES_PER_SLOT,
    Averages,
    add_missed_uses,
    add_tree,
    draw_of_rule,
    empty_averages,
    end_sweep,
    enter_rule,
    error_variance,
    find_entry,
    mean_uses,
    round_uses,
    step_of,
    threshold,
)
from hierogram.samplers.forests.derivations import Batch, State, begin_walk, initial_state, next_rule, walk_space
from hierogram.samplers.forests.forest import view_pair
from hierogram.samplers.forests.records import fragment_changes, list_fragments, read_averages, write_averages
from hierogram.samplers.grammar.columns import Blobs, empty_blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.numbers import (
    MAX_SWEEPS,
    ONE_SQUARE,
    ONE_USE,
    ROUNDING_DRAWS,
    ROUNDING_STEP,
    SHARED_ROUNDING_STEP,
)
from hierogram.samplers.grammar.settings import CUT, JOINED

FORESTS = [direct_forest(*pair) for pair in examples.random_pairs(7, 6, 6, "ab")]
LONG = direct_forest(tuple("abcde"), tuple("vwxyz"), {(k, k) for k in range(5)})
"""A pair in which every word is a phrase."""
MODEL = Dirichlet(strength=2.0, source_words=3, target_words=3)


def chain(seed: int = 1) -> AveragedChain:
    return AveragedChain(FORESTS, MODEL, seed=seed)


def chain_after(sweeps: int, seed: int = 1) -> AveragedChain:
    made = chain(seed)
    for _ in range(sweeps):
        made.average()
    return made


@cache
def some_records() -> tuple[AveragedChain, Blobs]:
    made = chain_after(12)
    return made, write_averages(made.chain.averages)


def weights(made: AveragedChain, *records: Blobs) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the nonzero weight and variance of each rule, by key, over all records."""
    deltas = empty_deltas()
    for some in records:
        deltas = add_fragments(deltas, made.batch, list_fragments(some))
    return nonzero_weights(deltas)


def nonzero_weights(deltas: CountDeltas) -> dict[tuple[int, int], tuple[int, int]]:
    rows = deltas.entry[["key_high", "key_low", "expected_uses", "variance"]][: deltas.entries].tolist()
    return {(high, low): (uses, variance) for high, low, uses, variance in rows if uses or variance}


@pytest.mark.parametrize("sweeps", [1, 7, 40])
def test_averages_survive_a_round_trip_through_records(sweeps: int) -> None:
    made = chain_after(sweeps)
    records = write_averages(made.chain.averages)
    read = read_averages(made.batch, records)
    again = write_averages(read)
    assert split_blobs(again) == split_blobs(records)
    assert read.sweeps.tolist() == [sweeps] * len(FORESTS)
    # Continuing from the records gives the same result as continuing without a break.
    other = chain_after(sweeps)
    other.chain = other.chain._replace(averages=read)
    for _ in range(20):
        made.average()
        other.average()
    assert split_blobs(write_averages(made.chain.averages)) == split_blobs(write_averages(other.chain.averages))


def test_empty_averages_have_no_record() -> None:
    made = chain()
    assert split_blobs(write_averages(empty_averages(made.batch))) == [b""] * len(FORESTS)
    nothing = empty_blobs(len(FORESTS))
    assert len(list_fragments(nothing).pairs) == 0
    assert read_averages(made.batch, nothing).sweeps.tolist() == [0] * len(FORESTS)


@settings(deadline=None)
@given(st.data())
def test_damaged_records_raise_only_derivation_errors(data: st.DataObject) -> None:
    made, records = some_records()
    strings = split_blobs(records)
    pair = data.draw(st.integers(0, len(strings) - 1))
    damaged = bytearray(strings[pair])
    place = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        damaged[place] = data.draw(st.integers(0, 255))
    else:
        del damaged[place:]
    records = join_blobs([*strings[:pair], bytes(damaged), *strings[pair + 1 :]])
    try:
        read_averages(made.batch, records)
        add_fragments(empty_deltas(), made.batch, list_fragments(records))
    except DerivationError:
        return
    # Damage that only changes use counts cannot be detected, but a fragment that does not fit its forest is refused.
    assert len(list_fragments(records).pairs) <= sum(map(len, strings))


@pytest.mark.parametrize(("first", "second"), [(0, 5), (5, 6), (30, 34), (5, 0), (20, 20)])
def test_fragment_changes_turn_one_record_into_another(first: int, second: int) -> None:
    one, other = chain_after(first), chain_after(second)
    before, now = write_averages(one.chain.averages), write_averages(other.chain.averages)
    change = fragment_changes(list_fragments(before), list_fragments(now))
    assert (change.weights != 0).any() or first == second
    deltas = add_fragments(empty_deltas(), one.batch, list_fragments(before))
    deltas = add_fragments(deltas, one.batch, change)
    assert nonzero_weights(deltas) == weights(other, now)


def entries(averages: Averages, pair: int) -> NDArray[np.void]:
    first = int(averages.first[pair])
    return averages.entry[first : first + int(averages.entry_counts[pair])]


def test_weights_are_rounded_means_of_the_entries() -> None:
    made = chain_after(40)
    averages = made.chain.averages
    fragments = list_fragments(write_averages(averages))
    expected = []
    small = shared = 0
    for pair in range(len(FORESTS)):
        for entry in entries(averages, pair):
            names = int(entry["source_hash"]), int(entry["target_hash"])
            assert int(entry["draw"]) == twins.draw_of_rule(pair, *names)
            sums, is_shared = (int(entry["uses"]), int(entry["missed"])), bool(entry["shared"])
            weight, variance = twins.round_uses(*sums, 40, int(entry["draw"]), shared=is_shared)
            if weight:
                expected.append((pair, weight, variance))
                small += sums[0] < weight * 40
                shared += is_shared and weight < ROUNDING_STEP
    columns = (fragments.pairs, fragments.weights, fragments.variances)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
    assert small
    assert shared


@pytest.mark.parametrize("shared", [0, 1, 2])
@pytest.mark.parametrize("share", [0.002, 0.05, 0.31, 0.5, 0.98, 1.0, 1.3])
def test_rounding_at_random_keeps_the_expectation(shared: int, share: float) -> None:
    """Over all draws, the mean is exact to about step / 256, and the variance of rounding to about step² / 128."""
    sweeps, step = 1900, int(step_of(shared))
    assert step == (SHARED_ROUNDING_STEP if shared else ROUNDING_STEP)
    uses = round(share * step * sweeps)
    rounded = np.array([round_uses(uses, 0, sweeps, step, draw) for draw in range(ROUNDING_DRAWS)])
    assert rounded[:, 0].mean() == pytest.approx(uses / sweeps, abs=step / 2 / ROUNDING_DRAWS + 1)
    of_chain = [int(error_variance(mean, sweeps)) if mean else 0 for mean in rounded[:, 0]]
    assert (rounded[:, 1] - of_chain).mean() == pytest.approx(
        rounded[:, 0].var(), abs=step * step / ROUNDING_DRAWS + step
    )
    assert (set(rounded[:, 0].tolist()) <= {0, step}) == (share <= 1)


def test_rounded_uses_equal_the_rounded_uses_of_the_twin() -> None:
    random = Random(5)
    for sweeps in (1, 2, 26, 100, 1023, 1900, MAX_SWEEPS - 1):
        for _ in range(200):
            uses, missed = (int(random.expovariate(1) * ONE_USE * sweeps / 8) for _ in range(2))
            draw, shared = random.randrange(ROUNDING_DRAWS), random.random() < 0.5
            found = round_uses(uses, missed, sweeps, step_of(int(shared)), draw)
            assert tuple(map(int, found)) == twins.round_uses(uses, missed, sweeps, draw, shared=shared)


def test_a_rule_is_rounded_up_from_its_threshold_on() -> None:
    for sweeps, draw, step in (
        (64, 3, ROUNDING_STEP),
        (1000, 127, ROUNDING_STEP),
        (64, 3, SHARED_ROUNDING_STEP),
        (7, 0, ROUNDING_STEP),
    ):
        least = int(threshold(step, draw, sweeps))
        assert least == twins.threshold(draw, sweeps, shared=step == SHARED_ROUNDING_STEP) // 1 > 0
        assert int(round_uses(least, 0, sweeps, step, draw)[0]) == step
        assert int(round_uses(least - 1, 0, sweeps, step, draw)[0]) == 0
        # A third of the possibly missed uses is added to the uses.
        assert int(round_uses(least - 1, 2, sweeps, step, draw)[0]) == 0
        assert int(round_uses(least - 1, 3, sweeps, step, draw)[0]) == step
    assert (ROUNDING_STEP / ONE_USE, SHARED_ROUNDING_STEP / ONE_USE) == (1 / 4, 1 / 32)


def test_draws_of_rules_are_uniform_and_uncorrelated_between_pairs() -> None:
    random = Random(3)
    hashes = [(random.getrandbits(64), random.getrandbits(64)) for _ in range(4_000)]
    draws = np.array([[int(draw_of_rule(pair, *map(np.uint64, one))) for one in hashes] for pair in (1, 2)])
    assert draws[0].tolist() == [twins.draw_of_rule(1, *one) for one in hashes]
    for of_pair in draws:
        assert of_pair.mean() == pytest.approx((ROUNDING_DRAWS - 1) / 2, abs=3)
        assert set(of_pair.tolist()) == set(range(ROUNDING_DRAWS))
    assert abs(np.corrcoef(draws)[0, 1]) < 0.06


def test_error_variances_follow_their_formula_for_any_number_of_sweeps() -> None:
    for sweeps in (1, 2, 26, 100, 1023, 1900, MAX_SWEEPS - 1):
        for mean in (SHARED_ROUNDING_STEP, ROUNDING_STEP, ONE_USE, 3 * ONE_USE):
            m = mean / ONE_USE
            exact = 0.28 * m * (1 - min(m, 1) / 2) / sweeps**0.5
            assert int(error_variance(mean, sweeps)) / ONE_SQUARE == pytest.approx(exact, abs=1 / ONE_SQUARE)


def test_small_errors_are_not_rounded_to_zero() -> None:
    """A hundred pairs use a rule in one of twenty sweeps."""
    sweeps, pairs, m = 1900, 100, 0.05
    mean = mean_uses(round(m * ONE_USE * sweeps), sweeps)
    variance = pairs * int(error_variance(mean, sweeps)) / ONE_SQUARE
    assert variance**0.5 == pytest.approx((pairs * 0.28 * m * (1 - m / 2) / sweeps**0.5) ** 0.5, rel=1e-3)
    assert variance**0.5 == pytest.approx(0.1771, abs=5e-4)


@pytest.mark.parametrize("m", [1 / 32, 0.05, 0.3, 1.0, 2.5])
def test_mean_uses_are_rounded_without_bias(m: float) -> None:
    sums = range(round(m * 997 * ONE_USE), round(m * 997 * ONE_USE) + 997)
    means = [int(mean_uses(uses, 997)) for uses in sums]
    assert np.mean(means) - np.mean(sums) / 997 == pytest.approx(0, abs=1e-2)


class OnePair:
    """Averages of one pair in a fixed number of slots. Rules are numbers, and fragments are arbitrary bytes."""

    def __init__(self, slots: int) -> None:
        self.averages = averages_with_slots(to_batch([LONG], 0), np.array([slots]))

    def sweep(self, credits: dict[int, tuple[int, int]]) -> None:
        """Finish a sweep like the samplers, given the uses and fragment bytes of each rule."""
        known = {rule: find_entry(self.averages, 0, *self._hashes(rule)) for rule in credits}
        for rule, (uses, _) in credits.items():
            if known[rule] >= 0:
                self.averages.entry[known[rule]]["uses"] += np.uint32(uses)
        for rule, (uses, size) in credits.items():
            if known[rule] < 0:
                fragment = np.full(size, rule % 251, np.uint8)
                enter_rule(self.averages, 0, self._hashes(rule), 0, uses, 0, fragment)
        end_sweep(self.averages, 0)

    def kept(self) -> dict[int, Entry]:
        """Return the kept rules, after checking their fragments."""
        found = {}
        for entry in entries(self.averages, 0):
            start = int(entry["start"])
            fragment = self.averages.content[start : start + int(entry["size"])]
            assert (fragment == int(entry["source_hash"]) % 251).all()
            slots = -(-int(entry["size"]) // BYTES_PER_SLOT)
            found[int(entry["source_hash"])] = Entry(int(entry["uses"]), int(entry["missed"]), slots)
        return found

    def _hashes(self, rule: int) -> tuple[np.uint64, np.uint64]:
        return np.uint64(rule), np.uint64(3 * rule)


def find_draw(rule: Hashable) -> int:
    assert isinstance(rule, int)
    return twins.draw_of_rule(0, rule, 3 * rule)


@pytest.mark.parametrize(("slots", "largest"), [(3, 1), (8, 1), (12, 3), (40, 3)])
def test_averages_with_few_slots_stay_within_their_errors(slots: int, largest: int) -> None:
    random = Random(slots + largest)
    one, twin = OnePair(slots), Average(slots, find_draw)
    sizes = {rule: random.randint(1, BYTES_PER_SLOT * largest) for rule in range(200)}
    for number in range(MAX_SWEEPS + 300):
        # Frequent rules become rare, and new rules appear.
        shift = number // 400
        rules = {min(199, shift + int(random.expovariate(0.3))) for _ in range(random.randint(1, 4))}
        credits = {rule: (random.choice([40, 400, 1500, ONE_USE]), sizes[rule]) for rule in sorted(rules)}
        one.sweep(credits)
        twin.sweep(credits)
        if number % 50 == 0 or number > MAX_SWEEPS - 10:
            assert one.kept() == twin.entries
            assert int(one.averages.floor[0]) == twin.floor
            assert twin.is_within_its_errors()
    assert len(twin.entries) < len(twin.truth)
    assert (twin.floor > 0) == (slots < 40)


def test_missed_uses_raise_the_upper_bounds_of_all_rules() -> None:
    one, twin = OnePair(40), Average(40, find_draw)
    for number in range(90):
        credits = {rule: (500 + 100 * rule, 7) for rule in range(6) if (number + rule) % 3}
        lost = number % 6, 300 + number
        one.sweep(credits)
        add_missed_uses(one.averages, 0, lost[1])
        twin.sweep(credits)
        twin.lose(*lost)
        assert one.kept() == twin.entries
        assert int(one.averages.floor[0]) == twin.floor
    for rule, truth in twin.truth.items():
        entry = twin.entries[rule]
        assert entry.uses < truth <= entry.most


def test_uses_of_a_rule_larger_than_all_slots_count_as_missed() -> None:
    one = OnePair(2)
    one.sweep({1: (700, 2 * BYTES_PER_SLOT + 1)})
    assert one.kept() == {}
    assert int(one.averages.floor[0]) == 700
    one.sweep({2: (100, 1), 3: (90, 2 * BYTES_PER_SLOT + 1)})
    # The large rule has evicted the other rule, and is not stored itself.
    assert one.kept() == {}
    assert int(one.averages.floor[0]) == 890
    one.sweep({4: (50, 1)})
    assert one.kept() == {4: Entry(50, 890, 1)}


SWITCHES = [(0, 40), (31, 600), (512, 512), (1_000, 20_000), (2_048, 1_500), (5_000, 3_000)]


@pytest.mark.parametrize(("before", "since"), SWITCHES)
def test_averages_follow_a_chain_that_changes_its_derivation(before: int, since: int) -> None:
    """The weight of each derivation is its number of sweeps. It is halved whenever the averages are halved."""
    batch = to_batch([LONG], 0)
    states = [initial_state(3, batch, JOINED), initial_state(3, batch, CUT)]
    space, scratch = walk_space(batch), np.empty(3 * batch.max_nodes + 3, np.uint8)
    views = [one_view(batch, state) for state in states]
    averages = empty_averages(batch)
    weights, sweeps = [0.0, 0.0], 0
    for number in range(before + since):
        which = int(number >= before)
        add_tree(averages, 0, views[which], space, scratch)
        weights[which] += 1
        sweeps += 1
        if sweeps == MAX_SWEEPS:
            weights, sweeps = [weight / 2 for weight in weights], sweeps // 2
    assert int(averages.sweeps[0]) == sweeps
    rules = [rules_in(batch, view) for view in views]
    assert rules[0].keys() - rules[1].keys()
    assert rules[1].keys() - rules[0].keys()
    kept = {
        (int(entry["source_hash"]), int(entry["target_hash"])): (int(entry["uses"]), int(entry["missed"]))
        for entry in entries(averages, 0)
    }
    # No rule has been evicted for lack of room.
    assert int(averages.floor[0]) == 0
    for rule in rules[0].keys() | rules[1].keys():
        least = float(twins.threshold(twins.draw_of_rule(0, *rule), sweeps))
        uses, missed = kept.get(rule, (0, math.floor(least)))
        truth = sum(weight * own[rule] for weight, own in zip(weights, rules, strict=True)) * ONE_USE
        assert uses <= truth <= uses + missed + 1
        assert missed <= least
        assert rule in kept or truth <= least


def one_view(batch: Batch, state: State) -> Any:
    """Return a view of the first pair, made in Python because kernels do not count references to arrays."""
    view: Any = view_pair
    return view.py_func(batch, state, 0)


def rules_in(batch: Batch, view: Any) -> Counter[tuple[int, int]]:
    """Return the first pair's rule uses, by the hashes of their sides."""
    space = walk_space(batch)
    found: Counter[tuple[int, int]] = Counter()
    depth = begin_walk(view, space)
    while True:
        v, depth = next_rule(view, space, depth)
        if v < 0:
            return found
        found[int(space.summary[v]["source_hash"]), int(space.summary[v]["target_hash"])] += 1
