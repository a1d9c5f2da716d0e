"""Fixtures of the daemon that the tests of tools also use."""

from tests.daemon.conftest import corpus, hierogram, lab, learned, learned_url, parts, parts_url
from tests.daemon.serving.conftest import serve
from tests.daemon.web.conftest import (
    client,
    connect,
    empty_client,
    learned_client,
    reading_client,
    reading_url,
    service,
    shared_clients,
    shared_openapi,
)

__all__ = [
    "client",
    "connect",
    "corpus",
    "empty_client",
    "hierogram",
    "lab",
    "learned",
    "learned_client",
    "learned_url",
    "parts",
    "parts_url",
    "reading_client",
    "reading_url",
    "serve",
    "service",
    "shared_clients",
    "shared_openapi",
]  # fmt: skip
