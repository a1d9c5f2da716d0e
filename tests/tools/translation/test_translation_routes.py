"""POST /v1/translate: translation with the store's grammar, which is followed."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.daemon.conftest import QUICK
from tests.daemon.web.conftest import Connect, FakeService

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.store import Store, open_store
from hierogram.tools.translation.web import MAX_SENTENCES

pytestmark = pytest.mark.database("sqlite")

JSON = {"Content-Type": "application/json"}


def test_the_translate_route_returns_translations_and_candidates(reading_client: TestClient) -> None:
    answer = reading_client.post("/v1/translate?best=2", json={"sentences": ["la maison verte", "", "Xyz"]})
    assert answer.status_code == 200
    first, empty, unknown = answer.json()["sentences"]
    assert set(first["translation"].split()) == {"the", "green", "house"}
    assert len(first["candidates"]) == 2
    assert first["candidates"][0]["derivation"][0]["source_span"] == [0, 3]
    assert (empty["translation"], empty["candidates"]) == ("", [])
    assert unknown["translation"] == "Xyz"
    fixed = {"sentences": ['la <n translation="home">maison</n>'], "markup": True}
    [found] = reading_client.post("/v1/translate", json=fixed).json()["sentences"]
    assert found["translation"].split()[-1] == "home"


def test_raw_text_is_tokenized_like_the_store(connect: Connect, corpus: Path, tmp_path: Path) -> None:
    settings = replace(QUICK, languages=("fr", "en"), tokenize=True, case="lowered")
    with (
        open_store(str(tmp_path / "s.db"), create=True, settings=settings) as store,
        PairFiles([str(corpus)]) as source,
    ):
        ingest(store, source)
        learn(store, sweeps=4)
        client = connect(FakeService(store))
        raw = client.post("/v1/translate", json={"sentences": ["La maison, la porte."]}).json()
        hand = client.post("/v1/translate", json={"sentences": ["la maison , la porte ."], "tokenized": True}).json()
        assert raw["sentences"][0]["tokens"] == "la maison , la porte ."
        [own] = [{**one, "translation": "", "source": ""} for one in raw["sentences"][0].pop("candidates")]
        [by_hand] = [{**one, "translation": "", "source": ""} for one in hand["sentences"][0].pop("candidates")]
        assert (own, raw["advice"]) == (by_hand, None)
        message = hand["sentences"][0]["translation"]
        written = message.replace(" ,", ",").replace(" .", ".")
        # A sentence starts with a capital, including after a full stop.
        cased = re.sub(r"(^|\. )([a-z])", lambda found: found[1] + found[2].upper(), written)
        assert raw["sentences"][0]["translation"] == cased
        again = client.post("/v1/translate", json={"sentences": ["la maison , la porte ."]}).json()
        assert 'use "tokenized": true to keep the tokens' in again["advice"]


def test_untokenized_text_is_answered_with_advice(reading_client: TestClient) -> None:
    body = {"sentences": ["La maison."]}
    assert reading_client.post("/v1/translate", json={"sentences": ["la maison"]}).json()["advice"] is None
    advice = reading_client.post("/v1/translate", json=body).json()["advice"]
    assert "the text seems to be running text: 1 of 1 lines have punctuation attached to words" in advice
    assert "use a store of running text to tokenize it" in advice
    assert reading_client.post("/v1/translate", json=body | {"tokenized": True}).json()["advice"] is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"sentences": "la"}, 422),
        ({"text": "la"}, 422),
        ({"sentences": ["la"] * (MAX_SENTENCES + 1)}, 422),
        ({"sentences": ["la " * 4000]}, 422),
        ([], 422),
        ({"sentences": ["la"], "tokenized": True, "format": "text"}, 422),
        ({"sentences": ["la"], "format": "markdown"}, 422),
    ],
)
def test_invalid_translation_requests_are_refused(reading_client: TestClient, body: object, status: int) -> None:
    answer = reading_client.post("/v1/translate", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_malformed_and_oversized_bodies_are_refused(reading_client: TestClient) -> None:
    assert reading_client.post("/v1/translate", content=b"{", headers=JSON).status_code == 422
    assert reading_client.post("/v1/translate", content=b"{}").status_code == 415
    assert reading_client.post("/v1/translate", content=b" " * (1 << 23), headers=JSON).status_code == 413
    assert reading_client.post("/v1/translate?best=0", json={"sentences": []}).status_code == 422


def test_a_store_that_has_not_learned_is_reported(empty_client: TestClient) -> None:
    answer = empty_client.post("/v1/translate", json={"sentences": ["la"]})
    assert (answer.status_code, "nothing learned yet" in answer.json()["detail"]) == (409, True)


def test_translations_follow_changes_of_the_store(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned))

    def translated() -> tuple[str, int]:
        answer = client.post("/v1/translate", json={"sentences": ["zut la maison"]}).json()
        return answer["sentences"][0]["translation"], answer["position"]

    before, position = translated()
    assert before.split()[0] == "zut"
    pair = b'{"source": "zut", "target": "darn", "alignment": "0-0"}\n'
    assert client.post("/v1/pairs", content=pair, headers={"Content-Type": "application/jsonl"}).status_code == 200
    learn(learned, sweeps=1)
    until = time.monotonic() + 15
    while (now := translated())[0].split()[0] != "darn" and time.monotonic() < until:
        time.sleep(0.1)
    assert now[0].split()[0] == "darn"
    assert now[1] in (position, learned.position()), "expected the position of a full reload"
