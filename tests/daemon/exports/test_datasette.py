"""The configuration for Datasette: questions that run, over the store's file."""

import json
import re
import sqlite3
from pathlib import Path

from tests.daemon.conftest import Run, teach


def test_canned_queries_run(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    teach(f"sqlite:///{tmp_path}/grammar.db", corpus)
    ran = hierogram("--store", "grammar.db", "export", "--format", "datasette")
    assert ran.code == 0, ran.err
    assert "datasette serve grammar.db --config datasette.json" in ran.out
    written = json.loads((tmp_path / "datasette.json").read_text())
    printed = hierogram("--store", "grammar.db", "export", "--format", "datasette", "-o", "-")
    assert json.loads(printed.out) == written
    assert not (tmp_path / "-").exists()
    assert written["settings"]["allow_facet"] is False
    assert written["settings"]["suggest_facets"] is False
    queries = written["databases"]["grammar"]["queries"]
    values = {"source": "la maison", "target": "the house", "word": "maison", "other_word": "house", "pair": 1}
    with sqlite3.connect(tmp_path / "grammar.db") as connection:
        found = {
            name: connection.execute(query["sql"].rstrip(";"), values).fetchall() for name, query in queries.items()
        }
    connection.close()
    assert len(found) > 20
    assert found["which-translations-has-a-source-side-how-often-how-sure"]
    assert {parameter for query in queries.values() for parameter in re.findall(r":(\w+)", query["sql"])} == set(values)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in queries)


def test_it_is_for_files(hierogram: Run) -> None:
    ran = hierogram("--store", "postgresql://nobody@localhost/nowhere", "export", "--format", "datasette")
    assert ran.code == 2
    assert "hierogram browse" in ran.err
    assert hierogram("--store", "a.db", "export", "--format", "datasette", "--to", "versions").code == 2
    assert hierogram("--store", "a.db", "export", "--format", "datasette", "-o", "no/such/folder/x.json").code == 3
