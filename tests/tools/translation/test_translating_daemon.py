"""A learning daemon translates with its current grammar, without a restart."""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from libretranslatepy import LibreTranslateAPI
from tests.daemon.serving.conftest import Daemon

import hierogram as hg

PROMISED_SECONDS = 15.0
CORRECTED_SECONDS = 5.0


def post(port: int, path: str, kind: str, content: bytes) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_libretranslate_correction_is_the_next_answer_and_is_learned(
    serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'french.db'}"
    with hg.open(url, create=True, languages=("fr", "en"), tokenize=True, seed=7) as store:
        store.add([("la maison", "the house"), ("la porte", "the door"), ("maison verte", "green house")] * 4)
        store.learn(4).run()
    daemon = serve("--store", url, HIEROGRAM_HTTP__LIBRETRANSLATE="true")
    client = LibreTranslateAPI(f"http://127.0.0.1:{daemon.until_port()}")
    assert client.translate("la girafe", "fr", "en").split()[-1] == "girafe"
    body = {"q": "la girafe", "s": "the giraffe", "source": "fr", "target": "en"}
    posted = time.monotonic()
    with urllib.request.urlopen(f"{client.url}suggest", urllib.parse.urlencode(body).encode(), timeout=60) as answer:
        assert json.loads(answer.read()) == {"success": True}
    assert client.translate("la girafe", "fr", "en") == "the giraffe"
    assert time.monotonic() - posted < CORRECTED_SECONDS
    # Other texts use the correction once the pair is sampled.
    while "giraffe" not in (found := client.translate("girafe verte", "fr", "en")):
        assert time.monotonic() - posted < PROMISED_SECONDS, found
        time.sleep(0.1)
    assert daemon.end() == 0
