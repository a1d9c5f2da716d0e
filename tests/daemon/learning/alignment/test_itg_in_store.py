"""Phrase stores whose aligner is the ITG: prior counts, realignment, human links, withdrawal."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import QUICK, Run
from tests.daemon.learning.alignment.arrivals import PAIRS, error_rate, put, texts
from tests.storage.building import aligner_counts

from hierogram.daemon.learning.alignment.incremental import IncrementalAligner, align_pending, apply_pending_corrections
from hierogram.daemon.learning.alignment.text_aligner import TextAligner
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.alignment.models.itg import count_link_uses
from hierogram.samplers.alignment.prior_counts import PriorCounts
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.itg.batch import make_batch
from hierogram.storage.records.aligner import AlignerCounts
from hierogram.storage.records.pairs import parse_links
from hierogram.storage.store import Store, open_store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A store whose aligner is the ITG. Parametrized by database."""
    with open_store(store_url, create=True, settings=replace(QUICK, aligner="itg")) as opened:
        yield opened


@pytest.mark.slow
def test_itg_aligns_new_pairs_and_counts_their_links(store: Store) -> None:
    put(store, 0, 100)
    done = align_pending(store)
    assert (done.pairs, done.realigned) == (100, 0)
    assert error_rate(store, 0, 100) < 0.15
    put(store, 100, 110)
    done = align_pending(store)
    assert (done.pairs, done.realigned) == (10, 0)
    assert error_rate(store, 100, 110) < 0.15
    learn(store, sweeps=1)
    assert verify(store).problems == []
    [again] = IncrementalAligner(store).realign_stale(PAIRS)
    assert again.pairs == 110
    assert verify(store).problems == []
    withdraw_all(store, [row.id for row in store.pairs()], lambda _done: None)
    assert verify(store).problems == []
    assert aligner_counts(store) == AlignerCounts([], [], [])


def test_a_few_new_pairs_are_aligned_with_the_counts_of_given_alignments(store: Store) -> None:
    put(store, 0, 200, given=True)
    put(store, 200, 206)
    assert align_pending(store).trained == 200
    assert error_rate(store, 200, 206) < 0.1
    assert {by for _, _, by in texts(store)[200:]} == {"aligner"}


@pytest.mark.slow
def test_itg_respects_human_links_of_aligned_and_new_pairs(store: Store) -> None:
    put(store, 0, 60)
    align_pending(store)
    learn(store, sweeps=1)
    one = store.pairs()[0]
    source, target = one.source.count(" ") + 1, one.target.count(" ") + 1
    links = parse_links(one.alignment)
    wrong = next((i, j) for i in range(source) for j in range(target) if (i, j) not in links)
    taken = next(link for link in links if not set(link) & set(wrong))
    human_links = KnownLinks(frozenset({wrong}), frozenset({taken}))
    store.set_human_links(one.id, human_links, "a test")
    put(store, 60, 70)
    new = store.pairs()[60]
    size = new.source.count(" ") + 1, new.target.count(" ") + 1
    said_of_new = KnownLinks(frozenset({(0, size[1] - 1)}), frozenset({(size[0] - 1, 0)}))
    store.set_human_links(new.id, said_of_new, "a test")
    assert apply_pending_corrections(store) == 1
    align_pending(store)
    IncrementalAligner(store).realign_stale(PAIRS)
    for row, known in zip(store.pairs_by_id([one.id, new.id]), (human_links, said_of_new), strict=True):
        now = set(parse_links(row.alignment))
        [fixed] = known.fixed
        # The words of the fixed link have no other link.
        assert {link for link in now if link[0] == fixed[0] or link[1] == fixed[1]} == {fixed}
        assert not now & known.forbidden
    assert verify(store).problems == []
    store.set_human_links(one.id, KnownLinks(), "a test")
    assert apply_pending_corrections(store) == 1
    assert f"{wrong[0]}-{wrong[1]}" not in store.pairs_by_id([one.id])[0].alignment.split()
    assert verify(store).problems == []


@pytest.mark.database("sqlite")
def test_default_aligner_links_a_pair_with_counts_of_the_itg(store: Store) -> None:
    put(store, 0, 100)
    align_pending(store)
    row = store.pairs()[3]
    _, [answer] = TextAligner(store).align_texts([(row.source, row.target)])
    true = set(parse_links(row.alignment))
    assert len(true & set(answer.links)) > 0.6 * len(true)


def test_links_of_other_pairs_are_counted_for_each_word_pair() -> None:
    batch = make_batch(np.array([0, 1], np.int32), np.array([0, 2]), np.array([0, 1, 2], np.int32), np.array([0, 3]))
    nothing = np.zeros((3, 8), np.int64), np.zeros(201, np.int64)

    def counts(conditioning: list[int], emitted: list[int], number: list[int], words: int) -> PriorCounts:
        links = np.zeros(words + 1, np.int64)
        columns = np.array(conditioning, np.int32), np.array(emitted, np.int32), np.array(number)
        return PriorCounts(*columns, links, *nothing, 3)

    # Source index 2 and target index 3 mean no word. The pair (1, 9) is not in the batch.
    forward = counts([0, 1, 2, 1], [0, 2, 1, 9], [4, 6, 50, 7], 2)
    backward = counts([0, 2, 3], [0, 1, 0], [2, 10, 80], 3)
    uses = count_link_uses(batch, (forward, backward))
    found = dict(zip(zip(batch.type_source.tolist(), batch.type_target.tolist(), strict=True), uses, strict=True))
    assert {pair: number for pair, number in found.items() if number} == {(0, 0): 3.0, (1, 2): 8.0}
    assert not count_link_uses(batch, ()).any()


def test_init_accepts_the_itg_as_aligner(hierogram: Run, tmp_path: Path) -> None:
    at = ("--store", f"sqlite:///{tmp_path}/s.db")
    refused = hierogram(*at, "init", "--aligner", "itg", "--max-tokens", "300")
    assert (refused.code, "250" in refused.err) == (2, True)
    assert hierogram(*at, "init", "--aligner", "itg").code == 0
    assert hierogram(*at, "init", "--aligner", "bhmm").code == 2
    with open_store(at[1]) as opened:
        assert opened.settings().aligner == "itg"
