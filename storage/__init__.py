"""The store: schema, transactions, bulk reads and writes, on SQLite and Postgres.

Functions import numpy and the modules that use it, because numpy loads slowly and most reads do not need it.
"""
