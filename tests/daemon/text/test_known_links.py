"""Ingesting pairs with fixed and forbidden links from files."""

import json
import re
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.storage.building import integrity

from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "alignment.md").read_text()
[EXAMPLE] = [block for block in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL) if '"forbidden"' in block]
EXPECTED = KnownLinks(frozenset({(1, 2)}), frozenset({(1, 1), (2, 2)}))


@pytest.mark.slow
def test_documented_fixed_and_forbidden_links_are_respected(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    given = {"source": "la porte bleue", "target": "the blue door", "alignment": "0-0 1-1 2-2", "fixed": "1-2"}
    (tmp_path / "more.jsonl").write_text(EXAMPLE + json.dumps(given) + "\n")
    assert hierogram("--store", learned_url, "ingest", "more.jsonl", "--strict").code == 0
    assert hierogram("--store", learned_url, "learn", "--sweeps", "2").code == 0
    with open_store(learned_url) as store:
        aligned, kept = store.pairs_by_id([10, 11])
        assert store.human_links([10]) == {10: EXPECTED}
        assert "1-2" in aligned.alignment.split()
        assert not {"1-1", "2-2"} & set(aligned.alignment.split())
        assert kept.alignment == "0-0 1-1 1-2 2-2"
        assert store.is_corrected(10)
        assert store.is_corrected(11)
        found = verify(store)
        assert (found.problems, found.human_links) == ([], 4)
    for pair in ("10", "11"):
        assert hierogram("--store", learned_url, "links", pair, "--forget").code == 0
    with open_store(learned_url) as store:
        assert store.pairs_by_id([11])[0].alignment == "0-0 1-1 2-2"
        assert verify(store).problems == []


def test_pairs_with_fixed_links_keep_the_given_words(hierogram: Run, store_url: str, tmp_path: Path) -> None:
    open_store(store_url, create=True, settings=Settings(languages=("fr", "en"), tokenize=True)).close()
    lines = [
        {"source": "Bonjour, toi.", "target": "Hello, you.", "fixed": [[1, 1]]},
        {"source": "Bonjour, toi.", "target": "Hello, you."},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert hierogram("--store", store_url, "ingest", "pairs.jsonl", "--strict").code == 0
    with open_store(store_url) as store:
        assert [row.source for row in store.pairs()] == ["Bonjour, toi.", "Bonjour , toi ."]


def test_itg_store_accepts_pairs_with_fixed_links(hierogram: Run, store_url: str, tmp_path: Path) -> None:
    open_store(store_url, create=True, settings=Settings(grammar="itg")).close()
    (tmp_path / "pairs.jsonl").write_text(EXAMPLE)
    assert hierogram("--store", store_url, "ingest", "pairs.jsonl", "--strict").code == 0
    with open_store(store_url) as store:
        assert integrity(store) == []
