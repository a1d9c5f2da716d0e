"""Lexicons omit words with Unicode spaces, at which their readers would split a line."""

import sys
from pathlib import Path

import pytest
from tests.daemon.exports import parsers
from tests.storage.building import commit, delta, ingest, pair

from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.filters import UNICODE_SPACES
from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.storage.store import Store

SPACES = [chr(code) for code in range(sys.maxunicode) if chr(code).isspace() and chr(code) != " "]
PRINTABLE = [space for space in SPACES if space > "\x85" and space not in "\u2028\u2029"]


def test_unicode_space_pattern_matches_all_spaces_of_python() -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE characters AS SELECT unnest($1) AS character", [SPACES])
        query = f"SELECT count(*) FROM characters WHERE regexp_matches(character, '{UNICODE_SPACES}')"
        assert connection.execute(query).fetchone() == (len(SPACES),)
        for other in ("a b", "x\u200by", "\u2060", "_", "\\"):
            query = f"SELECT regexp_matches($1, '{UNICODE_SPACES}')"
            assert connection.execute(query, [other]).fetchone() == (False,)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("format", [name for name, format in FORMATS.items() if format.word_list])
def test_words_with_unicode_spaces_are_omitted_and_counted(store: Store, tmp_path: Path, format: str) -> None:
    odd = [f"mot{space}{k}" for k, space in enumerate(PRINTABLE)]
    rows = [
        pair(" ".join(odd), " ".join(f"w{k}" for k in range(len(odd))), " ".join(f"{k}-{k}" for k in range(len(odd))))
    ]
    rows += [pair("la maison", "the house", "0-0 1-1"), pair("vide", "no\u00a0thing", "0-0")]
    ingest(store, rows)
    rules = [
        delta("la maison", "the house", 2),
        delta(f"la {odd[0]}", "the word", 2),
        delta("vide", "no\u00a0thing", 1),
    ]
    commit(store, [], rules)
    path = tmp_path / "lexicon"
    manifest = export(store, path, ExportOptions(format=format, current_sample=True))
    written = " ".join(parsers.lines(path))
    assert {"maison", "house"} <= set(written.split())
    assert not any(space in written for space in PRINTABLE)
    [left] = [left for left in manifest.filters if left.filter == "no Unicode spaces in words"]
    expected = 2 if format == "vmap" else len(odd) + 1
    assert left.before - left.after == expected
