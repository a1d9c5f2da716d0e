"""Connection parameters of a Postgres URL, and the settings of each transaction.

Parameters of libpq are passed on. Each transaction repeats the settings in `options`, because a connection pooler such
as PgBouncer may ignore them, and may run each transaction of a client on another connection.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, Connection

from hierogram.storage.exceptions import StoreUrlError

CONNECT_SECONDS = 30
LOCK_SECONDS = 300
"""Seconds that a writer waits for a lock. A commit of millions of rules takes minutes."""

# Prepare no statements by default: poolers lose them between transactions, and they made nothing measurably faster.
PREPARE = "prepare_threshold"
"""URL parameter: number of executions of a statement before it is prepared. 0, the default: never."""

SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""URL parameters that are removed from URLs in messages."""

_DEFAULTS = {
    "application_name": "hierogram",
    # Time out if the server does not answer or the connection breaks, so that a daemon gets an error and retries.
    "connect_timeout": str(CONNECT_SECONDS),
    "keepalives_idle": str(CONNECT_SECONDS),
    "tcp_user_timeout": str(2_000 * CONNECT_SECONDS),
}
_SETTINGS = {"timezone": "UTC", "jit": "off", "lock_timeout": f"{LOCK_SECONDS}s"}
_RESERVED = {
    "client_encoding": "is always utf8: remove this parameter",
    "replication": "is not supported: remove this parameter",
    "timezone": "is always UTC: remove this parameter",
}
_WORD = re.compile(r"(?:\\.|[^\s\\])+", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_][\w.-]*)=(.*)", re.ASCII | re.DOTALL)
_SCHEMA = re.compile(r'("(?:[^"]|"")+")|([^",\s]+)')


def check_parameters(url: URL) -> None:
    """Raise `StoreUrlError` for a parameter of the URL that is unknown, reserved or malformed."""
    from psycopg.pq import Conninfo

    accepted = {option.keyword.decode() for option in Conninfo.get_defaults()} | {PREPARE}
    for name, value in url.query.items():
        if name not in accepted:
            raise StoreUrlError(
                f"unknown parameter {name!r} in the URL of the store: expected {PREPARE} or a parameter of libpq "
                "(sslmode, connect_timeout, options, …)"
            )
        if name in _RESERVED:
            raise StoreUrlError(f"URL of the store: {name} {_RESERVED[name]}")
        # Accept repeated hosts and ports, because a URL may list several servers.
        if not isinstance(value, str) and name not in ("host", "port"):
            raise StoreUrlError(f"parameter {name!r} occurs {len(value)} times in the URL of the store: give it once")
    _prepare_threshold(url)
    _given_settings(url)


def _prepare_threshold(url: URL) -> int | None:
    given = str(url.query.get(PREPARE, "0"))
    if given.lower() in ("0", "none"):
        return None
    if not given.isdecimal():
        raise StoreUrlError(
            f"{PREPARE} in the URL of the store must be the number of executions before a statement is prepared, or 0 "
            f"to prepare no statements, got {given!r}"
        )
    return int(given)


def connection_arguments(url: URL, **defaults: str) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect`. Parameters of the URL replace the `defaults`."""
    url_arguments = dict(url.get_dialect()().create_connect_args(url)[1])
    return _DEFAULTS | defaults | url_arguments | {"client_encoding": "utf8", PREPARE: _prepare_threshold(url)}


def transaction_settings(url: URL) -> dict[str, str]:
    """Return the settings of every transaction: the store's own settings, and the `options` in the URL."""
    return _SETTINGS | _given_settings(url)


def set_locally(connection: Connection, settings: Mapping[str, str]) -> None:
    """Change Postgres settings until the end of the connection's transaction."""
    import psycopg

    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(local_settings(settings).encode(), prepare=False)


def local_settings(settings: Mapping[str, str]) -> str:
    """Return the SQL statements that change Postgres settings until the end of a transaction."""
    # Do not call `set_config`, because the role of `sql_url` must not execute it.
    return "; ".join(f"SET LOCAL {name} TO {_value(name, value)}" for name, value in settings.items())


def _value(name: str, value: str) -> str:
    if name != "search_path":
        return "'" + value.replace("'", "''") + "'"
    # Quote each schema separately, because a single quoted string would name one schema.
    names = (quoted or '"' + bare.lower() + '"' for quoted, bare in _SCHEMA.findall(value))
    return ", ".join(names) or "''"


def _given_settings(url: URL) -> dict[str, str]:
    """Parse `options` like the server: `-c name=value` or `--name=value`, with backslashes before spaces."""
    settings = {}
    words = (re.sub(r"\\(.)", r"\1", word) for word in _WORD.findall(str(url.query.get("options", ""))))
    for word in words:
        text = next(words, "") if word == "-c" else word[2:] if word.startswith(("-c", "--")) else ""
        match = _SETTING.fullmatch(text)
        if match is None:
            given = f"-c {text}".rstrip() if word == "-c" else word
            raise StoreUrlError(
                f"options in the URL of the store must be settings such as -c search_path=news, got {given!r}"
            )
        name = match[1].replace("-", "_").lower()
        if name in _RESERVED:
            raise StoreUrlError(f"options in the URL of the store: {name} {_RESERVED[name]}")
        settings[name] = match[2]
    return settings
