"""Rows to put into stores, made from as little as a test wants to say."""

import json
import re
from collections.abc import Iterable
from hashlib import blake2b

from sqlalchemy import text

from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.records import NewPair, PairUpdate, RuleDelta
from hierogram.storage.store import Store

NONTERMINAL = re.compile(r"\[X,[1-9][0-9]*\]\Z")


def pair(
    source: str,
    target: str,
    alignment: str = "0-0",
    *,
    line: int = 1,
    external_id: str | None = None,
    occurrence: int = 0,
) -> NewPair:
    return NewPair(
        source, target, alignment, len(source.split(" ")), len(target.split(" ")), line, external_id, occurrence
    )


def key_of(source: str, target: str) -> tuple[int, int]:
    digest = blake2b(json.dumps([source, target]).encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big", signed=True), int.from_bytes(digest[8:], "big", signed=True)


def delta(
    source: str, target: str, count: int = 0, sampled_count: int = 0, *, key: tuple[int, int] | None = None
) -> RuleDelta:
    key_high, key_low = key or key_of(source, target)
    variables = [bool(NONTERMINAL.match(symbol)) for symbol in source.split(" ")]
    scope = sum(a and b for a, b in zip([True, *variables], [*variables, True], strict=True))
    nonterminals = sum(variables)
    source_terminals = len(variables) - nonterminals
    target_terminals = len(target.split(" ")) - nonterminals
    return RuleDelta(
        key_high,
        key_low,
        source,
        target,
        source_terminals + target_terminals + scope,
        scope,
        nonterminals,
        source_terminals,
        target_terminals,
        nonterminals <= 2 and len(variables) <= 5,
        count,
        sampled_count,
    )


def update(pair_id: int, derivation: bytes = b"d", *, state: str = "sampling", sweep: int = 1) -> PairUpdate:
    return PairUpdate(pair_id, derivation, b"ring of " + derivation, state, 1, sweep)


def ingest(store: Store, pairs: Iterable[NewPair], corpus: str = "corpus") -> int:
    """Stores the pairs in a batch of their own and returns its id."""
    batch = store.begin_ingest(corpus, "file.txt", "bars")
    store.add_pairs(batch, list(pairs))
    store.finish_ingest(batch)
    return batch


def counts_of(store: Store) -> dict[tuple[str, str], tuple[int, int]]:
    """(count, sampled count) of every stored rule."""
    with store.snapshot() as snapshot:
        return {
            (rule.source, rule.target): (rule.count, rule.sampled_count) for rule in snapshot.iterate_all_rule_rows()
        }


def query(url: str, statement: str, **parameters: object) -> list[tuple[object, ...]]:
    """What a person with a database shell would see."""
    engine = make_engine(parse_url(url))
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement), parameters)
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()
