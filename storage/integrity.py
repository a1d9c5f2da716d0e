"""The store's own checks: what must hold between its tables, whatever the derivations say."""

from sqlalchemy import Connection, text

from hierogram.storage.connection import SQLITE

_CHECKS = (
    (
        "sentence_pairs {} belong to no corpus",
        "SELECT p.id FROM sentence_pairs p LEFT JOIN corpora c ON c.id = p.corpus_id WHERE c.id IS NULL",
    ),
)


def find_problems(connection: Connection) -> list[str]:
    """What is wrong, one line each; empty when all is well."""
    problems: list[str] = []
    if connection.dialect.name == SQLITE:
        problems += [
            f"SQLite: {line}" for (line,) in connection.execute(text("PRAGMA integrity_check")).tuples() if line != "ok"
        ]
    return problems
