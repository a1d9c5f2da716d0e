"""Write transactions: the store's lock, its position and its running totals."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Connection, CursorResult, Engine, insert, select, update

from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.database.connection import POSTGRES, hide_password, is_read_only, reading, writing_connection
from hierogram.storage.database.loading import Loader, PostgresLoader
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import SAMPLING, SETTLED, UNALIGNED, WAITING
from hierogram.storage.records.columns import KeyRun
from hierogram.storage.schema.tables import store_state


@dataclass(slots=True)
class StoreState:
    """The row of `store_state`: positions, last assigned ids, and running totals."""

    position: int = 0
    grammar_position: int = 0
    last_pair_id: int = 0
    last_rule_id: int = 0
    last_word_id: int = 0
    unaligned: int = 0
    waiting: int = 0
    sampling: int = 0
    settled: int = 0
    source_types: int = 0
    target_types: int = 0
    rules_in_use: int = 0
    rules_expected: int = 0
    rules_stored: int = 0
    rule_tokens: int = 0
    expected_tokens: float = 0.0
    rejected_lines: int = 0
    sweeps: int = 0
    last_change_day: str = ""
    last_rule_id_at_day_start: int = 0

    def count_pairs(self, state: str, number: int) -> None:
        """Add to the number of pairs in a state; raises `StoreError` for an unknown state."""
        if state not in self.pairs():
            raise StoreError(
                f"unknown state of a pair {state!r}: expected {UNALIGNED}, {WAITING}, {SAMPLING} or {SETTLED}"
            )
        setattr(self, state, getattr(self, state) + number)

    def pairs(self) -> dict[str, int]:
        """Return the numbers of pairs by state."""
        return {UNALIGNED: self.unaligned, WAITING: self.waiting, SAMPLING: self.sampling, SETTLED: self.settled}


_STATE = select(*(column for column in store_state.columns if column.name != "id"))


def read_state(connection: Connection, *, lock: bool = False) -> StoreState:
    """Return the position and totals. With `lock`, other writers wait until this transaction ends."""
    row = connection.execute(_STATE.with_for_update() if lock else _STATE).one()
    return StoreState(*row)


def create_state(connection: Connection) -> None:
    """Insert the totals of a new store."""
    connection.execute(insert(store_state).values(id=1, **asdict(StoreState())))


Words = dict[str, dict[str, int]]
"""Ids of words by side and token."""


class RowCache:
    """Cache of immutable rows of earlier transactions: word ids, runs of the key index by id."""

    _LIMIT = 1_000_000

    def __init__(self) -> None:
        self.words = _no_words()
        self.key_runs: dict[int, KeyRun] = {}

    def learn(self, words: Words, key_runs: dict[int, KeyRun]) -> None:
        """Cache committed rows."""
        for side, ids in words.items():
            if len(self.words[side]) + len(ids) > self._LIMIT:
                self.words[side] = {}
            self.words[side].update(ids)
        self.key_runs = key_runs


def _no_words() -> Words:
    return {SOURCE: {}, TARGET: {}}


@dataclass(slots=True)
class WriteTransaction:
    """Transaction that holds the store's lock; at its end, `state` is written back, one position further.

    If `changes_grammar` is set, that position also becomes the grammar position: the content of exports may have
    changed. `seen_words` were cached before it; `new_words` were found or assigned ids in it. `key_runs` are cached
    runs, see `hierogram.storage.grammar.key_runs`.
    """

    connection: Connection
    loader: Loader
    state: StoreState
    seen_words: Words
    key_runs: dict[int, KeyRun]
    new_words: Words = field(default_factory=_no_words)
    before_commit: "list[Callable[[WriteTransaction], None]]" = field(default_factory=list)
    changes_grammar: bool = False


@contextmanager
def write_transaction(engine: Engine, memory: RowCache, *, durable: bool = True) -> Iterator[WriteTransaction]:
    """Open a write transaction: committed at the end, rolled back by any exception; `durable` as for its connection."""
    with writing_connection(engine, durable=durable) as connection:
        state = read_state(connection, lock=True)
        loader = (PostgresLoader if connection.dialect.name == POSTGRES else Loader)(connection)
        transaction = WriteTransaction(connection, loader, state, memory.words, dict(memory.key_runs))
        yield transaction
        for ending in transaction.before_commit:
            ending(transaction)
        state.position += 1
        if transaction.changes_grammar:
            state.grammar_position = state.position
        connection.execute(update(store_state).values(**asdict(state)))
    memory.learn(transaction.new_words, transaction.key_runs)


class StoreAccess:
    """Shared state of a store's parts: the engine, the cache, and the lease if this store object holds it."""

    def __init__(self, engine: Engine, schema: str) -> None:
        self.engine = engine
        self._schema = schema
        self._memory = RowCache()
        self._lease: str | None = None
        self.url = hide_password(engine.url)
        self.read_only = is_read_only(engine)

    def close(self) -> None:
        """Close the store's connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reading(self) -> AbstractContextManager[Connection]:
        return reading(self.engine)

    def _writing(self, *, durable: bool = True) -> AbstractContextManager[WriteTransaction]:
        return write_transaction(self.engine, self._memory, durable=durable)


def now() -> datetime:
    """Return the time in UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


def new_id(result: CursorResult[tuple[object, ...]]) -> int:
    """Return the id of the inserted row."""
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])
