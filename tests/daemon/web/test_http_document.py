"""docs/http.md documents every route, and its examples give the documented responses."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService

from hierogram.daemon.exports.options import ExportJob
from hierogram.daemon.exports.schedule import add_job, run_job
from hierogram.daemon.learning.alignment.incremental import IncrementalAligner
from hierogram.storage.schema.tables import REVISIONS
from hierogram.storage.store import Store
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.scoring import Scorer, save_scores

pytestmark = pytest.mark.database("sqlite")

DOCUMENT = (Path(__file__).parents[3] / "docs" / "http.md").read_text()
SECTIONS = [
    (title.split(" ", 1), body)
    for title, body in re.findall(
        r"^### ((?:GET|POST|PUT|DELETE) \S+)\n(.*?)(?=^##|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL
    )
]
_MAY_BE_EMPTY = ("children", "oldest_seconds", "log_likelihood", "features", "wal_bytes", "link_probabilities")
ADDRESS = "http://127.0.0.1:8470"
PAIRS = (
    b'{"source": "le jardin", "target": "the garden", "alignment": "0-0 1-1"}\n'
    b'{"id": "n1", "note": "", "source": "la mer", "target": "the sea", "alignment": [[0, 0], [1, 1]]}\n'
    b'{"source": "la mer"}\n'
)
FILES = {
    "@pairs.jsonl": PAIRS,
    "@sentences.json": b'{"sentences": ["la maison"]}',
    "@links.json": b'{"fixed": [[1, 2]], "forbidden": [[0, 1]]}',
    "@new-pairs.json": b'{"pairs": [{"source": "la maison", "target": "the house"}]}',
}


def run_curl(client: TestClient, command: str) -> Any:
    """Return the method, the path and the response of a curl command line, which must address the daemon."""
    program, *arguments = shlex.split(command)
    assert program == "curl"
    method, headers, content, url = "GET", {}, None, ""
    while arguments:
        match arguments.pop(0):
            case "-s":
                pass
            case "-X":
                method = arguments.pop(0)
            case "-H":
                name, value = arguments.pop(0).split(": ")
                headers[name] = value
            case "--data-binary":
                method, content = "POST" if method == "GET" else method, FILES[arguments.pop(0)]
            case "-o":
                arguments.pop(0)
            case address:
                assert address.startswith(ADDRESS), address
                url = address.removeprefix(ADDRESS)
    return method, url, client.request(method, url, headers=headers, content=content)


def shape(value: Any) -> Any:
    """Return the types in a value, without the lengths of lists and the names that depend on the store."""
    if isinstance(value, dict):
        if value.keys() & {"missing-field", "news", "default", "note"}:
            return "by name"
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return shape(value[0]) if value else "list"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def test_every_route_is_documented(client: TestClient) -> None:
    routes = {
        (method.upper(), path)
        for path, methods in client.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    assert routes == {(method, path) for (method, path), _ in SECTIONS}


def test_every_example_gives_the_documented_response(learned: Store, connect: Connect, tmp_path: Path) -> None:
    nightly = ExportJob(name="nightly", to=tmp_path, cron="0 3 * * *", timezone="Europe/Berlin")
    add_job(learned, nightly)
    IncrementalAligner(learned).train()
    scorer = Scorer(LearnedCounts(learned, lambda *_: None))
    [first] = learned.pairs_by_id([1])
    save_scores(learned, scorer, [first], scorer.score_stored([first]))
    client = connect(FakeService(learned))
    compared = 0
    for (method, path), body in SECTIONS:
        if path == "/v1/status":
            run_job(learned, nightly)
        [command] = re.findall(r"```sh\n(.*?)\n```", body, re.DOTALL)
        used, url, answer = run_curl(client, command)
        pattern = re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(path))
        assert (used, bool(re.fullmatch(pattern, url.split("?")[0]))) == (method, True)
        assert answer.status_code in (200, 204), answer.text
        for example in re.findall(r"```json\n(.*?)```", body, re.DOTALL):
            expected, found = json.loads(example), answer.json()
            for loose in (expected, found):
                for name in _MAY_BE_EMPTY:
                    _forget(loose, name)
            assert shape(found) == shape(expected), path
            compared += 1
    assert compared == 16


def test_documented_schema_number_is_current() -> None:
    assert set(re.findall(r'"schema": "(\d+)"', DOCUMENT)) == {REVISIONS[-1]}


def _forget(value: Any, name: str) -> None:
    """Remove all members with this name."""
    if isinstance(value, dict):
        value.pop(name, None)
        for item in value.values():
            _forget(item, name)
    elif isinstance(value, list):
        for item in value:
            _forget(item, name)


def test_posting_the_documented_pairs_returns_the_documented_counts(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned))
    [body] = [body for (_, path), body in SECTIONS if path == "/v1/pairs"]
    [command] = re.findall(r"```sh\n(.*?)\n```", body, re.DOTALL)
    [example] = re.findall(r"```json\n(.*?)```", body, re.DOTALL)
    expected = json.loads(example)
    _, _, answer = run_curl(client, command)
    assert answer.json() | {"batch": 0} == expected | {"batch": 0}
    _, _, again = run_curl(client, command)
    assert again.json() == answer.json()
    assert again.headers["idempotency-replayed"] == "true"
