"""POST /v1/align: links with probabilities from the store's aligner, without storing anything."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.conftest import CopyStore
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.languages import invented_corpus
from tests.daemon.web.conftest import Connect, FakeService
from tests.storage.building import NewPair, make_pairs

from hierogram.daemon.learning.alignment.incremental import IncrementalAligner
from hierogram.daemon.web.api.aligning import MAX_PAIRS
from hierogram.storage.records.settings import LOWERED, Settings
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

KNOWN, PAIRS = 250, 270


def create_trained_aligner(url: str) -> None:
    """Create a store whose aligner has seen pairs of an invented language."""
    sources, targets, alignments = invented_corpus(PAIRS)
    with open_store(url, create=True, settings=QUICK) as store:
        batch = store.begin_ingest("invented", "memory", "pipes")
        pairs = [
            NewPair(sources[k], targets[k], alignments[k], len(sources[k].split()), len(targets[k].split()), k + 1)
            for k in range(KNOWN)
        ]
        store.add_pairs(batch, make_pairs(pairs))
        store.finish_ingest(batch)
        IncrementalAligner(store).train()


@pytest.fixture
def aligner(store_url: str, copy_store: CopyStore) -> Iterator[Store]:
    copy_store("aligner", store_url, create_trained_aligner)
    with open_store(store_url) as store:
        yield store


@pytest.fixture
def client(aligner: Store, connect: Connect) -> TestClient:
    return connect(FakeService(aligner))


def new_pairs() -> tuple[list[dict[str, str]], list[set[str]]]:
    sources, targets, alignments = invented_corpus(PAIRS)
    pairs = [{"source": s, "target": t} for s, t in zip(sources[KNOWN:], targets[KNOWN:], strict=True)]
    return pairs, [set(line.split()) for line in alignments[KNOWN:]]


def test_new_pairs_are_aligned_and_not_stored(client: TestClient, aligner: Store) -> None:
    pairs, truth = new_pairs()
    position = aligner.position()
    answer = client.post("/v1/align", json={"pairs": pairs}).json()
    found = [set(pair["alignment"].split()) for pair in answer["pairs"]]
    both = sum(len(a & b) for a, b in zip(found, truth, strict=True))
    assert 2 * both / sum(len(a) + len(b) for a, b in zip(found, truth, strict=True)) > 0.9
    assert (aligner.position(), answer["position"]) == (position, position)
    for pair in answer["pairs"]:
        assert [f"{link['source']}-{link['target']}" for link in pair["links"]] == pair["alignment"].split()
        assert (len(pair["forward"]), len(pair["backward"])) == (len(pair["target"]), len(pair["source"]))
        for link in pair["links"]:
            assert link["probability"] == pytest.approx((link["forward"] + link["backward"]) / 2, abs=2e-5)
    # Most words without a translation are unlinked.
    loose = [k for pair in answer["pairs"] for k, word in enumerate(pair["target"]) if word == "euh"]
    unlinked = [
        pair["forward"][k]["position"] is None
        for pair in answer["pairs"]
        for k, word in enumerate(pair["target"])
        if word == "euh"
    ]
    assert len(loose) > 2
    assert sum(unlinked) > len(unlinked) / 2


def test_the_links_of_a_pair_do_not_depend_on_other_pairs(client: TestClient) -> None:
    pairs, _ = new_pairs()
    together = client.post("/v1/align", json={"pairs": pairs}).json()["pairs"]
    alone = [client.post("/v1/align", json={"pairs": [pair]}).json()["pairs"][0] for pair in pairs[:5]]
    assert alone == together[:5]


def test_symmetrization_and_minimum_probability_select_links(client: TestClient) -> None:
    pairs, _ = new_pairs()

    def links(**more: object) -> list[tuple[int, int, int, float]]:
        answers = client.post("/v1/align", json={"pairs": pairs, **more}).json()["pairs"]
        return [
            (number, link["source"], link["target"], link["probability"])
            for number, answer in enumerate(answers)
            for link in answer["links"]
        ]

    grown = set(links(symmetrization="gdfa"))
    assert set(links(symmetrization="intersect")) <= grown <= set(links(symmetrization="union"))
    assert (
        links() == links(symmetrization="posterior") == [link for link in links(min_probability=0.4) if link[3] > 0.4]
    )
    likely = links(min_probability=0.01)
    assert likely == sorted(likely)
    assert all(link[3] >= 0.01 for link in likely)
    assert {link for link in links() if link[3] >= 0.01} <= set(likely)
    assert len(links(min_probability=0.99)) < len(likely)


def test_empty_sides_unknown_words_and_nul_characters_are_accepted(client: TestClient) -> None:
    pairs = [
        {"source": "", "target": "t1"},
        {"source": "s1", "target": ""},
        {"source": "s1 never", "target": "t1 seen"},
        {"source": "a\0b", "target": "t1"},
    ]
    answer = client.post("/v1/align", json={"pairs": pairs}).json()["pairs"]
    assert [len(pair["links"]) for pair in answer[:2]] == [0, 0]
    assert "0-0" in answer[2]["alignment"]
    assert answer[3]["source"] == ["a\0b"]
    assert client.post("/v1/align", json={"pairs": []}).json()["pairs"] == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"pairs": [{"source": "a"}]}, "pairs.0.target"),
        ({"pairs": [{"source": "a", "target": "b", "links": ""}]}, "pairs.0.links"),
        ({"pairs": [{"source": "a", "target": "b"}] * (MAX_PAIRS + 1)}, "pairs"),
        ({"pairs": [{"source": "a " * 201, "target": "b"}]}, "pair 1: the source has 201 words"),
        ({"pairs": [], "symmetrization": "both"}, "symmetrization"),
        ({"pairs": [], "min_probability": 0}, "min_probability"),
    ],
)
def test_invalid_alignment_requests_are_refused(client: TestClient, body: object, reason: str) -> None:
    answer = client.post("/v1/align", json=body)
    assert (answer.status_code, reason in answer.json()["detail"]) == (422, True), answer.text


def test_an_untrained_aligner_is_reported(reading_client: TestClient) -> None:
    answer = reading_client.post("/v1/align", json={"pairs": [{"source": "la", "target": "the"}]})
    assert (answer.status_code, "has not seen any pairs yet" in answer.json()["detail"]) == (409, True)


def test_texts_to_align_are_tokenized_like_the_store(store_url: str, connect: Connect) -> None:
    settings = Settings(languages=("fr", "en"), tokenize=True, case=LOWERED)
    with open_store(store_url, create=True, settings=settings) as store:
        batch = store.begin_ingest("small", "memory", "pipes")
        store.add_pairs(batch, make_pairs([NewPair("la maison .", "the house .", "0-0 1-1 2-2", 3, 3, 1)]))
        store.finish_ingest(batch)
        IncrementalAligner(store).train()
        client = connect(FakeService(store))
        pair = {"source": "La maison.", "target": "The house."}
        raw, tokens = (
            client.post("/v1/align", json={"pairs": [pair], "tokenized": tokenized}).json()["pairs"][0]
            for tokenized in (False, True)
        )
        assert (raw["source"], raw["target"]) == (["la", "maison", "."], ["the", "house", "."])
        assert raw["alignment"] == "0-0 1-1 2-2"
        assert tokens["source"] == ["La", "maison."]
