"""The most similar pairs: edit distance, quality, rank, amagama requests, and the export as TMX."""

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService, connect

import hierogram as hg
from hierogram.tools.integrations.translation_memory import edit_distance

__all__ = ["connect"]

PAIRS = [
    ("La maison est grande.", "The house is big."),
    ("La maison est petite.", "The house is small."),
    ("Un chat et/ou un chien.", "A cat and/or a dog."),
]


def by_definition(first: str, second: str) -> int:
    @cache
    def least(m: int, n: int) -> int:
        if not m or not n:
            return m + n
        same = first[m - 1] == second[n - 1]
        return min(least(m - 1, n) + 1, least(m, n - 1) + 1, least(m - 1, n - 1) + (not same))

    return least(len(first), len(second))


@given(st.text("abcd", max_size=12), st.text("abcd", max_size=12))
def test_edit_distances_follow_the_definition(first: str, second: str) -> None:
    assert edit_distance(first, second) == by_definition(first, second)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[hg.GrammarStore]:
    with hg.open(tmp_path / "s.db", create=True, languages=("fr", "en"), tokenize=True) as store:
        store.add(PAIRS, corpus="news")
        yield store


def test_the_most_similar_pairs_come_first(opened: hg.GrammarStore) -> None:
    same, near = hg.nearest(opened, "La maison est grande.")
    assert (same.source, same.target, same.quality, same.rank) == (*PAIRS[0], 100, 100)
    assert (near.source, 50 < near.quality < 100, 50 < near.rank < 100) == (PAIRS[1][0], True, True)
    assert [pair.id for pair in hg.nearest(opened, "La maison est grande.", limit=1)] == [same.id]
    assert hg.nearest(opened, "La maison est grande.", 99) == [same]
    assert hg.nearest(opened, "xyz", 0) == []


def test_amagama_requests_are_answered(opened: hg.GrammarStore, connect: Connect) -> None:
    client: TestClient = connect(FakeService(opened.store))
    assert client.get("/tmserver/languages/").json() == {"sourceLanguages": ["fr"], "targetLanguages": ["en"]}
    [found] = client.get(f"/tmserver/fr/en/unit/{quote(PAIRS[2][0], safe='')}").json()
    assert found.pop("id") == 3
    assert found == {"source": PAIRS[2][0], "target": PAIRS[2][1], "quality": 100, "rank": 100, "context": "news"}
    assert len(client.get("/tmserver/fr/en_GB/unit/La maison?min_similarity=1&max_candidates=1").json()) == 1
    assert client.get("/tmserver/fr/en/unit/").json() == []
    assert client.get("/tmserver/en/fr/unit/the house").status_code == 404


def test_amagama_clients_may_send_the_token_as_a_password(opened: hg.GrammarStore, connect: Connect) -> None:
    token = "a token of sixteen"
    client: TestClient = connect(FakeService(opened.store), token=token)

    def status(path: str, password: str) -> int:
        shown = base64.b64encode(f"weblate:{password}".encode()).decode()
        return client.get(path, headers={"Authorization": f"Basic {shown}"}).status_code

    assert status("/tmserver/fr/en/unit/la", token) == 200
    assert status("/tmserver/fr/en/unit/la", "another") == 401
    assert status("/v1/status", token) == 401


def test_pairs_are_exported_as_a_translation_memory(opened: hg.GrammarStore, connect: Connect) -> None:
    client: TestClient = connect(FakeService(opened.store))
    answer = client.get("/v1/memory.tmx?corpus=news")
    assert (answer.headers["content-type"], answer.text.count("<tu ")) == ("application/x-tmx+xml", 3)
    assert client.get("/v1/memory.tmx?since=2999-01-01T00:00:00Z").text.count("<tu ") == 0
    wrong = client.get("/v1/memory.tmx?since=yesterday")
    detail = "query.since: must be a date and time such as 2026-01-31T00:00:00Z"
    assert (wrong.status_code, wrong.json()["detail"]) == (422, detail)
