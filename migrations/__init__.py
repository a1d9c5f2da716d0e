"""Alembic migrations, which create and change the schema of a store."""
