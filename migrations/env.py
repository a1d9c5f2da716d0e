"""Run the migrations in the transaction of the caller's connection."""

from alembic import context
from sqlalchemy import Connection

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)
# By default, Alembic assumes that SQLite cannot change a schema in a transaction. Here it can.
context.configure(connection=connection, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
