"""The store: schema, transactions, bulk reads and writes, on SQLite and Postgres.

Numpy, and modules that need it, are imported in functions, because numpy loads slowly and most reads do not need it.
"""
