"""Connections, transactions, bulk loading, leases, backups and migrations on SQLite and Postgres."""
