"""The store: schema, transactions, bulk reads and writes, on SQLite and Postgres."""
