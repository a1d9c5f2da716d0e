"""Writing transactions: the store's lock, its position and its running totals."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, insert, select, update

from hierogram.storage.connection import writing_connection
from hierogram.storage.loading import Loader, loader_of
from hierogram.storage.schema import store_state


@dataclass(slots=True)
class StoreState:
    """The one row of `store_state`: the position, the last ids given out, and the running totals."""

    position: int = 0
    last_pair_id: int = 0
    last_rule_id: int = 0
    last_word_id: int = 0
    waiting: int = 0
    sampling: int = 0
    settled: int = 0
    source_types: int = 0
    target_types: int = 0
    rules: int = 0
    rule_tokens: int = 0
    sampled_tokens: int = 0
    rejected: int = 0
    sweeps: int = 0


_COLUMNS = [column for column in store_state.columns if column.name != "id"]


def read_state(connection: Connection, *, lock: bool = False) -> StoreState:
    """The position and totals; with `lock`, no one else writes until this transaction ends."""
    statement = select(*_COLUMNS)
    row = connection.execute(statement.with_for_update() if lock else statement).one()
    return StoreState(*row)


def create_state(connection: Connection) -> None:
    """Writes the row of a new store."""
    connection.execute(insert(store_state).values(id=1, **asdict(StoreState())))


@dataclass(frozen=True, slots=True)
class Writing:
    """A transaction that holds the store's lock; at its end `state` is written back, one position further."""

    connection: Connection
    loader: Loader
    state: StoreState


@contextmanager
def writing(engine: Engine) -> Iterator[Writing]:
    """A writing transaction: committed at the end, rolled back by any exception."""
    with writing_connection(engine) as connection:
        state = read_state(connection, lock=True)
        yield Writing(connection, loader_of(connection), state)
        state.position += 1
        connection.execute(update(store_state).values(**asdict(state)))


def now() -> datetime:
    """The time in UTC, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
