"""Averages as records: read as they were written, refused where they are damaged, and moved without a rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import examples
from tests.reference.forest import direct_forest
from tests.reference.models import Dirichlet
from tests.samplers.synchronous.averaged_chain import AveragedChain

from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.averages import Averages, add_trees, empty_averages
from hierogram.samplers.forests.records import fragments_of, moved, read_averages, trees_among, write_averages
from hierogram.samplers.forests.samples import keep_samples
from hierogram.samplers.grammar.columns import Blobs, join_blobs, no_blobs, split_blobs
from hierogram.samplers.grammar.uses import LEAST_SHOWN, MOST_SWEEPS

FORESTS = [direct_forest(*pair) for pair in examples.random_pairs(7, 6, 6, "ab")]
MODEL = Dirichlet(strength=2.0, source_words=3, target_words=3)


def chain(seed: int = 1) -> AveragedChain:
    return AveragedChain(FORESTS, MODEL, seed=seed)


def after(sweeps: int, seed: int = 1) -> AveragedChain:
    made = chain(seed)
    for _ in range(sweeps):
        made.average()
    return made


def weights(made: AveragedChain, *records: Blobs) -> dict[tuple[int, int], tuple[int, int]]:
    """Weight and variance of each rule, by key, over all records; those of 0 are left out."""
    deltas = empty_deltas()
    for some in records:
        deltas = add_fragments(deltas, made.batch, fragments_of(some))
    keys = [tuple(map(int, key)) for key in deltas.keys[: deltas.entries]]
    both = zip(deltas.sampled[: deltas.entries].tolist(), deltas.variances[: deltas.entries].tolist(), strict=True)
    return {(high, low): pair for (high, low), pair in zip(keys, both, strict=True) if pair != (0, 0)}


@pytest.mark.parametrize("sweeps", [1, 7, 40])
def test_records_are_read_as_they_were_written(sweeps: int) -> None:
    made = after(sweeps)
    records = write_averages(made.chain.averages)
    read = read_averages(made.batch, records)
    again = write_averages(read)
    assert split_blobs(again) == split_blobs(records)
    assert read.sweeps.tolist() == [sweeps] * len(FORESTS)
    # Going on from what was read is going on as if nothing had been.
    other = after(sweeps)
    other.chain = other.chain._replace(averages=read)
    for _ in range(20):
        made.average()
        other.average()
    assert split_blobs(write_averages(made.chain.averages)) == split_blobs(write_averages(other.chain.averages))


def test_nothing_averaged_is_no_record() -> None:
    made = chain()
    assert split_blobs(write_averages(empty_averages(made.batch))) == [b""] * len(FORESTS)
    nothing = join_blobs([b"\0\0\0"] * len(FORESTS))
    assert len(fragments_of(nothing).pairs) == 0
    assert read_averages(made.batch, nothing).sweeps.tolist() == [0] * len(FORESTS)


@settings(deadline=None)
@given(st.data())
def test_damaged_records_are_refused_or_read(data: st.DataObject) -> None:
    made = CHAIN
    strings = split_blobs(RECORDS)
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
        add_fragments(empty_deltas(), made.batch, fragments_of(records))
    except DerivationError:
        return
    # Other numbers of uses are as good as these; a fragment that does not fit is not.
    assert len(fragments_of(records).pairs) <= sum(map(len, strings))


@pytest.mark.parametrize(("first", "second"), [(0, 5), (5, 6), (30, 34), (5, 0), (20, 20)])
def test_what_moves_is_the_difference(first: int, second: int) -> None:
    one, other = after(first), after(second)
    before, now = write_averages(one.chain.averages), write_averages(other.chain.averages)
    change = moved(fragments_of(before), fragments_of(now))
    assert (change.weights != 0).any() or first == second
    deltas = add_fragments(empty_deltas(), one.batch, fragments_of(before))
    deltas = add_fragments(deltas, one.batch, change)
    keys = [tuple(map(int, key)) for key in deltas.keys[: deltas.entries]]
    both = zip(deltas.sampled[: deltas.entries].tolist(), deltas.variances[: deltas.entries].tolist(), strict=True)
    found = {key: pair for key, pair in zip(keys, both, strict=True) if pair != (0, 0)}
    assert found == weights(other, now)


def test_weights_are_means_and_what_is_rare_is_not_counted() -> None:
    made = after(40)
    averages = made.chain.averages
    fragments = fragments_of(write_averages(averages))
    assert (fragments.weights > 0).all()
    counted = 0
    for pair in range(len(FORESTS)):
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair]):
            entry = averages.entry[k]
            mean = int(entry["uses"]) // 40
            assert entry["uses"] > 0
            counted += mean if entry["shared"] or mean >= LEAST_SHOWN else 0
    assert int(fragments.weights.sum()) == counted
    # What is kept and what is forgotten add up to all uses.
    kept = sum(
        int(averages.entry[k]["uses"])
        for pair in range(len(FORESTS))
        for k in range(averages.first[pair], averages.first[pair] + averages.taken[pair])
    )
    assert kept <= int(averages.total.sum())
    assert kept > 0.8 * int(averages.total.sum())


def uses_of(averages: Averages) -> dict[tuple[int, int, int], int]:
    """The uses that are kept: by pair, and by the hashes of both sides."""
    return {
        (pair, int(entry["source_hash"]), int(entry["target_hash"])): int(entry["uses"])
        for pair in range(len(FORESTS))
        for entry in averages.entry[averages.first[pair] : averages.first[pair] + averages.taken[pair]]
    }


def test_old_sweeps_are_forgotten_slowly() -> None:
    many, few = after(3), after(3)
    many.chain.averages.sweeps[:] = MOST_SWEEPS - 1
    for made in (many, few):
        # As if there had been so many sweeps: a rule with few uses would be negligible among them.
        made.chain.averages.entry["uses"] *= MOST_SWEEPS // 3
        made.average()
    assert many.chain.averages.sweeps.tolist() == [MOST_SWEEPS // 2] * len(FORESTS)
    assert few.chain.averages.sweeps.tolist() == [4] * len(FORESTS)
    assert (many.chain.averages.total == few.chain.averages.total // 2).all()
    whole, halved = uses_of(few.chain.averages), uses_of(many.chain.averages)
    assert halved
    assert halved == {rule: whole[rule] // 2 for rule in halved}


def test_trees_that_earlier_versions_retained_are_averaged_over() -> None:
    made = chain()
    due = np.ones(len(FORESTS), np.bool_)
    retained = no_blobs(len(FORESTS))
    expected = empty_averages(made.batch)
    for _ in range(3):
        made.sweep()
        retained = keep_samples(made.batch.forests, retained, made.state, due, 8)
        add_trees(expected, made.batch, made.state, due)
    assert split_blobs(trees_among(retained)) == split_blobs(retained)
    assert len(fragments_of(retained).pairs) == 0
    read = read_averages(made.batch, retained)
    assert split_blobs(write_averages(read)) == split_blobs(write_averages(expected))


CHAIN = after(12)
RECORDS = write_averages(CHAIN.chain.averages)
