"""Jobs of the schedule are plain values: pickled ones are carried over, and nothing that a store holds is executed."""

import base64
import json
import logging
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.storage.building import query

from hierogram.daemon.exports.jobs import ExportJob
from hierogram.daemon.exports.schedule import ExportSchedule, add_job, list_jobs, remove_job
from hierogram.storage.database import migration
from hierogram.storage.database.connection import make_engine, parse_url, writing_connection
from hierogram.storage.store import Store, open_store, upgrade

# As APScheduler's job store wrote them for the two jobs below.
CRON = (
    "gAWVhgQAAAAAAAB9lCiMB3ZlcnNpb26USwGMAmlklIwHbmlnaHRseZSMBGZ1bmOUjC9oaWVyb2dyYW0uZGFlbW9uLmV4cG9ydHMuc2NoZWR1bGU6"
    "cnVuX3NjaGVkdWxlZJSMB3RyaWdnZXKUjBlhcHNjaGVkdWxlci50cmlnZ2Vycy5jcm9ulIwLQ3JvblRyaWdnZXKUk5QpgZR9lChoAUsCjAh0aW1l"
    "em9uZZSMCGRhdGV0aW1llIwIdGltZXpvbmWUk5RoDYwJdGltZWRlbHRhlJOUSwBLAEsAh5RSlIWUUpSMCnN0YXJ0X2RhdGWUTowIZW5kX2RhdGWU"
    "TowGZmllbGRzlF2UKIwgYXBzY2hlZHVsZXIudHJpZ2dlcnMuY3Jvbi5maWVsZHOUjAlCYXNlRmllbGSUk5QpgZR9lCiMBG5hbWWUjAR5ZWFylIwK"
    "aXNfZGVmYXVsdJSIjAtleHByZXNzaW9uc5RdlIwlYXBzY2hlZHVsZXIudHJpZ2dlcnMuY3Jvbi5leHByZXNzaW9uc5SMDUFsbEV4cHJlc3Npb26U"
    "k5QpgZR9lIwEc3RlcJROc2JhdWJoGowKTW9udGhGaWVsZJSTlCmBlH2UKGgfjAVtb250aJRoIYloIl2UaCYpgZR9lGgpTnNiYXViaBqMD0RheU9m"
    "TW9udGhGaWVsZJSTlCmBlH2UKGgfjANkYXmUaCGJaCJdlGgmKYGUfZRoKU5zYmF1YmgajAlXZWVrRmllbGSUk5QpgZR9lChoH4wEd2Vla5RoIYho"
    "Il2UaCYpgZR9lGgpTnNiYXViaBqMDkRheU9mV2Vla0ZpZWxklJOUKYGUfZQoaB+MC2RheV9vZl93ZWVrlGghiWgiXZRoJIwWV2Vla2RheVJhbmdl"
    "RXhwcmVzc2lvbpSTlCmBlH2UKGgpTowFZmlyc3SUSwCMBGxhc3SUSwB1YmF1YmgcKYGUfZQoaB+MBGhvdXKUaCGJaCJdlGgkjA9SYW5nZUV4cHJl"
    "c3Npb26Uk5QpgZR9lChoKU5oTEsDaE1LA3ViYXViaBwpgZR9lChoH4wGbWludXRllGghiWgiXZRoUymBlH2UKGgpTmhMSwBoTUsAdWJhdWJoHCmB"
    "lH2UKGgfjAZzZWNvbmSUaCGIaCJdlGhTKYGUfZQoaClOaExLAGhNSwB1YmF1YmWMBmppdHRlcpROdWKMCGV4ZWN1dG9ylIwHZGVmYXVsdJSMBGFy"
    "Z3OUKYwGa3dhcmdzlH2UKIwDdXJslIwXc3FsaXRlOi8vLy90bXAvdy9vbGQuZGKUjAlkZXNjcmliZWSUfZQojAZmb3JtYXSUjAVtb3Nlc5RoH2gD"
    "jAJ0b5SMDS9zcnYvZ3JhbW1hcnOUjARjcm9ulIwLMCAzICogKiBtb26UjARrZWVwlEsHdXVoH2gDjBJtaXNmaXJlX2dyYWNlX3RpbWWUTowIY29h"
    "bGVzY2WUiIwNbWF4X2luc3RhbmNlc5RLAYwNbmV4dF9ydW5fdGltZZRoDYwIZGF0ZXRpbWWUk5RDCgfqCxcDAAAAAACUaBWGlFKUdS4="
)
EVERY = (
    "gAWVZwIAAAAAAAB9lCiMB3ZlcnNpb26USwGMAmlklIwGaG91cmx5lIwEZnVuY5SML2hpZXJvZ3JhbS5kYWVtb24uZXhwb3J0cy5zY2hlZHVsZTpy"
    "dW5fc2NoZWR1bGVklIwHdHJpZ2dlcpSMHWFwc2NoZWR1bGVyLnRyaWdnZXJzLmludGVydmFslIwPSW50ZXJ2YWxUcmlnZ2VylJOUKYGUfZQoaAFL"
    "AowIdGltZXpvbmWUjAhkYXRldGltZZSMCHRpbWV6b25llJOUaA2MCXRpbWVkZWx0YZSTlEsASwBLAIeUUpSFlFKUjApzdGFydF9kYXRllGgNjAhk"
    "YXRldGltZZSTlEMKB+oLFhAvKwuXP5RoFYaUUpSMCGVuZF9kYXRllE6MCGludGVydmFslGgRSwBNYFRLAIeUUpSMBmppdHRlcpROdWKMCGV4ZWN1"
    "dG9ylIwHZGVmYXVsdJSMBGFyZ3OUKYwGa3dhcmdzlH2UKIwDdXJslIwXc3FsaXRlOi8vLy90bXAvdy9vbGQuZGKUjAlkZXNjcmliZWSUfZQojAZm"
    "b3JtYXSUjAN0c3aUjAhmZWF0dXJlc5RdlIwFY291bnSUYYwJbWluX2NvdW50lEc/4AAAAAAAAIwJbWF4X3Njb3BllE6MBG5hbWWUaAOMAnRvlIwL"
    "L3Nydi9ob3VybHmUjAVldmVyeZSMAjZolHV1aDFoA4wSbWlzZmlyZV9ncmFjZV90aW1llE6MCGNvYWxlc2NllIiMDW1heF9pbnN0YW5jZXOUSwGM"
    "DW5leHRfcnVuX3RpbWWUaBhDCgfqCxYQLysLlz+UaBWGlFKUdS4="
)
NIGHTLY = ExportJob(name="nightly", to=Path("/srv/grammars"), cron="0 3 * * mon", format="moses", keep=7)
HOURLY = ExportJob(
    name="hourly", to=Path("/srv/hourly"), every="6h", format="tsv", min_count=0.5, features=("count",), max_scope=None
)
WHEN = 1795402800.0


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return Path.touch, (self.path,)


@pytest.fixture
def old_url(store: Store, store_url: str) -> str:
    """URL of a store as it was when jobs were pickled, once on each database."""
    store.close()
    engine = make_engine(parse_url(store_url))
    with writing_connection(engine) as connection:
        migration.migrate_down(connection, "0011")
    engine.dispose()
    return store_url


def pickled(url: str, name: str, content: bytes, next_run: float | None = WHEN) -> None:
    query(
        url,
        "INSERT INTO apscheduler_jobs (id, next_run_time, job_state) VALUES (:id, :next_run, :state)",
        id=name,
        next_run=next_run,
        state=content,
    )


def test_pickled_jobs_are_carried_over(old_url: str) -> None:
    pickled(old_url, "nightly", base64.b64decode(CRON))
    pickled(old_url, "config:nightly", base64.b64decode(CRON), None)
    pickled(old_url, "hourly", base64.b64decode(EVERY), WHEN + 0.5)
    assert upgrade(old_url)[0] == "0011"
    with open_store(old_url) as store:
        first, second, third = list_jobs(store)
        assert (first.job, first.configured, first.next_run) == (NIGHTLY, False, datetime.fromtimestamp(WHEN, UTC))
        assert (second.job, second.next_run) == (HOURLY, datetime.fromtimestamp(WHEN + 0.5, UTC))
        assert (third.job, third.configured, third.next_run) == (NIGHTLY, True, None)
        remove_job(store, "nightly")
        assert [job.job.name for job in list_jobs(store)] == ["hourly", "nightly"]


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


def state(described: object) -> dict[str, object]:
    return {"id": "x", "kwargs": {"url": "sqlite:///x.db", "described": described}}


def test_what_is_no_pickled_job_is_told_and_never_run(
    old_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trap = tmp_path / "sprung"
    traps = {
        "whole": pickle.dumps(Trap(trap)),
        "inside": pickle.dumps(state(NIGHTLY.described() | {"format": Trap(trap)})),
        "beside": pickle.dumps(state(NIGHTLY.described()) | {"trigger": Trap(trap)}),
        "global": b"cos\nsystem\n(S'touch %s'\ntR." % str(trap).encode(),
        "built in": b"cbuiltins\nexec\n(S'open(%r, \"w\")'\ntR." % str(trap).encode(),
        "object": pickle.dumps(state({"name": datetime(2026, 1, 1)})),
        "deep": pickle.dumps(state({"name": nested(300)})),
        "large memo": b"Nr\xff\xff\xff\x7f.",
        "swollen": pickle.dumps(state({"features": ["x" * 100_000] * 1_000})),
        "no pickle": b"{}",
        "empty": b"",
    }
    for name, content in traps.items():
        pickled(old_url, name, content)
    pickled(old_url, "nightly", base64.b64decode(CRON))
    with caplog.at_level(logging.WARNING):
        upgrade(old_url)
    told = {record.args[0] for record in caplog.records if isinstance(record.args, tuple) and record.args}
    assert told >= traps.keys()
    assert "nightly" not in told
    assert "hierogram schedule add" in caplog.text
    assert not trap.exists()
    with open_store(old_url) as store:
        assert [job.job for job in list_jobs(store)] == [NIGHTLY]
    # The traps are traps.
    pickle.loads(traps["beside"])
    assert trap.exists()


def test_nothing_in_the_table_is_executed(
    store: Store, store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_job(store, NIGHTLY)
    rows = {
        "pickle": CRON,
        "list": "[]",
        "function": json.dumps(NIGHTLY.described() | {"func": "os:system"}),
        "deep": "[" * 100_000,
        "number": json.dumps(NIGHTLY.described() | {"keep": "7; rm"}),
        "name": json.dumps(NIGHTLY.described() | {"name": "../../etc/passwd"}),
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
    assert json.loads(content) == HOURLY.described()
    assert next_run == pytest.approx(datetime.now(UTC).timestamp() + 6 * 3_600, abs=60)
