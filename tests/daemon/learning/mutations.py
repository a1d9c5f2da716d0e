"""Damage to stored derivations and averages of every kind of grammar, and checks that kernels and repairs detect it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import text
from tests.daemon.learning.every_kind import CASES
from tests.reference.stored import ForestNode, is_itg, is_itg_record, is_record, is_state

from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts, StoredSamples, SweepRequest, find_kind
from hierogram.daemon.learning.kinds.pairs import ForestPairs
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.repairing import repair
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.forests.forest import NO_TAIL, Forests
from hierogram.samplers.grammar.columns import join_blobs, split_blobs
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.records.pairs import PairRow, compute_checksum
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store


def learn_pairs(name: str, url: str) -> tuple[list[PairRow], Settings]:
    """Return the pairs of a store of this kind after some sweeps, without checksums, and its settings."""
    case = CASES[name]
    with open_store(url, create=True, settings=replace(case.settings, span_limit=5)) as store:
        case.fill(store)
        case.add(store)
        learn(store, sweeps=7)
        # Without checksums, only the structure of the bytes is checked.
        return [row._replace(checksum=None) for row in store.pairs()], store.settings()


def mutated(random: np.random.Generator, blob: bytes, others: Sequence[bytes]) -> bytes:
    """Return a copy of a byte string with one of 12 random mutations, which may leave it unchanged."""
    content = bytearray(blob)
    size = len(content)
    first = int(random.integers(0, size + 1))
    last = int(random.integers(first, size + 1))
    match int(random.integers(0, 12)):
        case 0:
            return bytes(size)
        case 1:
            content[first:last] = bytes(last - first)
        case 2:
            content = content[:first]
        case 3:
            content = content[first:]
        case 4:
            content += random.bytes(int(random.integers(1, 9)))
        case 5:
            for _ in range(int(random.integers(1, 4))):
                if size:
                    content[int(random.integers(0, size))] ^= 1 << int(random.integers(0, 8))
        case 6:
            return others[int(random.integers(0, len(others)))]
        case 7:
            for _ in range(int(random.integers(1, 4))):
                if size:
                    content[int(random.integers(0, size))] = int(random.integers(0, 256))
        case 8:
            return random.bytes(int(random.integers(0, 2 * size + 3)))
        case 9:
            content[first:first] = random.bytes(1)
        case 10:
            del content[first : first + 1]
        case _:
            # Insert a continuation byte of a number, or a very large number.
            content[first:first] = (b"\x80", b"\xff\xff\xff\xff\x7f")[int(random.integers(0, 2))]
    return bytes(content)


def forest_nodes(forests: Forests, pair: int) -> list[ForestNode]:
    """Return the nodes of a pair's forest for the reference."""
    tails = forests.tails[int(forests.pair_tail_offset[pair]) :]
    nodes = []
    for node in forests.node[int(forests.node_offset[pair]) : int(forests.node_offset[pair + 1])]:
        first, arity = int(node["tail_offset"]), int(node["arity"])
        edges = [
            [int(tail) for tail in tails[first + k * arity : first + (k + 1) * arity] if tail != NO_TAIL]
            for k in range(int(node["degree"]))
        ]
        nodes.append(ForestNode(edges, bool(node["free"]), int(node["level"])))
    return nodes


@dataclass(slots=True)
class Outcome:
    """Numbers of damaged derivations and averages, in total and still valid for their pair."""

    derivations: int = 0
    derivations_that_fit: int = 0
    averages: int = 0
    averages_that_fit: int = 0


class Fuzz:
    """Mutated pairs of one kind. Kernels must reject the same pairs as the reference, and run on the rest."""

    def __init__(self, rows: list[PairRow], settings: Settings, seed: int) -> None:
        self._rows, self._settings = rows, settings
        self._random = np.random.default_rng(seed)
        self._kind = find_kind(settings)
        self._loaded = self._kind.load(rows, settings)
        self._states = [row.current or b"" for row in rows]
        self._records = [row.averages or b"" for row in rows]
        self._nodes = (
            [forest_nodes(self._loaded.batch.forests, pair) for pair in range(len(rows))]
            if isinstance(self._loaded, ForestPairs)
            else []
        )
        self.outcome = Outcome()
        assert all(self._fits(k, self._states[k]) and self._averages_fit(k, self._records[k]) for k in range(len(rows)))

    def _fits(self, pair: int, state: bytes) -> bool:
        if self._nodes:
            return is_state(state, self._nodes[pair])
        return is_itg(state, self._words(pair), self._settings.phrase_words)

    def _averages_fit(self, pair: int, record: bytes) -> bool:
        if self._nodes:
            return is_record(record, self._nodes[pair])
        return is_itg_record(record, self._words(pair), self._settings.phrase_words)

    def _words(self, pair: int) -> tuple[int, int]:
        row = self._rows[pair]
        return row.source.count(" ") + 1, row.target.count(" ") + 1

    def round(self, sweep: bool = True) -> None:
        """Mutate all derivations and averages, and check that kernels reject exactly what the reference rejects."""
        states = [mutated(self._random, state, self._states) for state in self._states]
        records = [mutated(self._random, record, self._records) for record in self._records]
        refused = self._refused(lambda: self._loaded.decode(join_blobs(states)))
        unread = self._refused(lambda: self._loaded.check_averages(join_blobs(records)))
        for k in range(len(self._rows)):
            assert (k not in refused) == self._fits(k, states[k]), (k, states[k])
            assert (k not in unread) == self._averages_fit(k, records[k]), (k, records[k])
        self.outcome.derivations += len(states)
        self.outcome.derivations_that_fit += len(states) - len(refused)
        self.outcome.averages += len(records)
        self.outcome.averages_that_fit += len(records) - len(unread)
        self._run(
            [self._states[k] if k in refused else state for k, state in enumerate(states)],
            [self._records[k] if k in unread else record for k, record in enumerate(records)],
            sweep,
        )

    @staticmethod
    def _refused(read: Callable[[], object]) -> set[int]:
        try:
            read()
        except DerivationError as error:
            return set(error.pairs)
        return set()

    def _run(self, states: list[bytes], records: list[bytes], sweep: bool) -> None:
        """Encode and count the derivations, then run one sweep or, without `sweep`, only add them to their averages."""
        loaded, kind, settings = self._loaded, self._kind, self._settings
        state = loaded.decode(join_blobs(states))
        assert split_blobs(loaded.encode(state)) == states
        averages = loaded.read_averages(join_blobs(records))
        drawn = StoredSamples(state, join_blobs(records))
        rules = loaded.rule_deltas(None, drawn)
        assert (rules.count >= 0).all()
        assert (rules.expected_uses >= 0).all()
        assert int(loaded.occurrences(state).uses.sum()) == int(rules.count.sum())
        every = np.ones(len(states), np.bool_)
        if sweep:
            chain = kind.chain(EmptyCounts(settings, (10, 10)), ChainConfig(1))
            try:
                chain.add_pairs(loaded, state, ~every)
                request = SweepRequest(np.full(len(states), 100), every, every)
                state, _ = chain.sweep(loaded)(state, averages, request, lambda _: None)
            finally:
                chain.close()
        else:
            loaded.average(averages, state, every)
        loaded.write_averages(averages)

    def show_mutated(self) -> list[RuleUse]:
        """Return the rules of a mutated derivation as pages show them, or none if it does not fit its pair."""
        k = int(self._random.integers(0, len(self._rows)))
        state = mutated(self._random, self._states[k], self._states)
        return (
            self._kind.read_derivation(self._rows[k]._replace(current=state), self._settings)
            if self._fits(k, state)
            else []
        )


def overwrite(store: Store, pair_id: int, current: bytes, averages: bytes, *, checksum: int | None = None) -> None:
    changes = "current = :current, averages = :averages, checksum = coalesce(:checksum, checksum)"
    values = {"current": current, "averages": averages, "checksum": checksum, "pair": pair_id}
    with store.engine.begin() as connection:
        connection.execute(text(f"UPDATE derivations SET {changes} WHERE pair_id = :pair"), values)


def damage_and_repair(store: Store, random: np.random.Generator) -> tuple[int, int]:
    """Damage about 70 % of the pairs and repair them. Returns the numbers of changed pairs and new valid checksums."""
    rows = store.pairs()
    states, records = [row.current or b"" for row in rows], [row.averages or b"" for row in rows]
    detectable, sealed = set(), set()
    for row in rows:
        if random.random() < 0.7:
            state, record = mutated(random, row.current or b"", states), mutated(random, row.averages or b"", records)
            own = compute_checksum(row.id, state, record) if random.random() < 0.5 else None
            overwrite(store, row.id, state, record, checksum=own)
            if own is not None:
                sealed.add(row.id)
            elif (state, record) != (row.current, row.averages):
                detectable.add(row.id)
    assert verify(store).problems
    done = repair(store)
    assert done.remaining_problems == []
    assert detectable <= set(done.reset_pairs) <= detectable | sealed
    undamaged = [row for row in rows if row.id not in detectable | sealed]
    assert store.pairs_by_id([row.id for row in undamaged]) == undamaged
    learn(store, sweeps=1)
    assert verify(store).problems == []
    assert store.count_pairs(["settled"]) == len(rows)
    return len(detectable | sealed), len(sealed)
