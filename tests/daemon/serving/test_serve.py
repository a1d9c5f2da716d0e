"""The daemon as a process: from a file in the spool to settled pairs, and its end by signals."""

import json
import signal
import socket
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, QUICK, Run
from tests.daemon.serving.conftest import Daemon, drop, until

from hierogram.daemon.learning.verifying import verify
from hierogram.storage.store import open_store

Serve = Callable[..., Daemon]
TEXT = "".join(line + "\n" for line in LINES)


@pytest.fixture
def quick_url(store_url: str) -> str:
    """URL of a store with a short schedule."""
    open_store(store_url, create=True, settings=QUICK).close()
    return store_url


@pytest.mark.slow
def test_daemon_learns_a_spooled_file_and_withdraws_pairs(quick_url: str, serve: Serve, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    daemon = serve("--store", quick_url, "--spool", str(spool))
    port = daemon.until_port()
    drop(spool / "news", "one.bars", TEXT)
    taken = daemon.until("file ingested")
    assert (taken["corpus"], taken["accepted"], taken["duplicates"]) == ("news", 9, 0)
    # Other processes may read and withdraw pairs, in the store and over HTTP.
    with open_store(quick_url) as store:
        until(lambda: store.count_pairs(["settled"]) == 9)
        [found, other] = store.request_withdrawals([1, 4, 99])
        until(lambda: store.pairs_by_id([found, other]) == [])
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/pairs/2", method="DELETE")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status in (200, 204)
        assert store.pairs_by_id([2]) == []
        assert daemon.end() == 0
        assert store.lease() is None
        report = verify(store)
        assert (report.problems, report.pairs) == ([], 6)
    assert (spool / "done" / "news" / "one.bars").read_text() == TEXT
    assert json.loads(daemon.log[-1])["event"] == "daemon stopped"


@pytest.mark.slow
def test_restarted_daemon_settles_the_pairs_of_a_killed_one(serve: Serve, tmp_path: Path) -> None:
    spool, quick_url = tmp_path / "spool", f"sqlite:///{tmp_path}/s.db"
    open_store(quick_url, create=True, settings=QUICK).close()
    first = serve("--store", quick_url, "--spool", str(spool))
    drop(spool, "one.bars", TEXT)
    first.until("file ingested")
    first.kill()
    drop(spool, "again.bars", TEXT)
    second = serve("--store", quick_url, "--spool", str(spool))
    assert second.until("file ingested")["duplicates"] == 9
    with open_store(quick_url) as store:
        until(lambda: store.count_pairs(["settled"]) == 9)
        assert second.end(signal.SIGINT) == 0
        assert verify(store).problems == []


def refused_start(hierogram: Run, *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code and messages of a daemon that must not start, without notes about created files."""
    ended = hierogram("serve", *arguments)
    return ended.code, [line for line in ended.err.splitlines() if line.startswith("hierogram: ")]


def test_an_occupied_port_prevents_the_start(hierogram: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, [message] = refused_start(hierogram, "--store", str(tmp_path / "s.db"), "--port", str(port))
    assert code == 3
    assert message.startswith(f"hierogram: cannot listen on 127.0.0.1 port {port}: ")
    assert "--port" in message


def test_daemon_on_a_store_in_use_is_refused_before_the_service_is_imported(
    hierogram: Run, quick_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hierogram.daemon.serving.service", None)
    with open_store(quick_url) as store:
        store.take_lease("hierogram learn", 60)
        code, [message] = refused_start(hierogram, "--store", quick_url, "--port", "0")
        assert (code, "`hierogram learn` (process " in message) == (3, True)


@pytest.mark.parametrize("place", ["file/spool", "file"])
def test_a_spool_that_cannot_be_created_prevents_the_start(hierogram: Run, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("no folder")
    arguments = ("--store", str(tmp_path / "s.db"), "--spool", str(tmp_path / place), "--port", "0")
    code, [message] = refused_start(hierogram, *arguments)
    assert code == 3
    assert message.startswith(f"hierogram: spool: {tmp_path / place} cannot be created: ")


JOB = 'name = "{}"\nto = "{}"\nevery = "1d"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[[exports]]\n" + JOB.format("a", "x") + "[[exports]]\n" + JOB.format("a", "y"),
            "exports.1.name: job 'a' already",
        ),
        ("[[exports]]\n" + JOB.format("a", "x") + "[[exports]]\n" + JOB.format("b", "x"), "exports.1.to: x: job 'a' "),
        (
            "[[exports]]\n" + JOB.format("a", "x") + 'filter_for = "t.fr"\n',
            "exports.0.filter_for: t.fr: file not found",
        ),
        ('[translating]\nlm = "lm.arpa"\n', "translating.lm: lm.arpa: file not found"),
        ('[translating]\nweights = "w.toml"\n', "translating.weights: w.toml: file not found"),
        ('[translating]\nglossary = "g.tsv"\n', "translating.glossary: g.tsv: file not found"),
        ("[[exports]]\n" + JOB.format("a", "x") + 'timezone = "Berlin"\n', "'Berlin': time zone not found"),
        ('timezone = "Berlin"\n', "timezone: 'Berlin': time zone not found"),
    ],
)
def test_an_invalid_configuration_prevents_the_start(hierogram: Run, tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text(text)
    code, [message] = refused_start(hierogram, "--store", str(tmp_path / "s.db"), "--config", str(file), "--port", "0")
    assert code == 2
    assert message.startswith(f"hierogram: {file}: ")
    assert expected in message


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--host", "0.0.0.0"], "set token"),
        (["--host", "no.such.host.invalid"], "set token"),
        (["--port", "70000"], "65535"),
    ],
)
def test_an_invalid_address_is_a_usage_error(hierogram: Run, tmp_path: Path, arguments: list[str], hint: str) -> None:
    ended = hierogram("serve", "--store", str(tmp_path / "s.db"), *arguments)
    assert ended.code == 2
    assert hint in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_daemon_uses_its_options_and_environment_and_refuses_a_second_daemon(
    serve: Serve, hierogram: Run, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = tmp_path / "s.db"
    options = ("--store", str(store), "--host", "localhost", "--port", str(port))
    daemon = serve(*options, HIEROGRAM_INTAKE__MAX_REJECTED_LINES="10")
    assert daemon.until_port() == port
    headers = {"Content-Type": "application/jsonl"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/pairs", data=b"\n" * 11, headers=headers)
    with pytest.raises(urllib.error.HTTPError, match="422") as too_many:
        urllib.request.urlopen(request, timeout=60)
    assert "the limit is 10 (in a daemon: max_rejected_lines in [intake]" in too_many.value.read().decode()
    code, [message] = refused_start(hierogram, "--store", str(store), "--port", "0")
    assert code == 3
    assert f"`hierogram serve` (process {daemon.process.pid} on " in message
    assert daemon.end() == 0
    [started] = [json.loads(line) for line in daemon.log if "daemon started" in line]
    assert started["spool"] is None


@pytest.mark.slow
def test_configuration_is_reloaded_on_sighup(tmp_path: Path, serve: Serve) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text(f'store = "{tmp_path}/s.db"\n[spool]\nfolder = "{tmp_path}/one"\n')
    daemon = serve("--config", str(file))
    daemon.until("daemon started")
    file.write_text("[spool]\nfodler = 5\n")
    daemon.send(signal.SIGHUP)
    assert "fodler: unknown key" in str(daemon.until("configuration not reloaded")["error"])
    file.write_text(f'store = "elsewhere.db"\n[spool]\nfolder = "{tmp_path}/two"\n')
    daemon.send(signal.SIGHUP)
    assert daemon.until("this change takes effect after a restart of the daemon")["key"] == "store"
    assert daemon.until("configuration reloaded")["restarted"] == ["ingest"]
    drop(tmp_path / "two", "x.bars", TEXT)
    assert daemon.until("file ingested")["accepted"] == 9
    assert daemon.end() == 0


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_failed_reload_leaves_the_daemon_unchanged(store_url: str, tmp_path: Path, serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
        port, wanted = free.getsockname()[1], other.getsockname()[1]
    file = tmp_path / "daemon.toml"
    file.write_text(f"[http]\nport = {port}\n")
    daemon = serve("--config", str(file), "--store", store_url, HIEROGRAM_HTTP__PORT=None)
    assert daemon.until_port() == port

    def reload(text: str, event: str) -> dict[str, object]:
        file.write_text(text)
        daemon.send(signal.SIGHUP)
        return daemon.until(event)

    def answers(at: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{at}/healthz", timeout=60) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    refused = "configuration not reloaded"
    with socket.create_server(("127.0.0.1", wanted)):
        logged = reload(f"[http]\nport = {wanted}\nmax_lag = 5\n", refused)
        assert f"cannot listen on 127.0.0.1 port {wanted}: " in str(logged["error"])
        assert answers(port)
    logged = reload(f'[http]\nport = {wanted}\n[spool]\nfolder = "{file}"\n', refused)
    assert f"{file} cannot be created" in str(logged["error"])
    assert answers(port)
    # The refused configurations must not occupy the port, which is free now.
    assert reload(f"[http]\nport = {wanted}\n", "configuration reloaded")["restarted"] == ["http"]
    until(lambda: answers(wanted))
    assert not answers(port)
    # Other changes do not affect the port.
    reload(f"[http]\nport = {wanted}\nmax_lag = 6\n", "configuration reloaded")
    until(lambda: answers(wanted))
    assert daemon.end() == 0
    assert not any("loop failed" in line for line in daemon.log)


@pytest.mark.slow
def test_systemd_is_notified_and_a_second_signal_ends_the_daemon_immediately(tmp_path: Path, serve: Serve) -> None:
    address = f"\0hierogram-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(60)

        def next_but_watchdog() -> str:
            while (message := systemd.recv(1000).decode()) == "WATCHDOG=1":
                pass
            return message

        daemon = serve(
            "--store", str(tmp_path / "s.db"), NOTIFY_SOCKET=address.replace("\0", "@"), WATCHDOG_USEC="200000"
        )
        assert systemd.recv(1000) == b"READY=1"
        assert systemd.recv(1000) == b"WATCHDOG=1"
        daemon.send(signal.SIGHUP)
        assert next_but_watchdog().startswith("RELOADING=1\nMONOTONIC_USEC=")
        assert next_but_watchdog() == "READY=1"
        blocking = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        blocking.execute("BEGIN IMMEDIATE")
        # Loops that write and the store's lease wait for another writer, and the daemon waits for them.
        daemon.send(signal.SIGTERM)
        assert next_but_watchdog() == "STOPPING=1"
        daemon.until("daemon stopping")
        assert daemon.end() == -signal.SIGTERM
        blocking.close()
