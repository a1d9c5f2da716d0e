"""Texts survive the scratch database unchanged, and an error of the reader or the writer does not block the other."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.daemon.exports.rules import ODD, write

from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.loading import LINKED_COLUMNS, link_rules
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.scratch import MIN_MEMORY, memory_for, open_scratch
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.settings import SYNCHRONOUS

LINES = 200_000

# A text of a store may contain all characters except NUL, line ends, and tabs, which separate tokens.
ODD_TEXTS = ["", " ", "\ufeff", "\ufeffa", "\u2028", "\x85", "\x01", '"', '"a"', "'", "\\", "\\n", "#", ",", "NULL"]
texts = st.sampled_from(ODD_TEXTS) | st.text(
    st.characters(exclude_characters="\0\t\n\r", exclude_categories=["Cs"]), max_size=8
)


def round_trip(blocks: Sequence[Sequence[tuple[str, str]]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder, open_scratch(Path(folder)) as database:
        kinds = {"number": "INTEGER", "a": "VARCHAR", "b": "VARCHAR"}
        number = 0
        for rows in blocks:
            columns = [[str(number + k) for k in range(len(rows))], *zip(*rows, strict=True)]
            database.load("texts", kinds, iter([(0, ["\n".join(column) for column in columns])]))
            number += len(rows)
        line = "coalesce(a, '') || chr(9) || coalesce(b, '')"
        return b"".join(
            database.byte_blocks(f"SELECT line FROM (SELECT {line} AS line, number FROM texts) ORDER BY number")
        )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.tuples(texts, texts), min_size=1, max_size=9), min_size=1, max_size=3))
def test_texts_survive_a_round_trip_through_the_scratch_database(blocks: list[list[tuple[str, str]]]) -> None:
    assert round_trip(blocks) == "".join(f"{a}\t{b}\n" for rows in blocks for a, b in rows).encode()


def test_many_lines_have_the_same_order_with_one_thread_and_with_several(tmp_path: Path) -> None:
    with open_scratch(tmp_path) as database:
        query = f"SELECT CAST(k AS VARCHAR) AS line FROM range({LINES}) t(k) ORDER BY hash(k), k"
        found = b"".join(database.byte_blocks(query)).split(b"\n")
        database.run("SET threads = 1")
        assert b"".join(database.byte_blocks(query)).split(b"\n") == found
    assert sorted(map(int, found[:-1])) == list(range(LINES))
    assert found[-1] == b""


def test_a_reader_that_stops_ends_the_writer(tmp_path: Path) -> None:
    with open_scratch(tmp_path) as database:
        pieces = database.byte_blocks(f"SELECT repeat('a', 100) FROM range({LINES})")
        assert next(pieces).startswith(b"aaa")
        pieces.close()
        assert b"".join(database.byte_blocks("SELECT 'still there'")) == b"still there\n"


@pytest.mark.parametrize(
    "wrong",
    ["SELECT none", f"SELECT CASE WHEN k < {LINES} THEN 'a' ELSE error('odd') END FROM range({LINES + 1}) t(k)"],
)
def test_query_errors_are_raised_while_byte_blocks_are_read(tmp_path: Path, wrong: str) -> None:
    with open_scratch(tmp_path) as database, pytest.raises(duckdb.Error, match=r"none|odd"):
        list(database.byte_blocks(wrong))


@pytest.mark.parametrize(
    "format",
    [name for name, format in FORMATS.items() if format.supports(GRAMMAR_KINDS[SYNCHRONOUS]) and not format.word_list],
)
def test_an_export_with_little_memory_has_the_same_bytes(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory, tables replace views between the steps, and lexical weights are added in parts."""
    written = []
    for name, room, at_once in (("roomy", 0, 1_000), ("tight", 1 << 60, 2)):
        monkeypatch.setattr("hierogram.daemon.exports.scratch._MEMORY_PER_LOADED_BYTE", room)
        monkeypatch.setattr("hierogram.daemon.exports.lexicon._RULES_PER_QUERY", at_once)
        path, _, _ = write(tmp_path, ODD, ExportOptions(format=format, max_scope=None, per_source=2), name=name)
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_large_stores_get_more_memory_within_a_limit() -> None:
    assert memory_for(0) == memory_for(100_000) == MIN_MEMORY
    assert MIN_MEMORY < memory_for(500_000) < memory_for(5_000_000) == memory_for(50_000_000)


def test_a_rule_has_the_links_of_its_most_frequent_form(tmp_path: Path) -> None:
    """Uses of a form are added up over blocks of pairs. Among equally frequent forms, the first by text is chosen."""
    forms = [
        ("a b", "x y", "0-0 1-1", 3),
        ("a b", "x y", "0-1 1-0", 5),
        ("a b", "x y", "0-0", 1),
        ("a b", "x y", "0-0 1-1", 3),
        ("c", "z", "0-0", 2),
        ("c", "z", "", 2),
        ("d", "z", "0-0", 0),
        ("d e", "z", "1-0", 4),
        ("d e", "z", "0-0", 4),
    ]
    with open_scratch(tmp_path) as database:
        database.run("CREATE TABLE loaded AS SELECT unnest(['a b', 'c', 'd', 'd e', 'f']) AS source, 7 AS uses")
        target = "CASE source WHEN 'a b' THEN 'x y' ELSE 'z' END AS target"
        database.run(f"CREATE VIEW rules AS SELECT rowid AS id, *, 'old' AS alignment, {target} FROM loaded")
        for block in (forms[:3], forms[3:]):
            columns = [["\n".join(map(str, column)) for column in zip(*((*form, 0) for form in block), strict=True)]]
            database.load("aligned_uses", LINKED_COLUMNS, ((len(block), column) for column in columns))
        link_rules(database)
        [rows] = list(database.row_blocks("SELECT source, alignment, uses FROM rules ORDER BY source"))
    assert rows == [("a b", "0-0 1-1", 7), ("c", "", 7), ("d", "", 7), ("d e", "0-0", 7), ("f", "", 7)]


def test_uses_in_compositions_count_for_the_links(tmp_path: Path) -> None:
    with open_scratch(tmp_path) as database:
        database.run("CREATE TABLE loaded AS SELECT 'a b' AS source, 'x y' AS target, 7 AS uses")
        database.run("CREATE VIEW rules AS SELECT rowid AS id, *, '' AS alignment FROM loaded")
        database.run("CREATE TABLE composed AS SELECT 'a b' AS source, 'x y' AS target")
        block = ["a b\na b", "x y\nx y", "0-0 1-1\n0-1 1-0", "0\n0", "1\n5"]
        database.load("aligned_uses", LINKED_COLUMNS, iter([(2, block)]))
        link_rules(database, composed=True)
        [[(alignment,)]] = list(database.row_blocks("SELECT alignment FROM rules"))
    assert alignment == "0-1 1-0"
