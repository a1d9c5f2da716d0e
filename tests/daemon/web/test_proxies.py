"""Clients behind nginx have separate rate limits, even with forged headers, and may send forms."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.daemon.web.conftest import FakeService
from tests.daemon.web.running import HttpThread

from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")

TOKEN = "a token of some length"
DOCUMENT = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

# Continuous integration installs nginx, so the tests are not skipped there.
if NGINX is None and os.environ.get("CI") != "true":
    pytest.skip("no nginx: install Debian's package nginx", allow_module_level=True)


def settings_of_the_document() -> str:
    """Return the nginx directives for a location in the document."""
    [block] = [part.partition("```")[0] for part in DOCUMENT.split("```nginx\n")[1:]]
    inner = block.partition("location / {")[2].partition("}")[0]
    return "".join(line + "\n" for line in inner.splitlines() if "proxy_pass" not in line)


@pytest.fixture
def running(store: Store) -> Iterator[HttpThread]:
    daemon = HttpThread(FakeService(store), token=TOKEN, max_rate=0.001, max_burst=3)
    yield daemon
    daemon.end()


@pytest.fixture
def proxy(running: HttpThread, tmp_path: Path) -> Iterator[str]:
    """URL of an nginx in front of the daemon."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    host, own = running.loop.address or ("", 0)
    temporary = "".join(
        f"    {name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off;\npid {tmp_path}/pid;\nerror_log {tmp_path}/errors;\nevents {{}}\nhttp {{\n"
        f"    access_log off;\n{temporary}    server {{\n        listen 127.0.0.1:{port};\n"
        f"        location / {{\n            proxy_pass http://{host}:{own};\n{settings_of_the_document()}"
        "        }\n    }\n}\n"
    )
    assert NGINX is not None, "continuous integration installs nginx"
    process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", "stderr"])
    try:
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def client_at(address: str, url: str) -> httpx2.Client:
    return httpx2.Client(transport=httpx2.HTTPTransport(local_address=address), base_url=url, timeout=20)


def test_each_client_behind_nginx_has_its_own_rate_limit(proxy: str) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}
    with client_at("127.0.0.2", proxy) as stranger, client_at("127.0.0.3", proxy) as other:
        statuses = [
            stranger.get("/v1/status", headers={"X-Forwarded-For": f"192.0.2.{n}"}).status_code for n in range(5)
        ]
        assert statuses == [401, 401, 401, 429, 429]
        assert stranger.get("/healthz").status_code == 200
        assert stranger.get("/v1/status", headers=right).status_code == 200
        assert other.get("/v1/status").status_code == 401
        assert [other.get("/v1/status", headers=right).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_browser_behind_nginx_may_send_forms(proxy: str) -> None:
    with client_at("127.0.0.2", proxy) as browser:
        sent = browser.post("/login", data={"token": TOKEN, "next": "/"}, headers={"Origin": proxy})
        assert sent.status_code == 303
        assert browser.get("/").status_code == 200
        assert browser.post("/login", data={"token": TOKEN}, headers={"Origin": "http://evil.test"}).status_code == 403
