"""`hierogram events`, and its documentation."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from tests.daemon.conftest import Run
from tests.storage.building import commit, delta

from hierogram.daemon.configuration import load_configuration
from hierogram.storage.database.connection import parse_url
from hierogram.storage.records.operations import EVENT_KINDS, Webhook
from hierogram.storage.store import Store, open_store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "events.md").read_text()


@pytest.fixture
def eventful(store: Store) -> Store:
    """A store with events of two rules and an export."""
    commit(store, [], [delta("la maison", "the house", 0, 10), delta("a", "b", 0, 9)])
    commit(store, [], [delta("la maison", "the house", 0, 5)])
    store.finish_export(store.record_export("g", "/g", "cdec"), rules=7, bytes=70, sha256="ab", position=1)
    return store


def test_events_are_filtered_by_position_kind_and_limit(hierogram: Run, eventful: Store, store_url: str) -> None:
    ran = hierogram("--store", store_url, "events")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert [line.split()[3] for line in lines] == ["rule-added", "rule-added", "rule-updated", "export-done"]
    assert lines[2].endswith("la maison ||| the house  10.0 → 15.0 (± 1.8)")
    assert "7 export=1 name=g" in lines[3]
    ran = hierogram("--store", store_url, "events", "--after", "2", "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [event["id"] for event in rows] == [3, 4]
    assert (rows[0]["expected_uses_before"], rows[0]["expected_uses_now"]) == (10.0, 15.0)
    ran = hierogram("--store", store_url, "events", "--kind", "export-done,rule-updated", "--limit", "1", "--json")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [3]
    ran = hierogram("--store", store_url, "events", "--kind", "exports")
    assert (ran.code, "got 'exports'" in ran.err) == (2, True)


def test_expired_events_are_reported(hierogram: Run, eventful: Store, store_url: str) -> None:
    ran = hierogram("--store", store_url, "events", "--keep", "1", "--after", "0", "--json")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == [4]
    assert ran.err.splitlines() == [
        "the store now keeps 1 event",
        "3 events already deleted: the oldest stored event is 4",
    ]


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_events_are_followed_through_a_pipe(eventful: Store) -> None:
    command = [sys.executable, "-m", "hierogram.daemon.cli.main", "--store", eventful.url, "events", "--after", "3"]
    with subprocess.Popen([*command, "--follow", "--limit", "2"], stdout=subprocess.PIPE, text=True) as followed:
        assert followed.stdout is not None
        # Read a line while the command waits for the next event.
        assert followed.stdout.readline().startswith("4 ")
        commit(eventful, [], [delta("c", "d", 0, 9)])
        assert followed.stdout.readline().startswith("5 ")
        assert followed.wait(30) == 0


def test_the_examples_in_the_event_document_work(
    hierogram: Run, eventful: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [shlex.split(line) for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
                for line in block.splitlines()]  # fmt: skip
    assert len(commands) == 3
    for _, *arguments in commands:
        assert hierogram("--store", store_url, *arguments).code == 0
    with open_store(store_url) as store:
        hook = Webhook("5ca1ab1e", "http://example.org:80")
        store.queue_deliveries(hook, list(EVENT_KINDS))
        commit(store, [], [delta("c", "d", 0, 9)])
        store.queue_deliveries(hook, list(EVENT_KINDS))
    engine = create_engine(parse_url(store_url))
    queries = re.findall(r"```sql\n(.*?)```", DOCUMENT, re.DOTALL)
    assert len(queries) == 2
    with engine.connect() as connection:
        for query in queries:
            assert connection.execute(text(query.strip().removesuffix(";"))).all()
    engine.dispose()
    [example] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    (tmp_path / "daemon.toml").write_text(example)
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    assert load_configuration(tmp_path / "daemon.toml").webhooks.events == ("export-done", "export-failed")


def test_event_document_lists_every_kind_of_event() -> None:
    table = DOCUMENT.split("| kind |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == EVENT_KINDS.keys()
