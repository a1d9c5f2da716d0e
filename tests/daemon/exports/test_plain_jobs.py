"""Scheduled jobs are plain values: nothing stored in the database is executed."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.storage.building import query

from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import add_job, list_jobs, remove_job, run_due
from hierogram.storage.options import as_plain
from hierogram.storage.store import Store

NIGHTLY = ExportJob(name="nightly", to=Path("/srv/grammars"), cron="0 3 * * mon", format="moses", keep=7)
HOURLY = ExportJob(
    name="hourly", to=Path("/srv/hourly"), every="6h", format="tsv", min_count=0.5, features=("count",), max_scope=None
)


def test_unreadable_stored_jobs_are_reported_and_never_executed(
    store: Store, store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    add_job(store, NIGHTLY)
    rows = {
        "pickle": "gAWVhgQAAAAAAAB9lCiMB3ZlcnNpb26USwE=",
        "list": "[]",
        "function": json.dumps(as_plain(NIGHTLY) | {"func": "os:system"}),
        "deep": "[" * 100_000,
        "number": json.dumps(as_plain(NIGHTLY) | {"keep": "7; rm"}),
        "name": json.dumps(as_plain(NIGHTLY) | {"name": "../../etc/passwd"}),
    }
    for name, job in rows.items():
        query(
            store_url,
            "INSERT INTO scheduled_jobs (name, configured, next_run, job) VALUES (:name, false, 0, :job)",
            name=name,
            job=job,
        )
    ran: list[str] = []
    with caplog.at_level(logging.WARNING):
        run_due(store, lambda name, *_: ran.append(name))
    assert ran == []
    statuses = {status.name: status for status in list_jobs(store)}
    assert statuses["nightly"].job == as_plain(NIGHTLY)
    for name in rows:
        assert (statuses[name].state, statuses[name].job, statuses[name].next_runs) == ("unreadable", {}, ())
        assert statuses[name].error
    for name in rows:
        assert f"job {name!r} cannot be read and does not run" in caplog.text
    assert query(store_url, "SELECT count(*) FROM scheduled_jobs WHERE next_run = 0") == [(0,)]
    for name in rows:
        remove_job(store, name)
    assert query(store_url, "SELECT name FROM scheduled_jobs") == [("nightly",)]


def test_a_stored_job_contains_only_plain_values(store: Store, store_url: str) -> None:
    add_job(store, HOURLY)
    [(content, next_run)] = query(store_url, "SELECT job, next_run FROM scheduled_jobs")
    assert json.loads(content) == as_plain(HOURLY)
    assert next_run == pytest.approx(datetime.now(UTC).timestamp() + 6 * 3_600, abs=60)
