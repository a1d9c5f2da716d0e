"""Runs the migrations on the connection that the caller hands over, within its transaction."""

from alembic import context
from sqlalchemy import Connection

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)
# The caller holds the transaction, also on SQLite, where Alembic would otherwise expect none.
context.configure(connection=connection, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
