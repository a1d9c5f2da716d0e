"""The translation page over HTTP: its contents, and corrections of translations."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.daemon.conftest import QUICK
from tests.daemon.web.conftest import Connect, FakeService

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.web.application import build_browser
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.store import Store, open_store
from hierogram.tools.translation.web import MAX_PAGE_TEXT_LENGTH

pytestmark = pytest.mark.database("sqlite")


def hidden_fields(page: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: html.unescape(value) for name, value in found}


def test_a_text_is_shown_with_its_links_and_rules(reading_client: TestClient) -> None:
    page = reading_client.get("/translate", params={"q": "La maison verte.\n\nXyz & <b>"}).text
    assert "Xyz &amp; &lt;b&gt;" in page
    assert "Language model: 9 target sentences of the store" in page
    found = reading_client.get("/translate.json", params={"q": "La maison verte.\n\nla maison"}).json()
    body = {"sentences": ["La maison verte.\n\nla maison"], "format": "text"}
    [same] = reading_client.post("/v1/translate", json=body).json()["sentences"]
    assert found["translation"] == same["translation"]
    assert found["language_model"] == "9 target sentences of the store"
    first, second = found["paragraphs"]
    assert (first["source"], second["source"]) == ("La maison verte.", "la maison")
    assert set(first["target"].rstrip(".").lower().split()) == {"the", "green", "house"}
    assert sorted({i for i, _ in first["links"]}) == [0, 1, 2, 3]
    words = [word["text"] for word in first["target_words"]]
    for i, j in first["links"]:
        assert f"t{j}" in first["source_words"][i]["partners"].split()
        assert f"s{i}" in first["target_words"][j]["partners"].split()
    assert "".join(word["before"] + word["text"] for word in first["target_words"]) == first["target"]
    assert any(phrase["stored"] and "house" in phrase["translation"] for phrase in first["phrases"])
    rule = next(phrase for phrase in first["phrases"] if phrase["stored"])
    assert reading_client.get("/rule.json", params={n: rule[n] for n in ("source", "target")}).json()["rule"]
    for phrase in first["phrases"]:
        spoken = {words[int(key[1:])] for key in phrase["keys"].split() if key[0] == "t"}
        assert all(word in phrase["translation"] for word in spoken)


def test_stored_pairs_similar_to_a_text_are_shown(reading_client: TestClient) -> None:
    found = reading_client.get("/translate/near.json", params={"q": "La maison verte"}).json()
    assert any("maison" in pair["source"] for pair in found["pairs"])
    page = reading_client.get("/translate/near", params={"q": "La maison verte"}).text
    assert f'href="/pairs/{found["pairs"][0]["id"]}"' in page
    assert reading_client.get("/translate/near.json", params={"q": ""}).json()["pairs"] == []


def test_a_correction_becomes_a_pair_immediately(learned: Store, learned_client: TestClient) -> None:
    values = hidden_fields(learned_client.get("/translate", params={"q": "Zut, la maison."}).text)
    assert values["source"] == "Zut, la maison."
    before = learned.count_pairs()
    answer = learned_client.post("/translate/correct", data=values | {"target": "Darn,\n the house."})
    assert answer.history[0].status_code == 303
    assert "The correction was stored" in answer.text
    assert learned.count_pairs() == before + 1
    row = learned.pairs()[-1]
    assert (row.source, row.target) == ("Zut , la maison .", "Darn , the house .")
    assert learned.find_pair(row.id).corpus == "corrections"
    again = learned_client.post("/translate/correct", data=values | {"target": "Darn, the house."})
    assert "was stored" in again.text
    empty = learned_client.post("/translate/correct", data=values | {"target": " "})
    assert "was not stored" in empty.text
    assert learned.count_pairs() == before + 1


def test_a_form_of_another_site_corrects_nothing(learned: Store, learned_client: TestClient) -> None:
    values = hidden_fields(learned_client.get("/translate", params={"q": "la maison"}).text) | {"target": "x"}
    before = learned.count_pairs()
    for data, headers in ((values, {"Origin": "http://evil.example"}), (values | {"form_token": "x"}, {})):
        assert learned_client.post("/translate/correct", data=data, headers=headers).status_code == 403
    assert learned.count_pairs() == before


def test_a_tokenizing_store_accepts_corrections_as_text(connect: Connect, corpus: Path, tmp_path: Path) -> None:
    settings = replace(QUICK, languages=("fr", "en"), tokenize=True)
    with (
        open_store(str(tmp_path / "s.db"), create=True, settings=settings) as store,
        PairFiles([str(corpus)]) as source,
    ):
        ingest(store, source)
        learn(store, sweeps=2)
        client = connect(FakeService(store))
        values = hidden_fields(client.get("/translate", params={"q": "L'eau."}).text)
        assert "was stored" in client.post("/translate/correct", data=values | {"target": "The water."}).text
        assert (store.pairs()[-1].source, store.pairs()[-1].target) == ("L' eau .", "The water .")


def test_a_tokenizing_store_finds_words_in_raw_text(connect: Connect, tmp_path: Path) -> None:
    settings = replace(QUICK, languages=("fr", "en"), tokenize=True)
    lines = "l' eau ||| the water ||| 0-1 1-1\nne pas . ||| didn 't . ||| 0-0 0-1 1-0 1-1 2-2\n"
    (tmp_path / "lines").write_text(lines * 3)
    with open_store(str(tmp_path / "s.db"), create=True, settings=settings) as store:
        with PairFiles([str(tmp_path / "lines")]) as source:
            ingest(store, source)
        learn(store, sweeps=2)
        client = connect(FakeService(store))

        def found(typed: str) -> tuple[str, list[str], list[str]]:
            answer = client.get("/search.json", params={"q": typed}).json()
            side = answer["query"]["side"]
            return side, [rule[side] for rule in answer["rules"]], answer["unknown_words"]

        for typed, tokens, side in (("l'eau", "l' eau", "source"), ("didn't", "didn 't", "target")):
            assert found(typed) == found(tokens)
            assert found(typed)[0] == side
            assert all(tokens in text for text in found(typed)[1])
            assert found(typed)[1]
        assert found("pas.") == found("pas .") != ("source", [], [])
        assert found("l'or") == ("source", [], ["l'or"])


def test_a_store_that_has_not_learned_is_reported(empty_client: TestClient) -> None:
    assert "nothing learned yet" in empty_client.get("/translate", params={"q": "la"}).text


def test_text_that_cannot_be_translated_is_reported(reading_client: TestClient) -> None:
    long = reading_client.get("/translate", params={"q": "la " * MAX_PAGE_TEXT_LENGTH}).text
    assert f"the limit is {MAX_PAGE_TEXT_LENGTH:,}" in long
    assert "nothing to translate" in reading_client.get("/translate", params={"q": "…"}).text
    assert 'href="/translate"' in reading_client.get("/").text


def test_the_browser_without_a_daemon_has_no_translation_page(learned: Store) -> None:
    reader = Reader(learned.engine.url)
    with TestClient(build_browser(reader, HttpConfiguration()), "http://127.0.0.1") as browsing:
        assert 'href="/translate"' not in browsing.get("/").text
        assert browsing.get("/translate").status_code == 404
    reader.close()
