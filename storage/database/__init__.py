"""Connections, transactions, bulk loading, checkpoints and migrations, on SQLite and Postgres."""
