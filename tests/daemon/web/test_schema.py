"""Random requests from the OpenAPI document get responses that match it."""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import Failure
from schemathesis.engine import events, from_schema
from schemathesis.openapi.checks import UseAfterFree
from starlette.types import ASGIApp
from tests.daemon.conftest import LINES, QUICK
from tests.daemon.web.conftest import FakeService

from hierogram.daemon.configuration import HttpConfiguration, configuration_type
from hierogram.daemon.web.application import build_app
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

schemathesis.serializer.alias("application/jsonl", "text/plain")

TOKEN = "a token of some length"

MEMBERS = {
    "source": st.sampled_from([line.split(" ||| ")[0] for line in LINES]) | st.text(max_size=20),
    "target": st.sampled_from([line.split(" ||| ")[1] for line in LINES]) | st.text(max_size=20),
    "alignment": st.none() | st.just("0-0") | st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    "fixed": st.none() | st.just("0-0") | st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    "forbidden": st.none() | st.just("0-1") | st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=3),
    "id": st.none() | st.integers() | st.text(max_size=5),
}
"""Values of the documented members of a body's line. A test compares the names."""

BODIES = st.lists(
    st.fixed_dictionaries({}, optional=MEMBERS | {"note": st.text(max_size=3)}).map(json.dumps) | st.text(max_size=20),
    max_size=5,
).map("\n".join)


KEYS = count()


def _has_lines(body: object) -> bool:
    text = body.removeprefix("\ufeff") if isinstance(body, str) else ""
    return text != "" and not text.lstrip().startswith("[")


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make idempotency keys unique and pair ids low, and replace bodies of pairs that the document wrongly allows."""
    if (case.method, case.path) == ("POST", "/v1/pairs") and not _has_lines(case.body):
        case.body = "{}"
    for name, value in list((case.headers or {}).items()):
        if name.lower() == "idempotency-key" and re.fullmatch(r"[\x21-\x7e]{1,255}", value):
            case.headers[name] = f"{value[:200]}-{next(KEYS)}"
    number = (case.path_parameters or {}).get("pair_id")
    if isinstance(number, int) and 1 <= number < 1 << 63:
        case.path_parameters["pair_id"] = 1 + number % (2 * len(LINES))


def application(store: Store, **values: object) -> ASGIApp:
    http = HttpConfiguration(max_rate=1e6, max_burst=10**6, max_lag=10**9, **values)
    return build_app(FakeService(store), configuration_type()(http=http))


def load_schema(app: ASGIApp, examples: int, seed: int, token: str | None = None) -> Any:
    """Return the app's OpenAPI document for Schemathesis, which sends `examples` requests for each operation."""
    headers = {"Host": "localhost"}
    configuration = schemathesis.Config.from_dict(
        {
            "seed": seed,
            "headers": dict(headers),
            "generation": {"max-examples": examples, "database": "none"},
            "cache": {"enabled": False},
            **({"auth": {"openapi": {"token": {"bearer": token}}}} if token else {}),
        }
    )
    if token:
        headers["Authorization"] = f"Bearer {token}"
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=configuration, headers=headers)

    @schema.hook
    def before_generate_body(context: Any, strategy: Any) -> Any:
        return BODIES if context.operation.path == "/v1/pairs" else strategy

    return schema


def failures(schema: Any) -> Iterator[str]:
    """Yield a message for each response that does not match the document, and one after fewer than 100 requests."""
    count = 0
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            yield str(event)
        if not isinstance(event, events.ScenarioFinished):
            continue
        count += len(event.recorder.cases)
        for results in event.recorder.checks.values():
            for found in results:
                if found.failure_info is not None and not _only_links_were_deleted(found.failure_info.failure):
                    failure = found.failure_info.failure
                    yield f"{event.label}: {failure.title}: {failure.message}\n{found.failure_info.code_sample}"
    if count < 100:
        yield f"only {count} requests were made"


def _only_links_were_deleted(failure: Failure) -> bool:
    """Check if only the human links of a pair were deleted, and its other links remain."""
    return isinstance(failure, UseAfterFree) and failure.free.endswith("/links")


def assert_as_described(schema: Any) -> None:
    found = list(failures(schema))
    assert not found, "\n\n".join(found[:10])


@pytest.fixture
def fresh(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as store:
        yield store


@pytest.mark.slow
def test_responses_match_the_document(learned: Store) -> None:
    assert_as_described(load_schema(application(learned), 1, 1))


@pytest.mark.slow
def test_responses_to_authenticated_requests_match_the_document(fresh: Store) -> None:
    """Some routes suffice here, because the campaign tests all of them."""
    schema = load_schema(application(fresh, token=TOKEN), 2, 2, TOKEN)
    assert_as_described(schema.include(path_regex="z$|status|/pairs"))


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(4))
def test_many_responses_match_the_document(learned: Store, seed: int) -> None:
    assert_as_described(load_schema(application(learned), 400, seed))


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_all_authenticated_responses_match_the_document(learned: Store) -> None:
    assert_as_described(load_schema(application(learned, token=TOKEN), 20, 2, TOKEN))


@pytest.mark.slow
def test_a_wrong_document_is_detected(fresh: Store) -> None:
    """An undocumented status, content type and method are found, so the tests above can fail."""
    app = application(fresh)
    schema = load_schema(app, 1, 1)
    paths = schema.raw_schema["paths"]
    del paths["/v1/pairs/{pair_id}"]["get"]["responses"]["404"]
    paths["/v1/pairs/{pair_id}/derivation"]["get"]["responses"]["404"]["content"] = {"application/json": {}}
    del paths["/v1/pairs/{pair_id}"]["delete"]
    found = "\n".join(failures(schema.include(path_regex="pair_id}(/derivation)?$")))
    for fault in ("Undocumented status", "Undocumented Content-Type", "Allow header mismatch"):
        assert fault in found


def test_the_document_lists_the_members_of_a_line(fresh: Store) -> None:
    document = load_schema(application(fresh), 1, 1).raw_schema
    [body] = document["paths"]["/v1/pairs"]["post"]["requestBody"]["content"].values()
    assert body["x-item-schema"]["properties"].keys() == MEMBERS.keys()
