"""Types of columns that both databases have, each in its way, and where tables are registered."""

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Integer, MetaData, Text
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

metadata = MetaData()
"""All tables of a store."""
