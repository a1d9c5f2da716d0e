"""Fixtures of the daemon that the tests of tools also use."""

from tests.daemon.conftest import corpus, hierogram, lab, learned, learned_url, parts, parts_url
from tests.daemon.serving.conftest import serve
from tests.daemon.web.conftest import (
    client,
    clients_that_read,
    connect,
    empty_client,
    gathered_once,
    learned_client,
    reading_client,
    reading_url,
    service,
)

__all__ = [
    "client", "clients_that_read", "connect", "corpus", "empty_client", "gathered_once", "hierogram", "lab", "learned",
    "learned_client", "learned_url", "parts", "parts_url", "reading_client", "reading_url", "serve", "service",
]  # fmt: skip
