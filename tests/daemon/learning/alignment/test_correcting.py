"""Human links: alignments respect fixed and forbidden links until these are removed."""

from collections.abc import Iterator

import pytest
from tests.conftest import CopyStore
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.arrivals import put
from tests.storage.building import query

from hierogram.daemon.learning.alignment.incremental import (
    IncrementalAligner,
    align_pending,
    apply_corrections,
    apply_pending_corrections,
)
from hierogram.daemon.learning.alignment.text_aligner import TextAligner
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.library.pairs import StoredPair
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.database.connection import writing_connection
from hierogram.storage.exceptions import HumanLinksError
from hierogram.storage.records.pairs import parse_links
from hierogram.storage.store import Store, open_store

PAIRS = 60
GIVEN = 20
"""Number of pairs ingested with their alignment."""


def put_all(store: Store) -> None:
    put(store, 0, GIVEN, given=True)
    put(store, GIVEN, PAIRS)


@pytest.fixture
def store(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    """Learned store. Pairs 1 to 20 were ingested with an alignment, later pairs were aligned."""
    copy_store("correcting", store_url, make)
    with open_store(store_url) as opened:
        yield opened


def make(url: str) -> None:
    with open_store(url, create=True, settings=QUICK) as opened:
        put_all(opened)
        align_pending(opened, threads=1)
        learn(opened, sweeps=2)


def links(store: Store, pair: int) -> set[tuple[int, int]]:
    [row] = store.pairs_by_id([pair])
    return set(parse_links(row.alignment))


def probabilities(store: Store, pair: int) -> dict[tuple[int, int], float]:
    """Return the stored probability of each link of a pair that the aligner aligned."""
    [row] = store.pairs_by_id([pair])
    found = StoredPair.from_row(row, store.settings()).link_probabilities
    assert found is not None
    return found


def contradicting_links(store: Store, pair: int) -> KnownLinks:
    """Return links that fix a link absent from the pair and forbid one that it has."""
    [row] = store.pairs_by_id([pair])
    found = sorted(links(store, pair))
    height, width = row.source.count(" ") + 1, row.target.count(" ") + 1
    cells = [(s, t) for s in range(height) for t in range(width) if (s, t) not in found and (s, t) != found[0]]
    new = next((s, t) for s, t in cells if (s, t)[0] != found[0][0] and t != found[0][1])
    return KnownLinks(frozenset([new]), frozenset([found[0]]))


@pytest.mark.slow
@pytest.mark.parametrize("pair", [1, GIVEN + 1], ids=["given", "aligned"])
def test_alignments_respect_human_links_and_recover_without_them(store: Store, store_url: str, pair: int) -> None:
    before = links(store, pair)
    known = contradicting_links(store, pair)
    assert store.set_human_links(pair, known, "a test")
    assert not store.is_corrected(pair)
    assert verify(store).problems == []
    assert apply_pending_corrections(store, threads=1) == 1
    assert store.is_corrected(pair)
    assert links(store, pair) >= known.fixed
    assert not links(store, pair) & known.forbidden
    [row] = store.pairs_by_id([pair])
    if pair <= GIVEN:
        assert row.link_probabilities is None
    else:
        assert probabilities(store, pair).keys() == links(store, pair)
        assert {probabilities(store, pair)[link] for link in known.fixed} == {1}
    assert store.human_links([pair]) == {pair: known}
    found = verify(store)
    assert (found.problems, found.human_links) == ([], 2)
    assert query(store_url, f"SELECT restarts FROM schedule_restarts WHERE pair_id = {pair}") == [(1,)]
    # Texts aligned on request also respect the human links of a stored pair with the same texts.
    [row] = store.pairs_by_id([pair])
    _, [answer] = TextAligner(store).align_texts([(row.source, row.target)])
    assert set(answer.links) >= known.fixed
    assert not set(answer.links) & known.forbidden
    [fixed] = known.fixed
    assert answer.posterior[fixed] == 1
    learn(store, sweeps=2)
    assert store.set_human_links(pair, KnownLinks(), "a test")
    assert apply_pending_corrections(store, threads=1) == 1
    if pair <= GIVEN:
        assert links(store, pair) == before
    assert not links(store, pair) & known.fixed
    assert links(store, pair) & known.forbidden
    assert query(store_url, "SELECT count(*) FROM link_corrections") == [(0,)]
    assert verify(store).problems == []
    _, [answer] = TextAligner(store).align_texts([(row.source, row.target)])
    assert not set(answer.links) & known.fixed


@pytest.mark.slow
def test_human_links_survive_realignment_and_are_deleted_with_their_pair(store: Store) -> None:
    pairs = [GIVEN + 1, GIVEN + 2, GIVEN + 3]
    known = {pair: contradicting_links(store, pair) for pair in pairs}
    for pair in pairs:
        store.set_human_links(pair, known[pair], "a test")
    assert apply_pending_corrections(store, threads=1) == 3
    aligner = IncrementalAligner(store, threads=1)
    for _ in range(3):
        aligner.realign_stale(PAIRS)
    for pair in pairs:
        assert links(store, pair) >= known[pair].fixed
        assert not links(store, pair) & known[pair].forbidden
    assert verify(store).problems == []
    withdraw_all(store, pairs[:1], lambda _done: None)
    assert store.human_links(pairs).keys() == set(pairs[1:])
    assert verify(store).problems == []


def test_new_pairs_are_aligned_with_their_human_links(store_url: str) -> None:
    with open_store(store_url, create=True, settings=QUICK) as store:
        put_all(store)
        known = KnownLinks(frozenset([(0, 1), (1, 1)]))
        store.set_human_links(GIVEN + 1, known, "a test")
        assert store.pending_corrections(10) == []
        align_pending(store, threads=1)
        assert links(store, GIVEN + 1) >= known.fixed
        assert probabilities(store, GIVEN + 1).keys() == links(store, GIVEN + 1)
        assert {probabilities(store, GIVEN + 1)[link] for link in known.fixed} == {1}
        assert store.pairs_by_id([1])[0].link_probabilities is None
        assert store.is_corrected(GIVEN + 1)
        assert verify(store).problems == []


def test_links_changed_during_a_correction_are_applied_later(store: Store) -> None:
    known = contradicting_links(store, 1)
    store.set_human_links(1, known, "a test")
    pending = store.pending_corrections(10)
    store.set_human_links(1, KnownLinks(forbidden=known.forbidden), "a test")
    apply_corrections(store, pending, threads=1)
    assert not store.is_corrected(1)
    assert apply_pending_corrections(store, threads=1) == 1
    assert not links(store, 1) & known.fixed
    assert verify(store).problems == []


def test_impossible_links_are_refused(store: Store) -> None:
    with pytest.raises(HumanLinksError, match="out of range"):
        store.set_human_links(1, KnownLinks(frozenset([(0, 99)])), "a test")
    with pytest.raises(HumanLinksError, match="both fixed and forbidden"):
        store.set_human_links(1, KnownLinks(frozenset([(0, 0)]), frozenset([(0, 0)])), "a test")
    assert not store.set_human_links(10**6, KnownLinks(), "a test")
    assert apply_pending_corrections(store) == 0


def test_verify_reports_alignments_that_contradict_human_links(store: Store, store_url: str) -> None:
    store.set_human_links(1, contradicting_links(store, 1), "a test")
    apply_pending_corrections(store, threads=1)
    [(alignment,)] = query(store_url, "SELECT input_alignment FROM link_corrections")
    with writing_connection(store.engine) as connection:
        connection.exec_driver_sql(f"UPDATE sentence_pairs SET alignment = '{alignment}' WHERE id = 1")
    assert any("contradicts their human links" in problem for problem in verify(store).problems)
