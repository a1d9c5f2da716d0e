"""Jobs of the schedule are plain values: nothing that a store holds is executed."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.storage.building import query

from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import ExportSchedule, add_job, list_jobs, remove_job
from hierogram.storage.options import as_plain
from hierogram.storage.store import Store

NIGHTLY = ExportJob(name="nightly", to=Path("/srv/grammars"), cron="0 3 * * mon", format="moses", keep=7)
HOURLY = ExportJob(
    name="hourly", to=Path("/srv/hourly"), every="6h", format="tsv", min_count=0.5, features=("count",), max_scope=None
)


def test_nothing_in_the_table_is_executed(
    store: Store, store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
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
            "INSERT INTO scheduled_jobs (id, next_run, job) VALUES (:id, 0, :job)",
            id=name,
            job=job,
        )
    heard: list[str] = []
    with caplog.at_level(logging.WARNING):
        schedule = ExportSchedule(store, ended=lambda name, *_: heard.append(name))
        schedule.start()
        assert [job.job for job in list_jobs(store)] == [NIGHTLY]
        schedule.stop()
    assert heard == []
    for name in rows:
        assert f"the job {name!r} of the schedule cannot be read and does not run" in caplog.text
    assert query(store_url, "SELECT count(*) FROM scheduled_jobs WHERE next_run = 0") == [(0,)]
    for name in rows:
        remove_job(store, name)
    assert query(store_url, "SELECT id FROM scheduled_jobs") == [("nightly",)]


def test_a_stored_job_is_plain(store: Store, store_url: str) -> None:
    add_job(store, HOURLY)
    [(content, next_run)] = query(store_url, "SELECT job, next_run FROM scheduled_jobs")
    assert json.loads(content) == as_plain(HOURLY)
    assert next_run == pytest.approx(datetime.now(UTC).timestamp() + 6 * 3_600, abs=60)
