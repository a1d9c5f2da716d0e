"""Types of columns that both databases have, each in its way, and options of tables on Postgres."""

from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import BigInteger, DateTime, Index, Integer, Table, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

TEXT = Text().with_variant(Text(collation="C"), "postgresql")
SERIAL = BigInteger().with_variant(Integer(), "sqlite")
MOMENT_FORMAT = "%Y-%m-%d %H:%M:%S"
"""How a moment is written on SQLite, in UTC."""


class Moment(TypeDecorator[datetime]):
    """A time in UTC, in whole seconds: a text that SQLite's date functions take, a timestamp on Postgres."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str] | TypeEngine[datetime]:
        """The type of the column."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> object:
        """The value as the driver takes it."""
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).strftime(MOMENT_FORMAT)

    def process_result_value(self, value: object, dialect: Dialect) -> datetime | None:
        """The value as it was, in UTC."""
        if isinstance(value, str):
            return datetime.strptime(value, MOMENT_FORMAT).replace(tzinfo=UTC)
        return value.astimezone(UTC) if isinstance(value, datetime) else None


MOMENT = Moment()


Item = TypeVar("Item", Table, Index)

# SQLAlchemy imports a dialect as soon as an option of it is named, and with Postgres' comes all that there is for any
# of its drivers, also where the store is a file. So options wait here for an engine that needs them.
_waiting: list[tuple[Table | Index, str, object]] = []


def on_postgres(item: Item, option: str, value: object) -> Item:
    """The item itself, which has the dialect's option as soon as there is an engine for Postgres."""
    _waiting.append((item, f"postgresql_{option}", value))
    return item


def give_postgres_options() -> None:
    """Give tables and indexes their options; whoever makes an engine for Postgres begins with this."""
    while _waiting:
        item, option, value = _waiting.pop()
        item.dialect_kwargs[option] = value
