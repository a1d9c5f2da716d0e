"""Access control and rate limits."""

import re
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from pydantic import ValidationError
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.daemon.web.conftest import Connect, FakeService

from hierogram.daemon.configuration import HttpConfiguration, is_loopback
from hierogram.daemon.web.protocol import access
from hierogram.daemon.web.protocol.access import ANONYMOUS, HEALTH, RateLimiter, RequestMetrics
from hierogram.daemon.web.protocol.problems import make_problem
from hierogram.storage.exceptions import SlowQueryError

pytestmark = pytest.mark.database("sqlite")

TOKEN = "a token of some length"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_addresses_require_no_token(host: str) -> None:
    assert is_loopback(host)
    assert HttpConfiguration(host=host).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "", "localhost.example.org"])
def test_addresses_other_than_loopback_require_a_token(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValidationError, match="set token"):
        HttpConfiguration(host=host)
    assert HttpConfiguration(host=host, token=TOKEN).host == host
    assert HttpConfiguration(host=host, enabled=False).host == host


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 16"):
        HttpConfiguration(token="secret")


def test_slow_queries_get_503_with_a_retry_time() -> None:
    problem = make_problem(Request({"type": "http"}), SlowQueryError("the query was canceled after 5 s"))
    assert (problem.status, problem.detail) == (503, "the query was canceled after 5 s")
    assert int(problem.headers["Retry-After"]) > 0


def test_requests_are_counted_by_their_method() -> None:
    metrics = RequestMetrics()
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "BREW"):
        metrics.count(method, "/v1/pairs/{id}/links", 200, 0.1)
    lines = generate_latest(metrics.registry).decode().splitlines()
    methods = [
        re.findall('method="(.*?)"', line)[0] for line in lines if line.startswith("hierogram_http_requests_total{")
    ]
    assert sorted(methods) == ["DELETE", "GET", "HEAD", "POST", "PUT", "other"]


def test_requests_without_the_token_are_refused_except_health_checks(service: FakeService, connect: Connect) -> None:
    client = connect(service, host="grammar.example.org", token=TOKEN)
    for path in ("/v1/status", "/metrics", "/openapi.json", "/nowhere"):
        refused = client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        for wrong in (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer tök"):
            assert client.get(path, headers={"Authorization": wrong.encode()}).status_code == 401
    assert client.get("/v1/status", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200


def test_the_token_is_compared_in_constant_time(
    service: FakeService, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def compare(shown: bytes, token: bytes) -> bool:
        compared.append((shown, token))
        return False

    monkeypatch.setattr(access.hmac, "compare_digest", compare)
    assert connect(service, token=TOKEN).get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 401
    assert compared[0] == (b"x", TOKEN.encode())
    assert not re.search(r"_token\s*[!=]=|[!=]=\s*self\._token", Path(access.__file__).read_text())


@pytest.mark.parametrize("host", ["evil.example.org", "evil.example.org:8470", "localhost.evil.org", "10.1.1.1", ""])
def test_requests_for_another_host_are_refused(empty_client: TestClient, host: str) -> None:
    answer = empty_client.get("/v1/status", headers={"Host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8470", "127.0.0.1:1", "[::1]", "[::1]:8470"])
def test_clients_on_this_machine_are_answered(empty_client: TestClient, host: str) -> None:
    assert empty_client.get("/v1/status", headers={"Host": host}).status_code == 200


def test_rates_are_limited_per_client() -> None:
    now = 0.0
    limiter = RateLimiter(2.0, 3, lambda: now)
    assert [limiter.take(ANONYMOUS, "a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    assert limiter.take(ANONYMOUS, "b") == 0.0
    assert limiter.take(HEALTH, "a") == 0.0
    now = 0.25
    assert limiter.take(ANONYMOUS, "a") == pytest.approx(0.25)
    now = 0.5
    assert limiter.take(ANONYMOUS, "a") == 0.0
    assert limiter.take(ANONYMOUS, "a") > 0.0
    now = 100.0
    assert [limiter.take(ANONYMOUS, "a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_rates_of_inactive_clients_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_MAX_BUCKETS", 3)
    limiter = RateLimiter(1.0, 1, lambda: 0.0)
    for client in "abcd":
        assert limiter.take(ANONYMOUS, client) == 0.0
    assert limiter.take(ANONYMOUS, "d") > 0.0
    assert limiter.take(ANONYMOUS, "a") == 0.0


def test_too_many_requests_get_429(service: FakeService, connect: Connect) -> None:
    client = connect(service, max_rate=0.001, max_burst=2)
    assert [client.get("/v1/status").status_code for _ in range(3)] == [200, 200, 429]
    assert int(client.get("/v1/status").headers["retry-after"]) > 100
    assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 429]


def test_clients_without_a_token_do_not_block_other_clients_or_health_checks(
    service: FakeService, connect: Connect
) -> None:
    client = connect(service, max_rate=0.001, max_burst=2, token=TOKEN)
    wrong = {"Authorization": "Bearer another token"}
    assert [client.get("/v1/status", headers=wrong).status_code for _ in range(3)] == [401, 401, 429]
    assert client.get("/login").status_code == 429
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert [client.get("/v1/status", headers=right).status_code for _ in range(3)] == [200, 200, 429]
    assert [client.get("/healthz").status_code, client.get("/readyz").status_code] == [200, 200]


@pytest.mark.parametrize("trusted", ["testclient", "10.0.0.0/8,testclient", "*"])
def test_the_rate_limit_counts_clients_by_the_address_that_a_trusted_proxy_forwards(
    service: FakeService, connect: Connect, trusted: str
) -> None:
    client = connect(service, max_rate=0.001, max_burst=1, forwarded_allow_ips=trusted)
    for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
        headers = {"X-Forwarded-For": address}
        assert [client.get("/v1/status", headers=headers).status_code for _ in range(2)] == [200, 429]


def test_forwarding_headers_of_clients_are_ignored(service: FakeService, connect: Connect) -> None:
    client = connect(service, max_rate=0.001, max_burst=2)
    headers = [{"X-Forwarded-For": f"192.0.2.{n}"} for n in range(3)]
    assert [client.get("/v1/status", headers=some).status_code for some in headers] == [200, 200, 429]


def test_requests_refused_for_their_host_do_not_count_toward_the_rate_limit(
    service: FakeService, connect: Connect
) -> None:
    client = connect(service, max_rate=0.001, max_burst=2)
    wrong_host = {"Host": "evil.example.org"}
    assert {client.get("/v1/status", headers=wrong_host).status_code for _ in range(10)} == {421}
    assert client.get("/v1/status").status_code == 200


def test_responses_have_security_headers(empty_client: TestClient) -> None:
    for path in ("/healthz", "/nowhere", "/openapi.json"):
        headers = empty_client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]


def test_unexpected_errors_get_500_without_their_message(
    client: TestClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ArithmeticError("inner matters")

    monkeypatch.setattr(service, "status", fail)
    answer = client.get("/healthz")
    assert answer.status_code == 500
    assert "ArithmeticError" in answer.json()["detail"]
    assert "inner matters" not in answer.text
