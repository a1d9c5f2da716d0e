"""Command `sql`: queries from the argument and standard input, results as tables and files."""

import csv
import io
import json
import sys
from pathlib import Path

import pandas
import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.cli.inspecting import split_statements

QUERY = "SELECT source, target, count, NULL AS empty FROM current_sample_grammar ORDER BY count DESC, source, target"


def test_results_are_printed_tab_separated_or_as_json(learned_url: str, hierogram: Run) -> None:
    ran = hierogram("--store", learned_url, "sql", QUERY, "--limit", "2")
    assert ran.code == 0, ran.err
    head, first, *rest = ran.out.splitlines()
    assert head == "source\ttarget\tcount\tempty"
    assert len(rest) == 1
    assert "only the first 2 rows" in ran.err
    [row] = json.loads(hierogram("--store", learned_url, "sql", QUERY, "--limit", "1", "--json").out)
    assert first == f"{row['source']}\t{row['target']}\t{row['count']}\t"
    assert row["empty"] is None


def test_output_files_contain_all_rows_of_a_query(learned_url: str, hierogram: Run, tmp_path: Path) -> None:
    rows = json.loads(hierogram("--store", learned_url, "sql", QUERY, "--json").out)
    for name in ("rules.csv", "rules.json", "rules.parquet"):
        ran = hierogram("--store", learned_url, "sql", QUERY, "--output", name)
        assert ran.code == 0, ran.err
        assert f"{name}: {len(rows)} rows" in ran.err
    assert json.loads((tmp_path / "rules.json").read_text()) == rows
    with open(tmp_path / "rules.csv", newline="") as file:
        assert list(csv.DictReader(file)) == [{**row, "count": str(row["count"]), "empty": ""} for row in rows]
    table = pandas.read_parquet(tmp_path / "rules.parquet")
    assert table[["source", "target", "count"]].to_dict("records") == [
        {name: row[name] for name in ("source", "target", "count")} for row in rows
    ]


def test_empty_results_keep_their_columns_in_csv_and_parquet_files(
    learned_url: str, hierogram: Run, tmp_path: Path
) -> None:
    nothing = "SELECT source, target FROM current_sample_grammar WHERE count < 0"
    for name in ("none.csv", "none.json", "none.parquet"):
        assert hierogram("--store", learned_url, "sql", nothing, "--output", name).code == 0
    assert (tmp_path / "none.csv").read_bytes() == b"source,target\r\n"
    assert json.loads((tmp_path / "none.json").read_text()) == []
    assert list(pandas.read_parquet(tmp_path / "none.parquet").columns) == ["source", "target"]


def test_several_queries_run_from_standard_input(
    learned_url: str, hierogram: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "-- a comment; with a semicolon\nSELECT 1 AS one;\nSELECT 'a;b' AS two;"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    ran = hierogram("--store", learned_url, "sql")
    assert ran.code == 0, ran.err
    assert ran.out == "one\n1\n\ntwo\na;b\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DELETE FROM corpora"], "hierogram: "),
        (["SELECT 1", "-o", "a.txt"], "unknown suffix: expected .csv, .json, .parquet"),
        (["SELECT 1; SELECT 2", "-o", "a.csv"], "requires exactly one query, got 2"),
        (["SELECT 1", "-o", "a.csv", "--json"], "mutually exclusive"),
        ([" ; "], "no query"),
    ],
)
def test_invalid_queries_and_options_are_rejected(
    learned_url: str, hierogram: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    ran = hierogram("--store", learned_url, "sql", *arguments)
    assert ran.code in (2, 3)
    assert message in ran.err
    assert not list(tmp_path.glob("a.*"))


def test_statements_end_at_semicolons_outside_literals() -> None:
    assert split_statements("SELECT ';'; SELECT 2 /* ; */ ; ") == ["SELECT ';'", "SELECT 2 /* ; */"]
    assert split_statements("SELECT 1") == ["SELECT 1"]
    assert split_statements(" ;; ") == []
