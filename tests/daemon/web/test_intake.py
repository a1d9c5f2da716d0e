"""POST /v1/pairs: storage, limits, and requests that are repeated or interrupted."""

import gzip
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient
from tests.daemon.conftest import LINES
from tests.daemon.web.bodies import BODY, as_json
from tests.daemon.web.conftest import Connect, FakeService
from tests.storage.building import query

from hierogram.daemon.text.lines import InputLimits
from hierogram.daemon.text.validation import DuplicateCounter
from hierogram.daemon.web.api import ingest
from hierogram.daemon.web.protocol import bodies
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

JSONL = {"Content-Type": "application/jsonl"}


def post(client: TestClient, body: bytes | Iterator[bytes], key: str | None = None, path: str = "/v1/pairs") -> Any:
    headers = JSONL | ({"Idempotency-Key": key} if key else {})
    return client.post(path, content=body, headers=headers)


def texts(store: Store) -> list[str]:
    return [f"{row.source} ||| {row.target} ||| {row.alignment}" for row in store.pairs()]


def test_posted_pairs_are_stored_and_invalid_lines_are_reported(
    client: TestClient, store: Store, store_url: str
) -> None:
    bad = b'{"source": "a"}\nno json\n\n' + as_json("a ||| b ||| 0-7")
    answer = post(client, BODY + bad, path="/v1/pairs?corpus=news")
    assert answer.status_code == 200
    found = answer.json()
    batch = found.pop("batch")
    rejected = found.pop("rejected_lines")
    assert found == {
        "corpus": "news",
        "lines": len(LINES) + 4,
        "accepted": len(LINES),
        "duplicates": 0,
        "rejected": 4,
        "reasons": {"missing-field": 1, "malformed-json": 1, "empty-line": 1, "link-out-of-range": 1},
        "more_rejected": 0,
        "unused_fields": {},
        "more_unused_fields": 0,
        "notes": [],
    }
    assert [line["line"] for line in rejected] == [len(LINES) + n for n in range(1, 5)]
    assert texts(store) == LINES
    assert query(store_url, "SELECT state, accepted, rejected FROM ingest_batches WHERE id = :id", id=batch) == [
        ("done", len(LINES), 4)
    ]
    assert query(store_url, "SELECT count(*) FROM rejected_lines") == [(4,)]


def test_the_same_body_is_stored_once_and_each_of_its_rejections_is_counted(client: TestClient, store: Store) -> None:
    for turn in range(3):
        found = post(client, BODY + b"bad\n").json()
        assert (found["accepted"], found["duplicates"]) == ((len(LINES), 0) if turn == 0 else (0, len(LINES)))
    assert texts(store) == LINES
    assert store.status().rejected_lines == 3


@pytest.mark.database("sqlite")
def test_a_body_may_be_sent_in_any_chunks(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_BLOCK_BYTES", 7)
    monkeypatch.setattr(bodies, "_LINES_PER_CHUNK", 2)
    client = connect(service)
    pieces = (BODY[n : n + 5] for n in range(0, len(BODY), 5))
    found = post(client, pieces).json()
    assert (found["lines"], found["accepted"]) == (len(LINES), len(LINES))
    assert texts(store) == LINES


@pytest.mark.database("sqlite")
def test_few_rejections_are_shown_and_all_are_counted(client: TestClient) -> None:
    bad = b"x\n" + 2 * as_json("a ||| b ||| 0-7")
    found = post(client, (as_json("a ||| b ||| 0-0") * 3 + bad) * 110).json()
    assert (found["rejected"], len(found["rejected_lines"]), found["more_rejected"]) == (330, 100, 180)
    assert found["rejected_lines"][1] | {"message": ""} == {
        "line": 5, "last_line": 6, "reason": "link-out-of-range", "message": ""
    }  # fmt: skip


def test_a_body_with_many_invalid_lines_is_refused(client: TestClient, store: Store, store_url: str) -> None:
    answer = post(client, b"\n" * 1_000)
    assert answer.status_code == 422
    assert "1,000 of the first 1,000 lines cannot be stored (empty-line 1,000)" in answer.text
    assert query(store_url, "SELECT count(*) FROM rejected_lines") == [(0,)]
    assert store.count_pairs() == 0


@pytest.mark.database("sqlite")
def test_the_limit_of_rejections_is_configurable(
    service: FakeService, connect: Connect, store: Store, store_url: str
) -> None:
    body = BODY + b"\n" * 300
    wide = connect(service, limits=InputLimits(max_rejected_share=1.0))
    found = post(wide, body).json()
    assert (found["accepted"], found["rejected"]) == (len(LINES), 300)
    assert found["rejected_lines"] == [
        {"line": len(LINES) + 1, "last_line": len(LINES) + 300, "reason": "empty-line", "message": "the line is empty"}
    ]
    assert query(store_url, "SELECT count(*) FROM rejected_lines") == [(1,)]
    narrow = connect(service, limits=InputLimits(max_rejected_lines=10))
    refused = post(narrow, body)
    assert refused.status_code == 422
    assert "(in a daemon: max_rejected_lines in [intake])" in refused.json()["detail"]
    assert refused.json()["ingested"]["rejected"] == 0
    assert store.status().rejected_lines == 300


@pytest.mark.database("sqlite")
def test_notes_on_a_body_are_in_the_response_and_its_repetition(client: TestClient, store_url: str) -> None:
    body = b"".join(as_json(line) for line in ("l &apos; ami ||| the friend ||| 2-1", "une porte ||| a door ||| 1-1"))
    first = post(client, body, key="k")
    assert [note["code"] for note in first.json()["notes"]] == ["escaped"]
    assert "such as &apos;" in first.json()["notes"][0]["text"]
    again = post(client, body, key="k")
    assert (again.headers["Idempotency-Replayed"], again.json()) == ("true", first.json())
    [(kept,)] = query(store_url, "SELECT notes FROM ingest_batches")
    assert str(kept).startswith("escaped: 1 line has escapes of the Moses tokenizer")


@pytest.mark.database("sqlite")
def test_links_of_a_body_that_refer_to_split_words_are_stored_with_the_right_words(
    client: TestClient, store: Store
) -> None:
    answer = post(client, as_json("10\u00a0000 chats ||| 10,000 cats ||| 0-0 1-0 2-1"))
    assert (answer.json()["accepted"], answer.json()["notes"][0]["code"]) == (1, "unicode-spaces")
    assert texts(store) == ["10 000 chats ||| 10,000 cats ||| 0-0 1-0 2-1"]


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("is_declared", [True, False])
def test_a_compressed_body_is_refused(
    client: TestClient, store: Store, pack: Callable[[bytes], bytes], is_declared: bool
) -> None:
    packed = pack(BODY * 10_000)
    headers = JSONL | ({"Content-Encoding": "zstd"} if is_declared else {})
    answer = client.post("/v1/pairs", content=packed, headers=headers)
    assert answer.status_code == (415 if is_declared else 422)
    if not is_declared:
        kind = "gzip" if pack is gzip.compress else "zstd"
        assert answer.json()["detail"].startswith(f"the body is {kind} data: send JSON lines")
    assert store.count_pairs() == 0


@pytest.mark.database("sqlite")
def test_unused_members_are_reported(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LINES_PER_CHUNK", 2)
    client = connect(service)
    lines = [as_json(line, note=n) for n, line in enumerate(LINES)]
    lines[0] = as_json(LINES[0], note=1, links="0-0")
    lines.append(b'{"sorce": "a", "target": "b", "note": 1}\n')
    found = post(client, b"".join(lines), "k1").json()
    assert found["unused_fields"] == {"links": 1, "note": len(LINES) + 1, "sorce": 1}
    assert found["more_unused_fields"] == 0
    assert (found["accepted"], found["reasons"]) == (len(LINES), {"missing-field": 1})
    assert texts(store) == LINES
    assert post(client, b"".join(lines), "k1").json() == found


@pytest.mark.database("sqlite")
def test_few_unused_members_are_listed_and_all_are_counted(client: TestClient) -> None:
    names = {"x" * 200: 1, "\ud800": 1} | {f"n{n:02}": 1 for n in range(30)}
    found = post(client, as_json("a ||| b ||| 0-0", **names) + as_json("c ||| d ||| 0-0", n00=1)).json()
    assert found["accepted"] == 2
    assert list(found["unused_fields"].items()) == [("n00", 2)] + [(f"n{n:02}", 1) for n in range(1, 20)]
    assert found["more_unused_fields"] == 12


def test_a_body_without_lines_of_json_is_refused(client: TestClient, store: Store, store_url: str) -> None:
    bodies = {
        b"": "the body is empty: send JSON lines",
        b"\xef\xbb\xbf": "the body is empty",
        b"[]": "the body is a JSON array: send JSON lines",
        b' [{"source": "a", "target": "b"}]': "the body is a JSON array",
        b'[\n{"source": "a", "target": "b"},\n{"source": "c", "target": "d"}\n]\n': "the body is a JSON array",
    }
    keys = [f"k{number}" for number in range(len(bodies))]
    for own_key, (body, message) in zip(keys, bodies.items(), strict=True):
        for key in (None, own_key, own_key):
            answer = post(client, body, key)
            assert (answer.status_code, message in answer.json()["detail"]) == (422, True), answer.text
    assert store.count_pairs() == 0
    assert query(store_url, "SELECT count(*) FROM ingest_batches") == [(0,)]
    accepted = [post(client, BODY, key).json()["accepted"] for key in keys]
    assert accepted == [len(LINES), 0, 0, 0, 0]


@pytest.mark.database("sqlite")
def test_requests_that_any_web_page_could_send_are_refused(client: TestClient, store: Store) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"):
        answer = client.post("/v1/pairs", content=BODY, headers={"Content-Type": kind})
        assert answer.status_code == 415, kind
    assert store.count_pairs() == 0


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(("corpus", "key"), [("%00", "k"), ("", "k"), ("a" * 201, "k"), ("a", "k k"), ("a", "k" * 256)])
def test_invalid_corpus_names_and_keys_are_refused(empty_client: TestClient, corpus: str, key: str) -> None:
    assert post(empty_client, BODY, key, f"/v1/pairs?corpus={corpus}").status_code == 422


@pytest.mark.database("sqlite")
def test_oversized_bodies_and_lines_are_refused(
    service: FakeService, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.daemon.text.formats.MAX_LINE_BYTES", 100)
    client = connect(service, max_request_bytes=len(BODY))
    assert post(client, BODY + b"x").status_code == 413
    assert post(client, iter([BODY, b"x"])).status_code == 413
    long = as_json(f"{'a' * 40} ||| b ||| 0-0") + as_json(f"{'a' * 70} ||| b ||| 0-0")
    found = post(client, long).json()
    assert (found["accepted"], found["reasons"]) == (1, {"line-too-long": 1})


@pytest.mark.database("sqlite")
def test_a_body_with_an_endless_line_is_refused_as_invalid(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.daemon.text.lines.MAX_LINE_BYTES", 10)
    monkeypatch.setattr("hierogram.daemon.text.lines.MAX_SKIPPED_LINE_BYTES", 100)
    answer = post(client, BODY + b"x" * 200)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("the body: not text, because a line")


@pytest.mark.database("sqlite")
def test_a_body_gets_507_if_a_temporary_file_has_no_space(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(DuplicateCounter, "_count", fail)
    answer = post(client, BODY)
    assert (answer.status_code, "set TMPDIR" in answer.json()["detail"]) == (507, True)


def test_a_repeated_request_gets_the_same_response(client: TestClient, store: Store, store_url: str) -> None:
    first = post(client, BODY + b"bad\n", "k1")
    again = post(client, BODY + b"bad\n", "k1")
    assert first.json() == again.json()
    assert first.json()["accepted"] == len(LINES)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert query(store_url, "SELECT count(*) FROM ingest_batches") == [(1,)]
    assert store.status().rejected_lines == 1


def test_key_of_a_different_request_is_refused(client: TestClient, store: Store) -> None:
    post(client, BODY, "k1")
    for body, path in (
        (BODY.replace(b"blanche", b"noire"), "/v1/pairs"),
        (BODY + b"more\n", "/v1/pairs"),
        (BODY[: BODY.index(b"\n") + 1], "/v1/pairs"),
        (b"", "/v1/pairs"),
        (BODY, "/v1/pairs?corpus=other"),
    ):
        answer = post(client, body, "k1", path)
        assert answer.status_code == 422, body
        assert "was used for another request" in answer.json()["detail"]
        assert texts(store) == LINES


class FailingStore:
    """A store that fails in the call of `add_pairs` numbered `chunks`, before or after the commit. 0 means never."""

    def __init__(self, store: Store, chunks: int, *, after_commit: bool) -> None:
        self._store = store
        self._left = chunks
        self._after_commit = after_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def add_pairs(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left == 0 and self._after_commit:
            self._store.add_pairs(*arguments)
        if self._left == 0:
            raise StoreUnavailableError("the disk is full")
        return self._store.add_pairs(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize("chunks", [1, 3, 5])
def test_an_interrupted_request_continues_where_it_stopped(
    store: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch, chunks: int, after_commit: bool
) -> None:
    monkeypatch.setattr(bodies, "_LINES_PER_CHUNK", 2)
    service = FakeService(store)
    client = connect(service)
    body = BODY + b"bad\nbad\n" + BODY
    lines = 2 * len(LINES) + 2
    monkeypatch.setattr(service.grammar_store, "store", FailingStore(store, chunks, after_commit=after_commit))
    broken = post(client, body, "k1")
    assert broken.status_code == 503
    assert "the disk is full" in broken.json()["detail"]
    assert broken.headers["retry-after"]
    assert broken.json()["ingested"]["lines"] == 2 * (chunks - 1)
    stored = store.count_pairs()
    other = post(client, body.replace(b"blanche", b"noire"), "k1")
    if chunks > 1 or after_commit:
        assert other.status_code == 422
        assert store.count_pairs() == stored
        found = post(client, body, "k1").json()
        assert (found["lines"], found["accepted"], found["duplicates"]) == (lines, 2 * len(LINES), 0)
        assert found["reasons"] == {"malformed-json": 2}
        assert [line["line"] for line in found["rejected_lines"]] == [len(LINES) + 1, len(LINES) + 2]
        assert texts(store) == LINES + LINES
        assert store.status().rejected_lines == 2
        assert post(client, body, "k1").json() == found


def test_concurrent_requests_with_one_key_conflict(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Waiting(FailingStore):
        def add_pairs(self, *arguments: Any) -> Any:
            begun.set()
            assert go_on.wait(60)
            return self._store.add_pairs(*arguments)

    monkeypatch.setattr(service.grammar_store, "store", Waiting(store, 0, after_commit=False))
    monkeypatch.setattr(ingest, "_MAX_BODIES", 2)
    client = connect(service)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(post(client, BODY, "k1")))
    thread.start()
    try:
        assert begun.wait(60)
        same = post(client, BODY, "k1")
        assert (same.status_code, same.headers["retry-after"]) == (409, "5")
    finally:
        go_on.set()
        thread.join()
    assert answers[0].status_code == 200
    assert texts(store) == LINES


@pytest.mark.database("sqlite")
def test_concurrent_bodies_are_limited(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = []

    class Asking(FailingStore):
        def add_pairs(self, *arguments: Any) -> Any:
            inner.append(post(client, BODY))
            return self._store.add_pairs(*arguments)

    monkeypatch.setattr(service.grammar_store, "store", Asking(store, 0, after_commit=False))
    monkeypatch.setattr(ingest, "_MAX_BODIES", 1)
    client = connect(service)
    assert post(client, BODY).status_code == 200
    [refused] = inner
    assert (refused.status_code, "the limit is 1" in refused.json()["detail"]) == (503, True)


def test_request_that_another_daemon_recorded_meanwhile_gets_409(
    service: FakeService, connect: Connect, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Overtaken(FailingStore):
        def add_pairs(self, *arguments: Any) -> Any:
            query(
                store_url,
                "INSERT INTO http_requests (key, corpus, lines, digest, done, response, started_at, updated_at)"
                " VALUES ('k1', 'default', 9, :digest, :done, '{}', '2024-01-01', '2024-01-01')",
                digest=b"",
                done=False,
            )
            return self._store.add_pairs(*arguments)

    client = connect(service)
    store = service.store
    before = store.count_pairs()
    monkeypatch.setattr(service.grammar_store, "store", Overtaken(store, 0, after_commit=False))
    answer = post(client, BODY, "k1")
    assert answer.status_code == 409
    assert store.count_pairs() == before


def test_old_idempotency_keys_are_deleted(service: FakeService, connect: Connect, store: Store, store_url: str) -> None:
    post(connect(service), BODY, "k1")
    query(store_url, "UPDATE http_requests SET updated_at = '2020-01-01 00:00:00'")
    post(connect(service), as_json(LINES[0]), "k2")
    assert query(store_url, "SELECT key FROM http_requests") == [("k2",)]
    assert store.find_request("k1") is None


@pytest.mark.database("sqlite")
def test_a_body_is_refused_while_too_many_pairs_wait(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LINES_PER_CHUNK", 2)
    monkeypatch.setattr(ingest, "_LAG_POLL_SECONDS", 0.01)
    client = connect(service, max_lag=3, backlog_timeout=0.05)
    answer = post(client, BODY, "k1")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "4 pairs are not settled yet, the limit is 3" in answer.json()["detail"]
    assert answer.json()["ingested"]["accepted"] == store.count_pairs() == 4
    assert post(client, BODY).status_code == 503
    assert post(connect(service), BODY, "k1").json()["accepted"] == len(LINES)


@pytest.mark.database("sqlite")
def test_a_body_continues_when_fewer_pairs_wait(
    service: FakeService, connect: Connect, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "_LINES_PER_CHUNK", 2)
    looks = []

    class Lagging(FailingStore):
        def count_pairs(self, states: Any = None) -> int:
            looks.append(states)
            return 4 if len(looks) in (3, 4, 5) else 0

    monkeypatch.setattr(ingest, "_LAG_POLL_SECONDS", 0.01)
    monkeypatch.setattr(service.grammar_store, "store", Lagging(store, 0, after_commit=False))
    answer = post(connect(service, max_lag=3, backlog_timeout=60), BODY)
    assert answer.json()["accepted"] == len(LINES)
    assert len(looks) > 5


@pytest.mark.database("sqlite")
def test_a_request_while_the_daemon_ends_gets_503(service: FakeService, connect: Connect, store: Store) -> None:
    service.ends = True
    answer = post(connect(service), BODY)
    assert answer.status_code == 503
    assert "stopping" in answer.json()["detail"]
    assert store.count_pairs() == 0


@pytest.mark.database("sqlite")
def test_a_body_in_other_languages_is_refused(store_url: str, connect: Connect) -> None:
    settings = Settings(languages=("fr", "en"), tokenize=True, case="lowered")
    with open_store(store_url, create=True, settings=settings) as store:
        client = connect(FakeService(store))
        line = b'{"source": "L\'eau.", "target": "Water!"}\n'
        refused = post(client, line, path="/v1/pairs?languages=en,fr")
        assert refused.status_code == 409
        assert "the languages of the store are fr,en" in refused.json()["detail"]
        assert store.count_pairs() == 0
        for path in ("/v1/pairs?languages=fr,en", "/v1/pairs"):
            assert post(client, line, path=path).status_code == 200
        assert [(row.source, row.target) for row in store.pairs()] == [("l' eau .", "water !")]
