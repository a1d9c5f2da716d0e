"""A file that is truncated during a read gives an error and does not end the process."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.building import query

from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

_SCRIPT = """
import os, sqlite3, sys
from hierogram.storage.browsing.reader import Reader

path = sys.argv[1]
with Reader(f"sqlite:///{path}") as reader, reader.read() as transaction:
    rows = transaction.connection.connection.driver_connection.execute("SELECT token FROM vocabulary ORDER BY id")
    assert rows.fetchone()
    os.truncate(path, 1 << 14)
    try:
        rows.fetchall()
    except sqlite3.DatabaseError as error:
        print(error)
"""


@pytest.mark.database("sqlite")
def test_a_file_truncated_during_a_read_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(f"sqlite:///{path}", create=True, settings=Settings()):
        pass
    # The table has about 4 MB, so reading its first row leaves most of its pages unread.
    query(
        f"sqlite:///{path}",
        "WITH RECURSIVE numbers (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM numbers WHERE k < 20000)"
        " INSERT INTO vocabulary (side, token, count) SELECT 'source', k || ' ' || hex(zeroblob(100)), 1 FROM numbers",
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
    command = [sys.executable, "-c", _SCRIPT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "database disk image is malformed\n"), done.stderr
