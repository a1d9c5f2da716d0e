"""Tables of rules in pandas, polars, DuckDB and pyarrow, and their memory for many rules."""

import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow
import pytest

import hierogram as hg
from hierogram.storage.store import Store


def as_dicts(table: hg.RuleTable) -> list[dict[str, object]]:
    return [asdict(rule) for rule in table]


@pytest.fixture
def opened(learned_url: str) -> hg.GrammarStore:
    with hg.open(learned_url) as store:
        yield store


@pytest.mark.parametrize("drawn", [False, True])
def test_the_rule_table_contains_the_rules_of_the_store(opened: hg.GrammarStore, learned: Store, drawn: bool) -> None:
    table = opened.rules(current_sample=drawn)
    assert len(table) > 10
    assert {rule.id: rule for rule in table} == {
        rule.id: rule for rule in learned.find_rules(limit=1 << 40, current_sample=drawn)
    }
    uses = "count" if drawn else "expected_uses"
    assert table.top(7, uses) == learned.find_rules(limit=7, current_sample=drawn)
    assert as_dicts(opened.rules(limit=7, current_sample=drawn)) == [asdict(rule) for rule in table.top(7, uses)]


def test_pandas_polars_duckdb_and_pyarrow_read_rule_tables(opened: hg.GrammarStore) -> None:
    table = opened.rules()
    expected = as_dicts(table)
    assert polars.DataFrame(table).to_dicts() == expected
    assert pyarrow.table(table).to_pylist() == expected
    assert pandas.DataFrame.from_arrow(table).to_dict("records") == expected
    assert table.to_pandas().to_dict("records") == expected
    assert table.to_polars().equals(polars.DataFrame(table))
    # DuckDB finds the table by the name of the variable.
    named = table
    found = duckdb.sql("SELECT * FROM named").fetchall()
    assert named
    assert sorted(found) == sorted(tuple(row.values()) for row in expected)
    # A table can be read more than once.
    assert pyarrow.table(table).num_rows == len(table)


def test_an_empty_table_has_no_rows(store_url: str) -> None:
    with hg.open(store_url, create=True) as store:
        table = store.rules()
        assert (len(table), list(table), table.top(3)) == (0, [], [])
        assert pyarrow.table(table).num_rows == polars.DataFrame(table).height == len(table.to_pandas()) == 0
        assert table._repr_html_()


def test_positions_in_a_table_select_rules(opened: hg.GrammarStore) -> None:
    table = opened.rules()
    every = list(table)
    assert table[0] == every[0]
    assert table[-1] == every[-1]
    with pytest.raises(IndexError, match=f"index {len(every)} is out of range"):
        table[len(every)]
    assert table.column("source") == [rule.source for rule in every]
    assert table.column("scope").tolist() == [rule.scope for rule in every]


def test_special_characters_in_rules_are_preserved_and_are_escaped_in_html(store_url: str) -> None:
    pairs = [("Füße ß", "“feet” \U0001f9b6", "0-0 1-1"), ("<b> &amp;", "a\\ [X,1]", "0-0 1-1")]
    with hg.open(store_url, create=True) as store:
        store.add(pairs)
        store.learn(sweeps=2).run()
        table = store.rules()
        frame = polars.DataFrame(table)
        assert frame["source"].to_list() == table.column("source")
        assert {"Füße", "ß", "<b>", "&amp;"} <= set(" ".join(table.column("source")).split(" "))
        assert {"“feet”", "\U0001f9b6", "a\\"} <= set(" ".join(table.column("target")).split(" "))
        assert "<b>" not in table._repr_html_()


RULES = 1_000_000
MEASURE = """
import re, sys, time
import hierogram as hg
store = hg.open(sys.argv[1])
store.status()
started, used = time.perf_counter(), time.process_time()
table = store.rules()
table.__arrow_c_stream__()
print(len(table), time.perf_counter() - started, time.process_time() - used)
print(*re.findall(r"VmHWM:\\s+([0-9]+)", open("/proc/self/status").read()))
"""


def make_rules(path: Path, rules: int) -> None:
    """Write artificial rules directly into a new store's table."""
    hg.open(path, create=True).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = off")
    rows = (
        (
            k, k, k, f"mot{k % (rules // 5)} [X,1] de la {k % 7}", f"word{k % (rules // 7)} of the [X,1] {k % 13}",
            6, 1, 1, 4, 4, True, k % 5 + 1, k % 5 + 1.5, 0.25,
        )
        for k in range(1, rules + 1)
    )  # fmt: skip
    columns = (
        "id, key_high, key_low, source, target, length, scope, nonterminals, source_terminals, target_terminals, hiero,"
        " count, expected_uses, expected_uses_variance"
    )
    connection.executemany(f"INSERT INTO rules ({columns}) VALUES ({', '.join('?' * 14)})", rows)
    connection.execute("UPDATE store_state SET last_rule_id = ?, rules_in_use = ?", (rules, rules))
    connection.commit()
    connection.close()


@pytest.mark.campaign
def test_a_million_rules_are_read_in_little_time_and_memory(tmp_path: Path) -> None:
    make_rules(tmp_path / "million.db", RULES)
    script = [sys.executable, "-c", MEASURE, str(tmp_path / "million.db")]
    ran = subprocess.run(script, capture_output=True, text=True, check=True)
    number, seconds, _, kilobytes = ran.stdout.split()
    print(ran.stdout)
    assert int(number) == RULES
    assert float(seconds) < 1.5
    assert int(kilobytes) < 300_000


@pytest.mark.slow
def test_a_hundred_thousand_rules_are_read_in_little_time_and_memory(tmp_path: Path) -> None:
    make_rules(tmp_path / "many.db", 100_000)
    script = [sys.executable, "-c", MEASURE, str(tmp_path / "many.db")]
    ran = subprocess.run(script, capture_output=True, text=True, check=True)
    number, _, processor, kilobytes = ran.stdout.split()
    assert int(number) == 100_000
    # The limit is high because other load on the machine also increases processor time.
    assert float(processor) < 1.5
    assert int(kilobytes) < 160_000
