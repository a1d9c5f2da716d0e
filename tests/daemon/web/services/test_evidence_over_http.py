"""GET /v1/evidence."""

import pytest
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService

import hierogram as hg
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store


def test_evidence_of_a_sentence_is_returned(learned_client: TestClient, learned: Store) -> None:
    answer = learned_client.get("/v1/evidence", params={"source": "il ne voit pas la porte", "pairs": 2})
    assert answer.status_code == 200
    body = answer.json()
    assert body["position"] == learned.position()
    assert len(body["pairs"]) == 2
    [rule] = [rule for rule in body["rules"] if rule["source"] == "porte"]
    assert rule["target"] == "door"
    assert rule["matches"] == [{"words": [[5, 6]], "gaps": []}]


def test_text_for_a_prompt_is_returned(reading_client: TestClient) -> None:
    answer = reading_client.get("/v1/evidence", params={"source": "la porte", "format": "prompt"})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.endswith("source: la porte\ntarget:\n")


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("bounds", [{}, {"characters": 60}])
def test_text_for_a_prompt_is_detokenized(store_url: str, connect: Connect, bounds: dict[str, int]) -> None:
    with hg.open(store_url, create=True, languages=("fr", "en"), tokenize=True) as store:
        store.add([("l'eau", "it's"), ("la porte", "the door")] * 5)
        store.learn(1).run()
        client = connect(FakeService(store.store))
        text = client.get("/v1/evidence", params={"source": "l'eau", "format": "prompt", **bounds}).text
    assert ("l'eau" in text, "it's" in text, "it 's" in text) == (True, True, False)


def test_prompt_is_shortened_to_the_given_characters(learned_client: TestClient) -> None:
    parameters = {"source": "la porte est verte", "format": "prompt", "characters": 60}
    found = learned_client.get("/v1/evidence", params=parameters).text
    assert ("door" in found, "target:" in found, len(found) <= 60) == (True, False, True)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("source=%20", 422),
        ("source=%C2%85", 422),
        ("source=%1D%E2%80%8B", 422),
        ("", 422),
        ("source=a&pairs=-1", 422),
        ("source=a&pairs=51", 422),
        ("source=a&k=2", 400),
        ("source=a&characters=0", 422),
    ],
)
def test_invalid_evidence_requests_are_refused(reading_client: TestClient, query: str, code: int) -> None:
    assert reading_client.get(f"/v1/evidence?{query}").status_code == code


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "source: Field required"),
        ("source=", "source: must contain a word"),
        ("source=%20%E2%80%8B", "source: must contain a word"),
        ("source=la%00", "source: must not contain NUL"),
    ],
)
def test_an_invalid_sentence_is_explained(reading_client: TestClient, query: str, message: str) -> None:
    answer = reading_client.get(f"/v1/evidence?{query}")
    assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text


def test_a_tree_store_has_no_evidence(store_url: str, connect: Connect) -> None:
    with open_store(store_url, create=True, settings=Settings(grammar="trees")) as store:
        answer = connect(FakeService(store)).get("/v1/evidence?source=a")
    assert (answer.status_code, "monolingual" in answer.text) == (409, True)
