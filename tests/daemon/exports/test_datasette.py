"""The Datasette configuration: its queries run on the store's file."""

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.conftest import Run, create_learned_store


def test_exported_datasette_queries_run_on_the_store(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    create_learned_store(f"sqlite:///{tmp_path}/grammar.db", corpus)
    ran = hierogram("--store", "grammar.db", "export", "--format", "datasette")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("datasette serve grammar.db --metadata datasette.json --setting ")
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
    assert found["what-are-the-translations-of-a-phrase-with-their-probabilities-and-errors"]
    assert {parameter for query in queries.values() for parameter in re.findall(r":(\w+)", query["sql"])} == set(values)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in queries)


@pytest.mark.slow
def test_datasette_runs_a_canned_query_hides_internal_tables_and_describes_columns(
    hierogram: Run, corpus: Path, tmp_path: Path
) -> None:
    create_learned_store(f"sqlite:///{tmp_path}/grammar.db", corpus)
    printed = hierogram("--store", "grammar.db", "export", "--format", "datasette")
    [command] = [shlex.split(line) for line in printed.out.splitlines() if line.startswith("datasette ")]

    def get(path: str) -> str:
        # --get answers one request without a server.
        ran = subprocess.run(
            [sys.executable, "-m", *command, "--get", path], cwd=tmp_path, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    found = json.loads(get("/grammar/which-pairs-use-a-rule.json?source=la+maison&target=the+house&_shape=array"))
    assert {"pair_id", "corpus", "uses", "source", "target"} <= set(found[0])
    tables = {table["name"]: table for table in json.loads(get("/grammar.json"))["tables"]}
    assert [name for name in ("rules", "derivations", "sentence_pairs") if tables[name]["hidden"]] == [
        "rules",
        "derivations",
    ]
    assert "Standard error of" in get("/grammar/rule_changes")


def test_datasette_export_requires_an_sqlite_store_and_an_existing_folder(hierogram: Run) -> None:
    ran = hierogram("--store", "postgresql://nobody@localhost/nowhere", "export", "--format", "datasette")
    assert ran.code == 2
    assert "hierogram browse" in ran.err
    assert hierogram("--store", "a.db", "export", "--format", "datasette", "--to", "versions").code == 2
    assert hierogram("--store", "a.db", "export", "--format", "datasette", "-o", "no/such/folder/x.json").code == 3
