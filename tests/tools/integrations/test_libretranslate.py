"""LibreTranslate's protocol: with the PyPI client, with Weblate's requests, and with invalid requests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from libretranslatepy import LibreTranslateAPI
from starlette.testclient import TestClient
from tests.conftest import CopyStore
from tests.daemon.conftest import QUICK, Run, write_corpus
from tests.daemon.web.conftest import Connect, FakeService
from tests.daemon.web.running import HttpThread

import hierogram as hg
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.store import Store, open_store
from hierogram.tools.integrations.libretranslate import MAX_TEXT_LENGTH, MAX_TEXTS
from hierogram.tools.translation.store_translator import CORPUS, Corrections

pytestmark = pytest.mark.database("sqlite")

TOKEN = "a token of sixteen"
FR_EN = {"source": "fr", "target": "en"}


@pytest.fixture
def french(store_url: str, copy_store: CopyStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A learned tokenizing store of French and English."""

    def make(url: str) -> None:
        settings = replace(QUICK, languages=("fr", "en"), tokenize=True, case="lowered")
        corpus = write_corpus(tmp_path_factory.mktemp("corpus"))
        with open_store(url, create=True, settings=settings) as store, PairFiles([str(corpus)]) as source:
            ingest(store, source)
            learn(store, sweeps=4)

    copy_store("french", store_url, make)
    with open_store(store_url) as store:
        yield store


@pytest.fixture
def api_client(french: Store, connect: Connect) -> TestClient:
    return connect(FakeService(french), libretranslate=True)


@contextmanager
def running_server(store: Store, **values: object) -> Iterator[str]:
    running = HttpThread(FakeService(store), libretranslate=True, **values)
    try:
        host, port = running.loop.address or ("", 0)
        yield f"http://{host}:{port}"
    finally:
        running.end()


def test_the_pypi_client_translates_detects_and_lists_languages(french: Store) -> None:
    with running_server(french) as url:
        client = LibreTranslateAPI(url)
        assert set(client.translate("la maison verte", "fr", "en").lower().split()) == {"the", "green", "house"}
        assert [one["code"] for one in client.languages()] == ["fr", "en"]
        assert client.languages()[0] == {"code": "fr", "name": "French", "targets": ["en"]}
        for text, language in (("la maison verte", "fr"), ("the green house", "en")):
            first, second = client.detect(text)
            assert (first["language"], first["confidence"] > 90 > second["confidence"]) == (language, True)


def test_the_pypi_client_must_send_the_right_key(french: Store) -> None:
    with running_server(french, token=TOKEN) as url:
        assert LibreTranslateAPI(url, TOKEN).translate("la maison", "fr", "en")
        for key, status in (("another key that is long", 403), (None, 400)):
            with pytest.raises(HTTPError) as refused:
                LibreTranslateAPI(url, key).translate("la maison", "fr", "en")
            assert refused.value.code == status


def test_weblate_requests_are_answered(api_client: TestClient) -> None:
    """Requests of `weblate.machinery.libretranslate`: language codes, then a list of texts with an empty key."""
    assert [one["code"] for one in api_client.get("/languages").json()] == ["fr", "en"]
    body = {"api_key": "", "q": ["la maison", "la porte"], **FR_EN}
    assert len(api_client.post("/translate", json=body).json()["translatedText"]) == 2


def test_a_text_returns_a_text_and_a_list_returns_a_list(api_client: TestClient) -> None:
    body = {"q": "la maison verte", "alternatives": 2, **FR_EN}
    one = api_client.post("/translate", json=body).json()
    assert one.keys() == {"translatedText", "alternatives"}
    assert one["translatedText"] not in one["alternatives"]
    assert 0 < len(one["alternatives"]) <= 2
    some = api_client.post("/translate", json=body | {"q": ["la maison verte", ""], "source": "auto"}).json()
    assert some["translatedText"] == [one["translatedText"], ""]
    assert some["alternatives"] == [one["alternatives"], []]
    assert some["detectedLanguage"][0]["language"] == "fr"


def test_texts_in_the_target_language_are_unchanged(api_client: TestClient) -> None:
    """LibreTranslate also returns such a text unchanged. The other texts of the request must still be translated."""
    body = {"q": ["the <b>green</b> house", "la maison"], "source": "auto", "target": "en", "format": "html"}
    found = api_client.post("/translate", json=body).json()
    assert found["translatedText"][0] == "the <b>green</b> house"
    assert "house" in found["translatedText"][1]
    assert [one["language"] for one in found["detectedLanguage"]] == ["en", "fr"]
    refused = api_client.post("/translate", json=body | {"target": "fr"})
    assert (refused.status_code, "not available" in refused.json()["error"]) == (400, True)


def test_forms_and_query_parameters_are_read_like_json(api_client: TestClient) -> None:
    wanted = api_client.post("/translate", json={"q": "la maison\n\nla porte\n", **FR_EN}).json()
    assert wanted["translatedText"].count("\n") == 3
    assert api_client.post("/translate", data={"q": "la maison\r\n\rla porte\r\n", **FR_EN}).json() == wanted
    parts = {name: (None, value) for name, value in {"q": "la maison\r\n\r\nla porte\r\n", **FR_EN}.items()}
    assert api_client.post("/translate", files=parts).json() == wanted
    assert api_client.post("/translate?q=la+maison%0A%0Ala+porte%0A&source=fr&target=en").json() == wanted


def test_regions_of_languages_are_ignored(api_client: TestClient) -> None:
    body = {"q": "la maison", "source": "fr-CA", "target": "en_GB"}
    expected = api_client.post("/translate", json=body | FR_EN).json()["translatedText"]
    assert api_client.post("/translate", json=body).json()["translatedText"] == expected


INVALID: list[tuple[str, Any, str]] = [
    ("/translate", {"source": "fr", "target": "en"}, "Invalid request: missing q parameter"),
    ("/translate", {"q": "la", "target": "en"}, "Invalid request: missing source parameter"),
    ("/translate", {"q": "la", "source": "fr"}, "Invalid request: missing target parameter"),
    ("/translate", {"q": "la", "source": "zz", "target": "en"}, "zz is not supported"),
    ("/translate", {"q": "la", "source": "en", "target": "fr"}, "French (fr) is not available as a target"),
    ("/translate", {"q": "la", **FR_EN, "format": "pdf"}, "pdf format is not supported"),
    ("/translate", {"q": "la", **FR_EN, "alternatives": "many"}, "alternatives parameter is not a number"),
    ("/translate", {"q": "la", **FR_EN, "alternatives": 10**6}, "must be <="),
    ("/translate", {"q": "x" * (MAX_TEXT_LENGTH + 1), **FR_EN}, "exceeds text limit"),
    ("/translate", {"q": ["la"] * (MAX_TEXTS + 1), **FR_EN}, "exceeds text limit"),
    ("/translate", {"q": [1], **FR_EN}, "q parameter is not a text"),
    ("/translate", {"q": "a\0b", **FR_EN}, "q parameter is not a text"),
    ("/translate", [], "Invalid JSON format"),
    ("/detect", {}, "Invalid request: missing q parameter"),
    ("/suggest", {"q": "la", **FR_EN}, "Invalid request: missing s parameter"),
    ("/suggest", {"q": "la " * 1_000, "s": "the", **FR_EN}, "cannot be stored"),
]
"""Paths, invalid bodies, and part of the error message."""


def test_invalid_input_gets_the_errors_of_libretranslate(api_client: TestClient) -> None:
    for path, body, error in INVALID:
        answer = api_client.post(path, json=body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"]), error
        assert error in answer.json()["error"]


def test_invalid_json_is_reported(api_client: TestClient) -> None:
    answer = api_client.post("/translate", content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_a_store_whose_languages_are_unknown_returns_an_error(store: Store, connect: Connect) -> None:
    client = connect(FakeService(store), libretranslate=True)
    answer = client.post("/translate", json={"q": "la", **FR_EN})
    assert (answer.status_code, "languages of the store are unknown" in answer.json()["error"]) == (500, True)


def test_the_rate_limit_returns_the_error_of_libretranslate(french: Store, connect: Connect) -> None:
    client = connect(FakeService(french), libretranslate=True, max_rate=0.01, max_burst=1)
    assert client.get("/health").json() == {"status": "ok"}
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["error"][:9]) == (429, "Slowdown:")


def test_invalid_requests_count_toward_the_rate_limit(french: Store, connect: Connect) -> None:
    client = connect(FakeService(french), libretranslate=True, token=TOKEN, max_rate=0.01, max_burst=1)
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
        statuses = [client.post("/translate", json=["la"], headers=headers).status_code for _ in range(2)]
        assert statuses == [400, 429]


def test_requests_without_a_token_can_only_read_languages_settings_and_health(french: Store, connect: Connect) -> None:
    client = connect(FakeService(french), libretranslate=True, token=TOKEN)
    for path in ("/languages", "/frontend/settings", "/health"):
        assert client.get(path).status_code == 200
        assert client.get(path, headers={"Accept": "text/html"}, follow_redirects=False).status_code == 303
        assert [client.request(method, path).status_code for method in ("POST", "PUT", "DELETE")] == [401] * 3
    for path in ("/translate", "/suggest", "/detect"):
        body = {"q": "la maison", "s": "the home", **FR_EN}
        assert client.post(path, json=body).status_code == 400
        assert client.post(path, json=body | {"api_key": "another key"}).status_code == 403
        assert [client.request(method, path).status_code for method in ("GET", "PUT", "DELETE")] == [401] * 3


def test_settings_report_whether_a_key_is_required(french: Store, connect: Connect) -> None:
    for token in (None, TOKEN):
        client = connect(FakeService(french), libretranslate=True, token=token)
        response = client.get("/frontend/settings").json()
        assert (response["keyRequired"], response["suggestions"], response["charLimit"]) == (
            token is not None,
            True,
            MAX_TEXT_LENGTH,
        )
        assert response["language"]["source"] == {"code": "fr", "name": "French"}


def test_pages_of_other_sites_may_send_requests_if_a_key_is_required(french: Store, connect: Connect) -> None:
    elsewhere = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    body = {"q": "la maison", **FR_EN, "api_key": TOKEN}
    bare = connect(FakeService(french), libretranslate=True)
    refused = bare.post("/translate", json=body, headers=elsewhere)
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (403, False)
    keyed = connect(FakeService(french), libretranslate=True, token=TOKEN)
    assert keyed.options("/translate", headers=elsewhere).headers["access-control-allow-origin"] == "*"
    answer = keyed.post("/translate", json=body, headers=elsewhere)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")


def test_the_libretranslate_protocol_is_served_only_if_enabled(french: Store, connect: Connect) -> None:
    client = connect(FakeService(french))
    assert client.get("/languages").status_code == 404


@pytest.fixture
def correct(api_client: TestClient) -> Callable[[str, str], str]:
    def put(text: str, translation: str) -> str:
        answer = api_client.post("/suggest", json={"q": text, "s": translation, **FR_EN})
        assert answer.json() == {"success": True}
        return str(api_client.post("/translate", json={"q": text, **FR_EN}).json()["translatedText"])

    return put


def test_the_last_correction_applies_immediately(french: Store, correct: Callable[[str, str], str]) -> None:
    assert correct("La maison verte.", "the greenhouse.").lower() == "the greenhouse."
    assert correct("La maison  verte.", "a greenhouse.").lower() == "a greenhouse."
    assert correct("La maison verte.", "the greenhouse.").lower() == "the greenhouse."
    assert correct("La maison verte.", "the greenhouse.").lower() == "the greenhouse."
    [left] = set(french.select_pairs(corpus=CORPUS)) - set(french.pending_withdrawals(10))
    assert french.pairs_by_id([left])[0].target == "the greenhouse ."


def test_a_correction_precedes_other_translations(api_client: TestClient, correct: Callable[[str, str], str]) -> None:
    correct("la maison verte", "a greenhouse")
    answer = api_client.post("/translate", json={"q": "la maison verte", "alternatives": 1, **FR_EN}).json()
    assert answer["translatedText"].lower() == "a greenhouse"
    assert set(answer["alternatives"][0].lower().split()) == {"the", "green", "house"}


def test_a_text_keeps_its_correction_while_an_earlier_one_is_restored(
    french: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str | None] = []
    request = Store.request_withdrawals

    def find_and_request(store: Store, pairs: Sequence[int]) -> list[int]:
        found.append(corrections.find("La porte"))
        return request(store, pairs)

    monkeypatch.setattr(Store, "request_withdrawals", find_and_request)
    with hg.open(french.url) as store:
        corrections = Corrections(store)
        for translation in ("the gate", "the portal", "the gate"):
            put = corrections.put("La porte", translation, "test")
        assert found == ["The portal", "The gate"]
        assert put not in french.pending_withdrawals(10)


def test_a_correction_starts_in_the_case_of_the_text(correct: Callable[[str, str], str]) -> None:
    for text, translation, expected in (
        ("La maison verte.", "the greenhouse.", "The greenhouse."),
        ("3 Maisons.", "3 houses.", "3 houses."),
        ("les maisons", "houses", "houses"),
        ("«La maison»", "“house”", "“House”"),
    ):
        assert correct(text, translation) == expected


def test_a_correction_in_html_capitalizes_its_first_word_and_no_tag(api_client: TestClient) -> None:
    body = {"q": "<p>La <b>maison</b></p>", "format": "html", **FR_EN}
    api_client.post("/suggest", json={**body, "s": "<p><b>house</b></p>"})
    assert api_client.post("/translate", json=body).json()["translatedText"].split()[:3] == ["<p>", "<b>", "House"]


@pytest.mark.slow
def test_every_interface_returns_the_correction(
    french: Store, api_client: TestClient, correct: Callable[[str, str], str], tmp_path: Path, hierogram: Run
) -> None:
    def answered(**body: object) -> dict[str, Any]:
        [found] = api_client.post("/v1/translate", json={"sentences": ["La maison verte."], **body}).json()["sentences"]
        return dict(found)

    by_rules = answered()
    assert not by_rules["corrected"]
    correction = correct("La maison verte.", "a greenhouse & more.")
    assert correction == "A greenhouse & more."
    assert answered() == by_rules | {"translation": correction, "corrected": True}
    page = api_client.get("/translate.json", params={"q": "La maison verte."}).json()
    assert (page["translation"], page["corrections"]) == (correction, [correction])
    with hg.open(french.url) as store:
        decoded = hg.Decoder(store).translate("La maison verte.")
        decoder = hg.Decoder(store)
        assert (decoder.translate("La maison verte.").text, decoded.text, decoded.corrected) == (
            correction,
            correction,
            correction,
        )
        assert decoder.translate("La maison verte.", format="tokens").corrected is None
    (tmp_path / "text").write_text("La maison verte.\nLa porte.\n")
    assert hierogram("--store", french.url, "translate", str(tmp_path / "text")).out.splitlines()[0] == correction
    html = api_client.post("/translate", json={"q": "La maison verte.", "format": "html", **FR_EN}).json()[
        "translatedText"
    ]
    assert (html, answered(format="html")["translation"]) == (correction.replace("&", "&amp;"),) * 2
    assert not answered(format="tokens")["corrected"]
    assert not answered(markup=True)["corrected"]


def test_html_tags_and_entities_are_preserved(api_client: TestClient) -> None:
    body = {"q": "<p>la <b>maison</b> &amp; la porte</p>", "format": "html", **FR_EN}
    found = api_client.post("/translate", json=body).json()["translatedText"]
    assert (found[:3], found[-4:], "<b>house</b>" in found, "&amp;" in found) == ("<p>", "</p>", True, True)
