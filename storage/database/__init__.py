"""Connections, transactions, bulk loading, leases, settings, backups and migrations, on SQLite and Postgres."""
