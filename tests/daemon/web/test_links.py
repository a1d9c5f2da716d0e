"""PUT, GET and DELETE /v1/pairs/{pair_id}/links."""

import pytest
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService
from tests.storage.building import NewPair, align, ingest

from hierogram.storage.records.aligner import AlignerChange, PairAlignment
from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")


def test_links_are_set_read_and_removed(learned_client: TestClient) -> None:
    before = learned_client.get("/v1/pairs/1/links").json()
    unchanged = {"pair": 1, "link_probabilities": None, "applied": True}
    assert before == {**unchanged, "alignment": "0-0 1-2 2-1", "fixed": [], "forbidden": []}
    put = learned_client.put("/v1/pairs/1/links", json={"fixed": [[2, 2]], "forbidden": [[2, 1]], "origin": "May"})
    assert put.status_code == 200
    expected = {**unchanged, "alignment": "0-0 1-2 2-2", "fixed": [[2, 2]], "forbidden": [[2, 1]]}
    assert put.json() == expected == learned_client.get("/v1/pairs/1/links").json()
    assert learned_client.get("/v1/pairs/1").json()["alignment"] == "0-0 1-2 2-2"
    assert learned_client.delete("/v1/pairs/1/links").status_code == 204
    assert learned_client.get("/v1/pairs/1/links").json() == before


def test_links_of_the_aligner_have_probabilities(store: Store, connect: Connect) -> None:
    ingest(store, [NewPair("la maison", "the house", None, 2, 2, 1)])
    align(store, AlignerChange(alignments=[PairAlignment(1, "0-0 1-1", "0.98 0.75")]))
    client = connect(FakeService(store))
    for path in ("/v1/pairs/1", "/v1/pairs/1/links"):
        answer = client.get(path).json()
        assert (answer["alignment"], answer["link_probabilities"]) == ("0-0 1-1", "0.98 0.75")


def test_corrections_that_are_applied_later_get_202(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    service.leaves = False
    client = connect(service)
    put = client.put("/v1/pairs/1/links", json={"fixed": [[2, 2]]})
    assert (put.status_code, put.json()["applied"], put.json()["alignment"]) == (202, False, "0-0 1-2 2-1")
    assert client.delete("/v1/pairs/1/links").status_code == 202


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"fixed": [[0]]}, 422, "fixed.0"),
        ({"fixed": [[0, 3]]}, 409, "the pair has 3 and 3 words"),
        ({"fixed": [[0, 0]], "forbidden": [[0, 0]]}, 409, "both fixed and forbidden"),
        ({"fixed": "0-0"}, 422, "fixed"),
        ({"sure": []}, 422, "sure"),
        ({"fixed": [[0, 0.5]]}, 422, "fixed.0.1"),
    ],
)
def test_impossible_links_are_refused(reading_client: TestClient, body: object, status: int, reason: str) -> None:
    answer = reading_client.put("/v1/pairs/1/links", json=body)
    assert (answer.status_code, reason in answer.json()["detail"]) == (status, True), answer.text


def test_a_missing_pair_gets_404(reading_client: TestClient) -> None:
    for answer in (
        reading_client.get("/v1/pairs/99/links"),
        reading_client.delete("/v1/pairs/99/links"),
        reading_client.put("/v1/pairs/99/links", json={}),
    ):
        assert (answer.status_code, "pair 99 not found" in answer.json()["detail"]) == (404, True)
