"""Pages and responses about a store with subwords show whole words."""

import pytest
from starlette.testclient import TestClient
from tests.daemon.parts import VERSES, segmented_word
from tests.daemon.web.conftest import Connect, FakeService

import hierogram as hg
from hierogram.daemon.text.word_view import WordView
from hierogram.storage.records.parts import PART_MARK, index_words, join_parts

pytestmark = pytest.mark.database("sqlite")


@pytest.fixture
def client(parts: hg.GrammarStore, connect: Connect) -> TestClient:
    return connect(FakeService(parts.store))


def test_links_over_http_are_between_words(client: TestClient, parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    for tokenized in (False, True):
        body = {
            "pairs": [{"source": f"{word} chai", "target": "she wants tea"}],
            "tokenized": tokenized,
            "min_probability": 0.01,
        }
        [pair] = client.post("/v1/align", json=body).json()["pairs"]
        assert (pair["source"], pair["target"]) == ([word, "chai"], ["she", "wants", "tea"])
        assert (len(pair["forward"]), len(pair["backward"])) == (3, 2)
        assert "1-2" in pair["alignment"].split()
        likely = {(link["source"], link["target"]): link["probability"] for link in pair["links"]}
        assert likely[1, 2] > 0.5
        assert pair["forward"][2]["position"] == 1
        assert pair["backward"][1] == {"position": 2, "probability": pytest.approx(likely[1, 2], abs=0.5)}


def test_pages_show_whole_words(client: TestClient, parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    found = client.get("/search.json", params={"q": word}).json()
    assert found["query"]["side"] == "source"
    assert found["rules"]
    assert all(word in join_parts(rule["source"]) for rule in found["rules"])
    assert found["unknown_words"] == []
    assert client.get("/search.json", params={"q": "bread"}).json()["query"]["side"] == "target"
    assert client.get("/search.json", params={"q": f"{word} ŵ"}).json()["unknown_words"] == ["ŵ"]
    rule = found["rules"][0]
    sides = {name: rule[name] for name in ("source", "target")}
    pair = next(row for row in parts.store.pairs() if word in join_parts(row.source).split(" "))
    pages = [
        client.get("/"),
        client.get("/search", params={"q": word}),
        client.get("/rule", params=sides),
        client.get("/rule/pairs", params=sides),
        client.get(f"/pairs/{pair.id}"),
        client.get("/word", params={"side": "source", "token": word}),
    ]
    for page in pages:
        assert page.status_code == 200
        shown = page.text.partition("<main")[2].partition('class="behind"')[0]
        # URLs contain the segmented sides of rules.
        assert PART_MARK not in shown.replace("%EF%BF%AD", "")
    assert 'data-key="s0" data-to="' in pages[4].text
    words = client.get("/word.json", params={"side": "source", "token": word}).json()
    holding = [source for source, _ in VERSES if word in source.split()]
    assert words["count"] == len(holding) == words["dispersion"]["pairs_with_word"]
    assert words["lines"]
    assert all(line["source"].split()[line["source_positions"][0]] == word for line in words["lines"])
    assert client.get("/word.json", params={"side": "source", "token": word[:-1]}).json()["count"] is None


def test_links_are_highlighted_by_words(client: TestClient, parts: hg.GrammarStore) -> None:
    word = segmented_word(parts)
    pair = next(row for row in parts.store.pairs() if word in join_parts(row.source).split(" "))
    number = join_parts(pair.source).split(" ").index(word)
    page = client.get(f"/pairs/{pair.id}").text
    drawn = page.partition("<svg")[2].partition("</svg>")[0]
    # The subwords of a word are highlighted together, with the words linked to any of them.
    view = WordView(parts.settings().word_parts)
    assert drawn.count(f'data-key="s{number}"') == view.parts(0, word).count(" ") + 1
    links = view.pair(pair.source, pair.target, pair.alignment).alignment.split()
    to = {f"t{target}" for source, _, target in (link.partition("-") for link in links) if source == str(number)}
    sentence = page.partition(f'data-key="s{number}"')[2].partition(">")[0]
    assert set(sentence.partition('data-to="')[2].partition('"')[0].split()) == to


def test_human_links_over_http_refer_to_words(client: TestClient, parts: hg.GrammarStore) -> None:
    pair = next(row for row in parts.store.pairs() if index_words(row.source.split(" "))[:2] == [0, 0])
    words = WordView(parts.settings().word_parts).pair(pair.source, pair.target, pair.alignment)
    address = f"/v1/pairs/{pair.id}/links"
    assert client.get(address).json()["alignment"] == words.alignment
    body = {"fixed": [[0, 1]], "forbidden": [[1, 1]]}
    answer = client.put(address, json=body).json()
    assert (answer["fixed"], answer["forbidden"]) == ([[0, 1]], [[1, 1]])
    fixed = parts.store.human_links([pair.id])[pair.id].fixed
    assert fixed >= {(0, words.target_word_indices.index(1)), (1, words.target_word_indices.index(1))}
    assert client.put(address, json={"fixed": [[9, 1]]}).status_code == 409
    assert client.delete(address).status_code in (202, 204)
    assert client.put("/v1/pairs/99999/links", json=body).status_code == 404


def test_rules_over_http_use_words_on_every_page(client: TestClient, parts: hg.GrammarStore) -> None:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = client.get("/v1/rules", params={"limit": 7, **cursor}).json()
        found += [rule["source"] for rule in answer["rules"]]
        if answer["next"] is None:
            break
        cursor = {"cursor": answer["next"]}
    view = WordView(parts.settings().word_parts)
    rules, _ = parts.find_rules(limit=10_000)
    assert found == [view.side(rule.source) for rule in rules]
    assert not any(PART_MARK in source for source in found)


def test_a_pair_and_its_derivation_over_http_use_words(client: TestClient, parts: hg.GrammarStore) -> None:
    pair = next(row for row in parts.store.pairs() if PART_MARK in row.source)
    answer = client.get(f"/v1/pairs/{pair.id}").json()
    words = WordView(parts.settings().word_parts).pair(pair.source, pair.target, pair.alignment)
    assert [answer[name] for name in ("source", "target", "alignment")] == [*words[:3]]
    whole, *uses = client.get(f"/v1/pairs/{pair.id}/derivation").json()["rules"]
    assert whole["source_span"] == [0, words.source_word_indices[-1]]
    assert whole["target_span"] == [0, words.target_word_indices[-1]]
    for use in (whole, *uses):
        assert PART_MARK not in use["source"] + use["target"]
        if "[X" not in use["source"]:
            first, last = use["source_span"]
            assert use["source"].strip("-") in " ".join(words.source.split(" ")[first:last])
