"""PgBouncer in transaction mode in front of the Postgres server of the tests."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

PROGRAM = "/usr/sbin/pgbouncer"
CONNECTIONS = 2
"""Server connections for each database and role. Tests open more connections to PgBouncer, which share these."""
_TIMEOUT_SECONDS = 10.0


@contextmanager
def pgbouncer(server: str, *settings: str, connections: int = CONNECTIONS) -> Iterator[str]:
    """Run PgBouncer for a server and yield the URL of its socket. `settings` are extra lines of its configuration.

    If PgBouncer is not installed, the test is skipped, or fails in CI.
    """
    program = PROGRAM if Path(PROGRAM).exists() else shutil.which("pgbouncer")
    if program is None:
        missing = f"no pgbouncer: install Debian's package of this name ({PROGRAM})"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    url = make_url(server)
    host = str(url.query.get("host") or url.host or "localhost")
    folder = Path(tempfile.mkdtemp(prefix="hierogram-pgbouncer-"))
    (folder / "users").write_text(f'"{url.username or "postgres"}" "{url.password or ""}"\n"hierogram_sql" ""\n')
    (folder / "pgbouncer.ini").write_text(
        "\n".join(
            (
                "[databases]", f"* = host={host} port={url.port or 5432}",
                "[pgbouncer]", f"unix_socket_dir = {folder}", "listen_addr =", "auth_type = trust",
                f"auth_file = {folder}/users", "pool_mode = transaction", f"default_pool_size = {connections}",
                "max_client_conn = 100", *settings, "",
            )
        )
    )  # fmt: skip
    command = [program, "--quiet"]
    if os.geteuid() == 0:
        # PgBouncer refuses to run as root, and must be able to read the server's socket.
        owner = pwd.getpwuid(os.stat(host).st_uid if host.startswith("/") else pwd.getpwnam("nobody").pw_uid)
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner.pw_uid, owner.pw_gid)
        command += ["--user", owner.pw_name]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, str(folder / "pgbouncer.ini")], stdout=log, stderr=log)
    try:
        _wait_for_socket(folder / ".s.PGSQL.6432", process, folder / "log")
        yield str(url.set(host=None, port=None, password=None, query={"host": str(folder), "port": "6432"}))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _wait_for_socket(path: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until PgBouncer accepts connections. Fails with its log after ten seconds."""
    until = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as probe:
            if process.poll() is None and probe.connect_ex(str(path)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError(log.read_text())
