"""Webhooks: events are signed and retried until they are accepted, and a failing receiver delays nothing else."""

import base64
import hashlib
import hmac
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr
from tests.storage.building import count_deliveries, export_rows, query

from hierogram.daemon.configuration import Configuration, WebhooksSection, load_configuration
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.serving.logs import open_log
from hierogram.daemon.serving.supervision import HealthRegistry, Heartbeat
from hierogram.daemon.serving.webhooks import WebhookLoop, identify_webhook, redact_credentials, signature
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

SECRET = "a-secret-of-both-sides"
SECONDS = 60.0


class Receiver:
    """HTTP server that records requests and answers with the next of its statuses, repeating the last one."""

    def __init__(self, *statuses: int, wait: float = 0.0) -> None:
        self.statuses = list(statuses)
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answer = b""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = receiver.statuses.pop(0) if len(receiver.statuses) > 1 else receiver.statuses[0]
                time.sleep(wait)
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    @contextmanager
    def listening(self) -> Iterator["Receiver"]:
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.server.shutdown()
            self.server.server_close()
            thread.join(SECONDS)


class ShortPauses(WebhooksSection):
    pause_seconds: ClassVar[float] = 0.01


@contextmanager
def webhook_loop(store: Store, heart: Heartbeat | None = None, **values: Any) -> Iterator[None]:
    """Run the webhook loop in a thread. Fails if the thread does not end."""
    section = ShortPauses(**values)
    configuration = Configuration(webhooks=section)
    loop = WebhookLoop(store, lambda: configuration, HealthRegistry(), open_log(configuration.log))
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(stop, heart or Heartbeat()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.daemon.serving.webhooks._POLL_SECONDS", 0.02)


def export(store: Store, name: str = "g") -> None:
    store.finish_export(store.record_export(name, f"/{name}", "cdec"), rules=7, bytes=70, sha256="ab", position=1)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_registered(store_url: str) -> Callable[[], bool]:
    return lambda: bool(query(store_url, "SELECT name FROM webhooks"))


def test_a_webhook_without_its_extra_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    assert WebhooksSection().url is None
    with pytest.raises(ValueError, match=r"webhooks require httpx2: run pip install '\.\[webhooks\]'"):
        WebhooksSection(url=SecretStr("https://example.org/hook"))


@pytest.mark.database("sqlite", "postgres")
def test_webhook_reports_an_export_with_a_signature(store: Store, store_url: str) -> None:
    with Receiver(204).listening() as receiver, webhook_loop(store, url=receiver.url, secret=SECRET):
        until(is_registered(store_url))
        export(store)
        until(lambda: count_deliveries(store)["done"] == 1)
        [(headers, body)] = receiver.requests
    report = json.loads(body)
    assert (report["kind"], report["count"], report["detail"]["name"]) == ("export-done", 7, "g")
    assert headers["webhook-id"] == str(report["id"])
    # Compute the signature as Standard Webhooks describes it.
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(SECRET.encode(), signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < SECONDS
    assert headers["content-type"] == "application/json"


def test_a_secret_of_standard_webhooks_signs_as_specified() -> None:
    # This example is from the specification's reference libraries.
    found = signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_delivery_is_retried_until_it_is_accepted(store: Store, store_url: str) -> None:
    with Receiver(500, 302, 200).listening() as receiver, webhook_loop(store, url=receiver.url):
        until(is_registered(store_url))
        export(store)
        until(lambda: count_deliveries(store)["done"] == 1)
        assert len(receiver.requests) == 3
        assert len({body for _, body in receiver.requests}) == 1
        assert all("webhook-signature" not in headers for headers, _ in receiver.requests)
    assert query(store_url, "SELECT attempts, status FROM webhook_deliveries") == [(3, 200)]


def test_a_delivery_is_given_up_after_the_allowed_attempts_and_the_next_one_is_sent(
    store: Store, store_url: str
) -> None:
    with Receiver(500, 500, 200).listening() as receiver, webhook_loop(store, url=receiver.url, attempts=2):
        until(is_registered(store_url))
        export(store, "g")
        until(lambda: count_deliveries(store)["failed"] == 1)
        export(store, "h")
        until(lambda: count_deliveries(store)["done"] == 1)
    [(state, attempts, error)] = query(
        store_url, "SELECT state, attempts, error FROM webhook_deliveries WHERE state = 'failed'"
    )
    assert (state, attempts) == ("failed", 2)
    assert str(error).startswith("answered 500")


def test_exports_continue_if_no_receiver_listens(store: Store, store_url: str) -> None:
    receiver = Receiver(200)
    receiver.server.server_close()
    with webhook_loop(store, url=receiver.url, attempts=1):
        until(is_registered(store_url))
        for name in "abc":
            export(store, name)
        until(lambda: count_deliveries(store)["failed"] == 3)
    assert {row.state for row in export_rows(store)} == {"done"}


@pytest.mark.slow
def test_slow_receiver_does_not_delay_exports(store: Store, store_url: str) -> None:
    receiver = Receiver(200, wait=1.0)
    with receiver.listening(), webhook_loop(store, url=receiver.url, attempts=1, timeout_seconds=0.1):
        until(is_registered(store_url))
        began = time.monotonic()
        export(store)
        assert time.monotonic() - began < 0.9
        until(lambda: count_deliveries(store)["failed"] == 1)
    [(error,)] = query(store_url, "SELECT error FROM webhook_deliveries")
    assert "Timeout" in str(error)


DRIPS = {
    "head": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "status": (b"", b"H"),
    "interim answers": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "body": (b"HTTP/1.1 500 No\r\nContent-Length: 400\r\n\r\n", b"x"),
    "chunks": (b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@contextmanager
def dripping(first: bytes, then: bytes) -> Iterator[str]:
    """Receiver that sends `first` and then repeatedly `then`, at intervals shorter than any timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as threads:
        ended = threading.Event()

        def drip(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.sendall(first)
                while not ended.wait(0.05):
                    connection.sendall(then)

        def accept() -> None:
            with suppress(OSError):
                while not ended.is_set():
                    threads.submit(drip, listener.accept()[0])

        threads.submit(accept)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.database("sqlite", "postgres")
def test_response_with_arbitrary_bytes_is_recorded_without_nul(store: Store, store_url: str) -> None:
    with (
        dripping(b"HTTP/1.1 500 No\r\n\r\n" + bytes(range(256)) * 4, b"\0") as url,
        webhook_loop(store, url=url, attempts=1),
    ):
        until(is_registered(store_url))
        export(store)
        until(lambda: count_deliveries(store)["failed"] == 1)
    [(error,)] = query(store_url, "SELECT error FROM webhook_deliveries")
    assert str(error).startswith("answered 500: ")
    assert "\0" not in str(error)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/events.db", create=True) as store:
        yield store


@pytest.mark.slow
@pytest.mark.parametrize("part", DRIPS)
def test_a_delivery_times_out_although_its_receiver_keeps_sending_bytes(sqlite_store: Store, part: str) -> None:
    store = sqlite_store
    heart = Heartbeat()
    heart.problem = "connection failed"
    with dripping(*DRIPS[part]) as url, webhook_loop(store, heart, url=url, attempts=1, timeout_seconds=1.0):
        until(is_registered(store.url))
        export(store)
        began = time.monotonic()
        oldest = 0.0
        until(lambda: heart.problem is None)
        assert not count_deliveries(store)["failed"]
        while not count_deliveries(store)["failed"]:
            assert time.monotonic() - began < 20
            oldest = max(oldest, heart.age)
            time.sleep(0.02)
    assert oldest < 5


@pytest.mark.slow
def test_webhook_loop_ends_while_a_receiver_answers_slowly(sqlite_store: Store) -> None:
    with dripping(*DRIPS["head"]) as url:
        with webhook_loop(sqlite_store, url=url, timeout_seconds=1_000.0):
            until(is_registered(sqlite_store.url))
            export(sqlite_store)
            # Give the attempt time to begin.
            time.sleep(1)
            began = time.monotonic()
        assert time.monotonic() - began < 10


def test_only_the_configured_kinds_of_events_are_sent(store: Store, store_url: str) -> None:
    with Receiver(200).listening() as receiver, webhook_loop(store, url=receiver.url, events=("export-failed",)):
        until(is_registered(store_url))
        export(store)
        store.finish_export(store.record_export("h", "/h", "cdec"), error="no room")
        until(lambda: count_deliveries(store)["done"] == 1)
        assert [json.loads(body)["kind"] for _, body in receiver.requests] == ["export-failed"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('url = "ftp://x/"', "url: must be a URL"),
        ('url = "https:///hook"', "url: must be a URL"),
        ('url = "https://x:99999/hook"', "url: must be a URL"),
        ('url = "https://x/a b"', "url: must be a URL"),
        ('events = ["exports"]', "unknown kind 'exports': expected rule-added"),
        ('secret = "short"', "at least 16 characters"),
    ],
)
def test_invalid_webhooks_are_rejected(tmp_path: Any, section: str, message: str) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text(f"[webhooks]\n{section}\n")
    with pytest.raises(UsageError, match=message):
        load_configuration(file)


def test_credentials_of_a_webhook_are_not_in_configuration_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "daemon.toml"
    file.write_text('[webhooks]\nurl = "https://who:swordfish@x/hook"\n')
    assert "swordfish" not in repr(load_configuration(file))
    for wrong in ("https://who:swordfish@x:0/hook", "gopher://who:swordfish@x/hook"):
        file.write_text(f'[webhooks]\nurl = "{wrong}"\n')
        with pytest.raises(UsageError) as raised:
            load_configuration(file)
        assert "swordfish" not in str(raised.value)
    monkeypatch.setenv("HIEROGRAM_WEBHOOKS__URL", "gopher://who:swordfish@x/hook")
    with pytest.raises(UsageError) as raised:
        load_configuration()
    assert "swordfish" not in str(raised.value)


def test_a_webhook_is_identified_by_its_origin_and_an_scrypt_hash() -> None:
    url = "https://who:swordfish@Example.org/hooks/T0/B0/token?key=1"
    hook = identify_webhook(url)
    assert hook.origin == "https://example.org:443"
    assert hook == identify_webhook(url)
    others = (
        "https://who:swordfish@example.org/hooks/T0/B0/tokem?key=1",
        "https://example.org/hooks/T0/B0/token?key=1",
    )
    assert len({identify_webhook(other).name for other in (url, *others)}) == 3
    assert identify_webhook("http://[::1]:8080/x").origin == "http://[::1]:8080"
    for digest in (hashlib.sha256, hashlib.sha1, hashlib.md5, hashlib.blake2b):
        assert hook.name not in digest(url.encode()).hexdigest()


@pytest.mark.parametrize(
    ("message", "redacted"),
    [
        ("Cannot POST /hooks/T012/s3cret-token?key=4711", "Cannot POST …"),
        ("who:swordfish is not known", "… is not known"),
        ("no user of password swordfish", "no user of password …"),
        ("token s3cret-token is revoked", "token … is revoked"),
        ("key 4711 is wrong", "key … is wrong"),
        ("it was sw ord fish", "it was sw ord fish"),
        ("that ends in s3cret-to", "that ends in "),
    ],
)
def test_credentials_of_a_url_are_removed_from_messages(message: str, redacted: str) -> None:
    url = "https://who:sword%66ish@example.org/hooks/T012/s3cret-token?key=4711"
    assert redact_credentials(message, url) == redacted


@pytest.mark.database("sqlite", "postgres")
def test_no_table_and_no_log_contains_the_credentials_of_a_webhook(
    store: Store, store_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    receiver = Receiver(404)
    receiver.answer = b"Cannot POST /hook/t0ken-of-the-path?key=query-key"
    with receiver.listening():
        url = receiver.url.replace("//", "//who:swordfish@") + "/t0ken-of-the-path?key=query-key"
        with webhook_loop(store, url=url, attempts=1):
            until(is_registered(store_url))
            export(store)
            until(lambda: count_deliveries(store)["failed"] == 1)
        [(headers, _)] = receiver.requests
    assert headers["authorization"] == f"Basic {base64.b64encode(b'who:swordfish').decode()}"
    [(origin, error)] = query(
        store_url, "SELECT w.origin, d.error FROM webhooks w JOIN webhook_deliveries d ON d.webhook = w.name"
    )
    assert (origin, error) == (f"http://127.0.0.1:{receiver.server.server_port}", "answered 404: Cannot POST …")
    tables = ("webhooks", "webhook_deliveries", "events")
    everything = str([query(store_url, f"SELECT * FROM {table}") for table in tables]) + "".join(capfd.readouterr())
    for secret in ("swordfish", "t0ken", "query-key"):
        assert secret not in everything


@pytest.mark.database("sqlite", "postgres")
def test_a_clock_that_was_ahead_delays_no_delivery(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = 2 * 365 * 86_400.0
    clock = time.time
    with Receiver(500, 200).listening() as receiver, webhook_loop(store, url=receiver.url):
        until(is_registered(store_url))
        monkeypatch.setattr("hierogram.daemon.serving.webhooks.time.time", lambda: clock() + ahead)
        monkeypatch.setattr(ShortPauses, "pause_seconds", 1_000.0)
        export(store)
        until(lambda: bool(query(store_url, "SELECT 1 FROM webhook_deliveries WHERE attempts = 1")))
        [(retry_at,)] = query(store_url, "SELECT retry_at FROM webhook_deliveries")
        assert float(str(retry_at)) > clock() + ahead
        monkeypatch.undo()
        monkeypatch.setattr("hierogram.daemon.serving.webhooks._POLL_SECONDS", 0.02)
        until(lambda: count_deliveries(store)["done"] == 1)
