"""Any text survives a round trip and is compared by bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.building import commit, delta, make_key, make_pairs, pair, query, update
from tests.storage.rows import rule_rows

from hierogram.storage.records.pairs import RejectedLine
from hierogram.storage.store import Store

# Ingest accepts these characters: all except NUL, space, tab, line feed, carriage return, and lone surrogates.
tokens = st.text(
    st.characters(exclude_characters="\0 \t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=6
) | st.sampled_from(["a", "A", "á", "a\u0301", "\u2028", "\u00a0", "\ufeff", "\U0010ffff", "'", '"', "\\", "\\n", "%s"])
sides = st.lists(tokens, min_size=1, max_size=5).map(" ".join)
same_store = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@same_store
@given(rows=st.lists(st.tuples(sides, sides, st.none() | tokens), max_size=8), content=st.binary(max_size=20))
def test_pairs_survive_a_round_trip(store: Store, rows: list[tuple[str, str, str | None]], content: bytes) -> None:
    last = max((row.id for row in store.pairs()), default=0)
    corpus = f"corpus {last} {store.position()}"
    batch = store.begin_ingest(corpus, "'origin' %s \\", "bars")
    unique = {(source, target): external for source, target, external in rows}
    offered = [
        pair(source, target, external_id=None if external is None else f"{n} {external}")
        for n, ((source, target), external) in enumerate(unique.items())
    ]
    totals, _ = store.add_pairs(batch, make_pairs(offered), [RejectedLine(1, "odd", "%(x)s {}", content)])
    assert totals.accepted == len(offered)
    assert [(row.source, row.target) for row in store.pairs(after_id=last)] == list(unique)


@pytest.mark.slow
@same_store
@given(rules=st.sets(st.tuples(sides, sides), min_size=1, max_size=8))
def test_rules_survive_a_round_trip(store: Store, rules: set[tuple[str, str]]) -> None:
    commit(store, [], [delta(*rule, 1, key=make_key(*rule)) for rule in rules])
    with store.snapshot() as snapshot:
        stored = sorted((row.source, row.target) for row in rule_rows(snapshot) if row.count)
    assert stored == sorted(rules)
    for source, target in rules:
        assert (source, target) in [(row.source, row.target) for row in store.find_rules(source, current_sample=True)]
        found = store.find_rules(target=target, current_sample=True)
        assert (source, target) in [(row.source, row.target) for row in found]
    commit(store, [], [delta(*rule, -1) for rule in rules])
    assert store.rule_counts().counts.tolist() == []


def test_derivations_may_be_any_bytes(store: Store, store_url: str) -> None:
    batch = store.begin_ingest("c", "f", "bars")
    store.add_pairs(batch, make_pairs([pair("a", "b")]))
    everything = bytes(range(256))
    commit(store, [update(1, everything)], [])
    (row,) = store.pairs()
    assert row.current == everything
    commit(store, [update(1, b"", sweep=2)], [])
    assert store.pairs()[0].current == b""
    assert query(store_url, "SELECT count(*) FROM derivations") == [(1,)]
