"""Ingesting pairs with fixed and forbidden links over HTTP."""

import pytest
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService

from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")

LINE = b'{"source": "une maison blanche", "target": "a white house", "fixed": "1-2", "forbidden": [[1, 1], [2, 2]]}\n'


def test_known_links_are_stored_and_returned_over_http(learned: Store, connect: Connect) -> None:
    client: TestClient = connect(FakeService(learned))
    wrong = b'{"source": "a", "target": "b", "fixed": [[0, 1]]}\n'
    body = LINE + wrong
    answer = client.post("/v1/pairs", content=body, headers={"Content-Type": "application/jsonl"}).json()
    assert (answer["accepted"], answer["reasons"], answer["unused_fields"]) == (1, {"link-out-of-range": 1}, {})
    assert learned.human_links([10]) == {10: KnownLinks(frozenset({(1, 2)}), frozenset({(1, 1), (2, 2)}))}
    found = client.get("/v1/pairs/10/links").json()
    assert (found["fixed"], found["forbidden"]) == ([[1, 2]], [[1, 1], [2, 2]])
