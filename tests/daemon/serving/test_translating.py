"""A daemon that learns translates by what it has learned, with no restart."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from tests.daemon.serving.conftest import Daemon

PROMISED_SECONDS = 15.0


def post(port: int, path: str, kind: str, content: bytes) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


@pytest.mark.database("sqlite")
def test_a_new_pair_is_used_in_translations_within_seconds(serve: Callable[..., Daemon], learned_url: str) -> None:
    daemon = serve("--store", learned_url)
    port = daemon.until_port()

    def translated() -> list[str]:
        body = json.dumps({"sentences": ["la girafe"]}).encode()
        [found] = post(port, "/v1/translate", "application/json", body)["sentences"]
        return str(found["translation"]).split()

    assert translated() == ["the", "girafe"]
    pair = {"source": "la girafe", "target": "the giraffe", "alignment": "0-0 1-1"}
    arrived = time.monotonic()
    post(port, "/v1/pairs", "application/jsonl", json.dumps(pair).encode() + b"\n")
    while "giraffe" not in (found := translated()) and time.monotonic() - arrived < PROMISED_SECONDS:
        time.sleep(0.1)
    assert found == ["the", "giraffe"]
    assert daemon.end() == 0
