"""Responses of the GET and DELETE routes, and refusals by all routes."""

import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from threading import Event, Semaphore

import pytest
from starlette.testclient import TestClient
from tests.daemon.conftest import LINES
from tests.daemon.web.conftest import Connect, FakeService
from tests.storage.building import NewPair, make_pairs, query
from tests.storage.rows import rule_rows

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import configure_jobs, run_job
from hierogram.daemon.learning.derivations import read_derivation
from hierogram.daemon.serving.supervision import Lag, LoopHealth, SpoolStatus
from hierogram.daemon.web.protocol.threads import READER_THREADS
from hierogram.storage.records.operations import NewEvent, Webhook
from hierogram.storage.records.pairs import DamagedPair
from hierogram.storage.schema.tables import REVISIONS
from hierogram.storage.store import Store


def test_derivations_use_the_stored_rules(learned: Store) -> None:
    used: Counter[tuple[str, str]] = Counter()
    for row in learned.pairs():
        uses = read_derivation(row, learned.settings())
        assert [use.source_span[0] for use in uses] == sorted(use.source_span[0] for use in uses)
        assert uses[0].source_span == (0, len(row.source.split(" ")))
        assert sorted(child for use in uses for child in use.children) == list(range(1, len(uses)))
        used.update((use.source, use.target) for use in uses)
    with learned.snapshot() as snapshot:
        stored = {(rule.source, rule.target): rule.count for rule in rule_rows(snapshot) if rule.count}
    assert used == stored


@pytest.mark.parametrize("drawn", [False, True])
def test_rules_are_paginated_most_used_first(learned_client: TestClient, learned: Store, drawn: bool) -> None:
    rules = learned.find_rules(words=["maison"], limit=1000, current_sample=drawn)
    expected = [(rule.source, rule.target, rule.count) for rule in rules]
    assert len(expected) > 2
    found = []
    cursor = None
    while True:
        parameters = {"containing": "maison", "limit": 2, "current_sample": drawn}
        parameters |= {"cursor": cursor} if cursor else {}
        page = learned_client.get("/v1/rules", params=parameters).json()
        assert 0 < len(page["rules"]) <= 2
        found += [(rule["source"], rule["target"], rule["count"]) for rule in page["rules"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert found == expected


def test_rules_are_found_by_their_sides(learned_client: TestClient, learned: Store) -> None:
    best = learned.find_rules(words=["maison"], limit=1)[0]
    sides = {"source": best.source, "target": best.target}
    [rule] = learned_client.get("/v1/rules", params=sides).json()["rules"]
    assert rule == pytest.approx(asdict(best))
    assert learned_client.get("/v1/rules?source=nowhere").json() == {"rules": [], "next": None}


def test_a_store_that_has_not_learned_is_reported(empty_client: TestClient) -> None:
    answer = empty_client.get("/v1/rules?source=maison")
    assert answer.status_code == 409
    assert "nothing learned yet" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?source=a&limit=0", "query.limit"),
        ("?source=a&limit=1001", "query.limit"),
        ("?source=a%00b", "query.source"),
        ("?source=a&cursor=abc", "cursor"),
        ("?source=a&cursor=4%09a", "cursor"),
        ("?source=a&cursor=-1%09a%09b", "cursor"),
    ],
)
def test_invalid_rule_queries_are_refused(empty_client: TestClient, query: str, message: str) -> None:
    answer = empty_client.get(f"/v1/rules{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert message in answer.json()["detail"]


def test_all_rules_are_listed_most_used_first(learned_client: TestClient, learned: Store) -> None:
    expected = [(rule.source, rule.target) for rule in learned.find_rules(limit=7)]
    first = learned_client.get("/v1/rules?limit=5").json()
    second = learned_client.get("/v1/rules", params={"limit": 2, "cursor": first["next"]}).json()
    assert [(rule["source"], rule["target"]) for rule in first["rules"] + second["rules"]] == expected


ROUTES = [
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/status"),
    ("GET", "/v1/rules"),
    ("GET", "/v1/evidence"),
    ("GET", "/v1/events"),
    ("POST", "/v1/pairs"),
    ("POST", "/v1/align"),
    ("POST", "/v1/translate"),
    ("GET", "/v1/pairs/1"),
    ("DELETE", "/v1/pairs/1"),
    ("GET", "/v1/pairs/1/derivation"),
    ("GET", "/v1/pairs/1/score"),
    ("GET", "/v1/pairs/1/links"),
    ("PUT", "/v1/pairs/1/links"),
    ("DELETE", "/v1/pairs/1/links"),
    ("GET", "/v1/memory.tmx"),
    ("GET", "/tmserver/languages/"),
    ("GET", "/tmserver/fr/en/unit/la"),
]


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_refuses_unknown_parameters(empty_client: TestClient, method: str, path: str) -> None:
    body = b'{"source": "a", "target": "b", "alignment": "0-0"}' if method == "POST" else None
    kind = {"Content-Type": "application/jsonl"}
    answer = empty_client.request(method, f"{path}?corpsu=oops", content=body, headers=kind if body else {})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    problem = answer.json()
    assert problem["detail"].startswith("unknown query parameter 'corpsu': ")
    assert problem["parameter"] == "corpsu"
    assert not any(empty_client.get("/v1/status").json()["store"]["pairs"].values())


def test_every_route_is_tested_with_an_unknown_parameter(empty_client: TestClient) -> None:
    paths = empty_client.get("/openapi.json").json()["paths"]
    example = {"pair_id": 1, "source": "fr", "target": "en", "text": "la"}
    documented = {(method.upper(), path.format_map(example)) for path in paths for method in paths[path]}
    assert documented | {("GET", "/openapi.json")} == set(ROUTES)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "x",
            "unknown query parameter 'x': expected 'source', 'target', 'containing', 'limit', 'cursor', "
            "'current_sample'",
        ),
        ("source=a&source=b", "the query parameter 'source' is given 2 times, but must be given once"),
        ("source=%ff", "the query must be percent-encoded UTF-8"),
        ("source=a;target=b&", None),
        ("containing=a&containing=b", None),
    ],
)
def test_query_parameters_are_decoded_or_refused(reading_client: TestClient, query: str, message: str | None) -> None:
    answer = reading_client.get(f"/v1/rules?{query}")
    assert answer.json().get("detail") == message
    assert answer.status_code == (200 if message is None else 400)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/pairs/1", "DELETE, GET"),
        ("DELETE", "/v1/rules", "GET"),
        ("GET", "/v1/pairs", "POST"),
        ("POST", "/openapi.json", "GET"),
    ],
)
def test_a_wrong_method_lists_the_allowed_methods(
    empty_client: TestClient, method: str, path: str, allowed: str
) -> None:
    answer = empty_client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_pair_is_returned_with_its_derivation(reading_client: TestClient) -> None:
    source, target, alignment = LINES[0].split(" ||| ")
    pair = reading_client.get("/v1/pairs/1").json()
    assert pair.pop("added_at").endswith("Z")
    sweep = pair.pop("sweep")
    assert sweep > 4
    assert pair == {
        "id": 1,
        "corpus": "default",
        "external_id": None,
        "source": source,
        "target": target,
        "alignment": alignment,
        "link_probabilities": None,
        "state": "settled",
        "stage": 4,
    }
    derivation = reading_client.get("/v1/pairs/1/derivation").json()
    assert (derivation["pair"], derivation["sweep"]) == (1, sweep)
    assert derivation["rules"][0]["source_span"] == [0, 3]


@pytest.mark.parametrize("path", ["/v1/pairs/77", "/v1/pairs/77/derivation"])
def test_a_missing_pair_gets_404(empty_client: TestClient, path: str) -> None:
    answer = empty_client.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "pair 77 not found",
    )


@pytest.mark.parametrize("number", ["0", "-1", "x", str(1 << 63)])
def test_an_invalid_pair_id_gets_422(empty_client: TestClient, number: str) -> None:
    assert empty_client.get(f"/v1/pairs/{number}").status_code == 422


def test_a_pair_without_a_derivation_gets_409(client: TestClient, service: FakeService) -> None:
    from tests.storage.building import ingest, pair

    ingest(service.store, [pair("le chat", "the cat", "0-0 1-1")])
    assert client.get("/v1/pairs/1/derivation").status_code == 409


def test_withdrawing_a_pair_removes_it(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    client = connect(service)
    answer = client.delete("/v1/pairs/2")
    assert (answer.status_code, answer.content) == (204, b"")
    assert service.withdrawn == [2]
    assert learned.find_pair(2) is None
    service.leaves = False
    assert client.delete("/v1/pairs/3").status_code == 202
    assert client.delete("/v1/pairs/99").status_code == 404


def test_an_empty_store_is_healthy_and_ready(empty_client: TestClient) -> None:
    for path in ("/healthz", "/readyz"):
        answer = empty_client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "reasons": []})


def test_a_stalled_loop_is_reported(client: TestClient, service: FakeService) -> None:
    service.change(loops=(LoopHealth("resample", 61.0, 60.0, False, 1, "boom"),))
    for path in ("/healthz", "/readyz"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json()["reasons"] == ["the loop resample has not responded for 61 s (boom)"]


def add_unaligned(store: Store, number: int) -> None:
    batch = store.begin_ingest("raw", "file", "pipes")
    store.add_pairs(batch, make_pairs([NewPair(f"a{k}", "b", None, 1, 1, k) for k in range(number)]))
    store.finish_ingest(batch)


def test_a_lagging_or_degraded_daemon_is_not_ready(service: FakeService, connect: Connect) -> None:
    client = connect(service, max_lag=10)
    add_unaligned(service.store, 11)
    service.change(degraded="ingest: no space left", lag=Lag(0, None, 0.0))
    service.ends = True
    assert client.get("/healthz").status_code == 200
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == [
        "ingest: no space left",
        "11 pairs are not settled yet, the limit is 10 (max_lag)",
        "the daemon is stopping",
    ]


def test_a_store_with_another_schema_is_not_ready(client: TestClient, store_url: str) -> None:
    from tests.storage.building import query

    query(store_url, "UPDATE alembic_version SET version_num = '9999'")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "9999" in answer.json()["reasons"][0]
    assert client.get("/healthz").status_code == 200
    status = client.get("/v1/status")
    assert (status.status_code, status.json()["store"]) == (200, None)
    assert "hierogram_store_up 0.0" in client.get("/metrics").text


def test_status_reports_loops_spool_and_store(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    spool = SpoolStatus(3, 1, 2, ("a.source and a.target: waiting for a.alignment",))
    service.change(lag=Lag(3, 1.5, 100.0), uptime_seconds=7.0, spool=spool)
    status = connect(service).get("/v1/status").json()
    assert status["uptime_seconds"] == 7.0
    assert [loop["name"] for loop in status["loops"]] == ["ingest", "resample"]
    # Sampling has reported three pairs, which have settled since.
    none = {"unaligned": 0, "waiting": 0, "sampling": 0}
    assert status["lag"] == {"pairs": 0, "oldest_seconds": None, "sweeps_per_second": 100.0, "states": none}
    assert status["spool"] == {
        "done": 3, "failed": 1, "waiting": 2, "incomplete": ["a.source and a.target: waiting for a.alignment"]
    }  # fmt: skip
    assert status["store"]["pairs"]["settled"] == len(LINES)
    assert status["store"]["schema"] == REVISIONS[-1]


@pytest.mark.database("sqlite")
def test_the_status_does_not_wait_for_readers(
    learned: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FakeService(learned)
    client, begun, ended = connect(service), Semaphore(0), Event()

    def read_for_long(*_: object, **__: object) -> tuple[list[object], None]:
        begun.release()
        assert ended.wait(60)
        return [], None

    monkeypatch.setattr(service.grammar_store, "find_rules", read_for_long)
    with ThreadPoolExecutor(READER_THREADS + 4) as pool:
        reading = [pool.submit(client.get, "/v1/rules") for _ in range(READER_THREADS + 3)]
        try:
            assert all(begun.acquire(timeout=30) for _ in range(READER_THREADS))
            answer = pool.submit(client.get, "/v1/status").result(timeout=30)
        finally:
            ended.set()
        assert answer.json()["store_error"] is None
        assert [one.result().status_code for one in reading] == [200] * len(reading)


def test_the_lag_counts_pairs_without_an_alignment(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    add_unaligned(learned, 1_001)
    lag = connect(service).get("/v1/status").json()["lag"]
    assert (lag["pairs"], lag["states"]) == (1_001, {"unaligned": 1_001, "waiting": 0, "sampling": 0})


@pytest.mark.slow
def test_metrics_report_counts_of_the_daemon(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    add_unaligned(learned, 3)
    service.change(spool=SpoolStatus(done=5, failed=3, waiting=2, incomplete=("a",)))
    hook = Webhook("5ca1ab1e", "https://example.org:443")
    learned.queue_deliveries(hook, ["export-done"])
    for _ in range(2):
        learned.record_event(NewEvent("export-done"))
    learned.queue_deliveries(hook, ["export-done"])
    learned.record_delivery(learned.due_deliveries(hook, 1.0, 60.0)[0], 500, "refused", None)
    client = connect(service)
    client.get("/v1/pairs/1")
    client.get("/v1/pairs/2")
    client.get("/nowhere")
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain")
    lines = set(metrics.text.splitlines())
    assert ("hierogram_store_wal_bytes" in metrics.text) == (learned.engine.dialect.name == "sqlite")
    assert "process_resident_memory_bytes" in metrics.text
    assert lines >= {
        "hierogram_lag_pairs 3.0",
        'hierogram_lag_pairs_by_state{state="unaligned"} 3.0',
        'hierogram_lag_pairs_by_state{state="sampling"} 0.0',
        "hierogram_spool_waiting_files 2.0",
        "hierogram_spool_incomplete_inputs 1.0",
        'hierogram_spool_inputs_total{outcome="done"} 5.0',
        'hierogram_spool_inputs_total{outcome="failed"} 3.0',
        'hierogram_webhook_deliveries{state="waiting"} 1.0',
        'hierogram_webhook_deliveries{state="done"} 0.0',
        'hierogram_webhook_deliveries{state="failed"} 1.0',
        "hierogram_store_up 1.0",
        f'hierogram_pairs{{state="settled"}} {len(LINES)}.0',
        f"hierogram_rules_in_use {learned.status().rules_in_use}.0",
        'hierogram_loop_restarts_total{loop="ingest"} 0.0',
        'hierogram_http_requests_total{method="GET",route="/v1/pairs/{pair_id}",status="200"} 2.0',
        'hierogram_http_requests_total{method="GET",route="none",status="404"} 1.0',
    }


def test_exports_of_the_schedule_are_monitored(learned: Store, connect: Connect, tmp_path: Path) -> None:
    good = ExportJob(name="good", to=tmp_path / "good", cron="0 3 * * 7", timezone="Europe/Berlin", current_sample=True)
    bad = ExportJob(name="bad", to=tmp_path / "bad", every="6h", corpus="missing")
    configure_jobs(learned, [good, bad, ExportJob(name="new", to=tmp_path / "new", every="1h")])
    made = run_job(learned, good)
    run_job(learned, good)
    for _ in range(2):
        with pytest.raises(ExportError, match="missing"):
            run_job(learned, bad)
    client = connect(FakeService(learned))
    status = {job["name"]: job for job in client.get("/v1/status").json()["exports"]}
    assert {name: (job["state"], job["failures"]) for name, job in status.items()} == {
        "good": ("unchanged", 0), "bad": ("failed", 2), "new": ("never", 0),
    }  # fmt: skip
    assert status["good"]["path"] == str(made.folder / made.manifest.file)
    assert status["good"]["rules"] == made.manifest.rules
    assert [time[11:19] for time in status["good"]["next_runs"]] == ["03:00:00"] * 3
    assert "corpus 'missing' not found" in status["bad"]["error"]
    metrics = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#")
    assert float(metrics['hierogram_export_last_success_timestamp_seconds{job="good"}']) == pytest.approx(
        time.time(), abs=60
    )
    assert float(metrics['hierogram_export_next_run_timestamp_seconds{job="new"}']) > time.time()
    assert float(metrics['hierogram_export_duration_seconds{job="good"}']) > 0
    assert metrics['hierogram_export_rules{job="good"}'] == f"{made.manifest.rules}.0"
    assert metrics['hierogram_export_bytes{job="good"}'] == f"{made.manifest.bytes}.0"
    assert metrics[f'hierogram_export_version_info{{job="good",version="{made.folder.name}"}}'] == "1.0"
    failing = {name for name in status if metrics[f'hierogram_export_failing{{job="{name}"}}'] == "1.0"}
    assert failing == {"bad"}
    assert {name: metrics[f'hierogram_export_failures_total{{job="{name}"}}'] for name in status} == {
        "good": "0.0", "bad": "2.0", "new": "0.0",
    }  # fmt: skip
    assert 'hierogram_export_last_success_timestamp_seconds{job="bad"}' not in metrics
    page = client.get("/now").text
    rows = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"(?s)<tr.*?</tr>", page.split("Scheduled exports")[1])]
    [of_good] = [row for row in rows if " good " in row]
    [of_bad] = [row for row in rows if " bad " in row]
    assert of_good.count("Sun ") >= 3
    assert "unchanged" in of_good
    assert "UTC)" in of_good
    assert "failed: corpus &#39;missing&#39; not found" in of_bad
    assert "none yet" in of_bad
    assert [job["state"] for job in client.get("/now.json").json()["jobs"]].count("never") == 1


def test_page_counts_failures_of_the_last_day_despite_later_successes(learned: Store, connect: Connect) -> None:
    for error in ("the input is damaged", *[None] * 20):
        learned.finish_ingest(learned.begin_ingest("news", "a", "bars"), error)
    for error in ("no space left on device", "no space left on device", *[None] * 20):
        learned.finish_export(learned.record_export("nightly", "/srv", "moses", "nightly"), error=error, rules=1)
    learned.record_failed_file("a", "news", "damaged", lambda: "failed/a")
    for row in range(12):
        batch = learned.begin_ingest("news", f"b{row}", "bars")
        learned.finish_ingest(batch, None)
    client = connect(FakeService(learned))
    assert "1 failed file, 1 failed input, 2 failed exports" in client.get("/now").text
    url = learned.engine.url.render_as_string(hide_password=False)
    for table in ("ingest_batches", "exports"):
        query(url, f"UPDATE {table} SET started_at = '2026-01-01 00:00:00.000000'")
    assert ">1 failed file<" in client.get("/now").text


def test_the_openapi_document_names_the_main_routes(empty_client: TestClient) -> None:
    document = empty_client.get("/openapi.json").json()
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} >= {
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/v1/status", "get"),
        ("/v1/rules", "get"),
        ("/v1/pairs/{pair_id}", "get"),
        ("/v1/pairs/{pair_id}", "delete"),
        ("/v1/pairs/{pair_id}/derivation", "get"),
        ("/v1/pairs/{pair_id}/score", "get"),
    }


def test_a_damaged_derivation_is_reported(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned))
    url = learned.engine.url.render_as_string(hide_password=False)
    query(url, "UPDATE derivations SET current = averages WHERE pair_id = 2")
    answer = client.get("/v1/pairs/2/derivation")
    assert answer.status_code == 409
    assert "pair 2: its derivation" in answer.json()["detail"]
    assert "hierogram repair" in answer.json()["detail"]
    page = client.get("/pairs/2")
    assert page.status_code == 200
    assert "The derivation is damaged" in page.text
    assert "hierogram repair" in page.text
    assert client.get("/v1/pairs/1/derivation").status_code == 200
    learned.record_damaged([DamagedPair(2, "torn")])
    assert "hierogram_damaged_pairs 1.0" in client.get("/metrics").text
    assert "torn" in client.get("/now").text
