"""Stored values are shown as text, even if they contain markup."""

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient
from tests.conftest import CopyStore
from tests.daemon.conftest import QUICK
from tests.daemon.web.conftest import Connect, FakeService
from tests.daemon.web.pages.texts import learn_from, odd_pairs, odd_tokens

from hierogram.daemon.web.pages.rendering import visible
from hierogram.storage.store import Store, open_store

pytestmark = pytest.mark.database("sqlite")

HTML = {"Accept": "text/html"}
SCRIPTS = 3
ALLOWED = {
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "nav", "main", "footer", "p", "bdi", "h1",
    "h2", "h3", "form", "label", "input", "button", "details", "summary", "select", "option", "div", "section", "table",
    "thead", "tbody", "tr", "th", "td", "abbr", "svg", "rect", "span", "ul", "ol", "li", "pre", "code", "q", "path",
    "g", "circle", "text", "line", "dl", "dt", "dd", "sub", "sup", "article", "textarea", "br", "small",
}  # fmt: skip


class ParsedPage(HTMLParser):
    """Tags, scripts and texts of a page. Fails for event handlers, styles, foreign addresses and comments."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.scripts = 0
        self.texts: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        for name, value in attributes:
            assert not name.startswith("on"), (tag, name)
            assert name != "style"
            assert name not in ("href", "src", "action") or (value or "").startswith(("/", "#")), (tag, name, value)

    def handle_data(self, data: str) -> None:
        self.texts.add(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def check(client: TestClient, tokens: list[str]) -> None:
    """Check that the search and word pages of each token show it and have only the allowed elements."""
    for token in tokens:
        escaped = "\\_" if token == "_" else token
        for path, values in (("/search", {"q": escaped, "side": "source"}), ("/word", {"token": token})):
            answer = client.get(path, params=values, headers=HTML)
            assert answer.status_code == 200, (path, token, answer.text[:500])
            seen = ParsedPage(answer.text)
            assert seen.tags <= ALLOWED, seen.tags - ALLOWED
            assert seen.scripts == SCRIPTS
            assert visible(token) in seen.texts, token


@pytest.fixture
def odd_client(store_url: str, copy_store: CopyStore, connect: Connect) -> Iterator[TestClient]:
    """A client of a store with odd words."""

    def make(url: str) -> None:
        with open_store(url, create=True, settings=QUICK) as store:
            learn_from(store, odd_pairs(odd_tokens(180, 1)))

    copy_store("odd", store_url, make)
    with open_store(store_url) as store:
        yield connect(FakeService(store), max_burst=1_000_000)


@pytest.mark.slow
def test_pages_show_odd_tokens_as_text(odd_client: TestClient) -> None:
    check(odd_client, odd_tokens(180, 1)[::3])
    for path in ("/", "/now", "/pairs/1", "/pairs/20", "/search.json?q=%3Cscript%3E"):
        seen = ParsedPage(odd_client.get(path, headers=HTML).text) if ".json" not in path else None
        assert seen is None or (seen.tags <= ALLOWED and seen.scripts == SCRIPTS)


def test_rules_and_responses_with_odd_tokens_are_escaped(odd_client: TestClient) -> None:
    rules = odd_client.get("/sql.json", params={"sql": "SELECT source, target FROM rules WHERE count > 0"}).json()
    for source, target in rules["rows"][::7]:
        for path in ("/rule", "/rule/pairs"):
            answer = odd_client.get(path, params={"source": source, "target": target}, headers=HTML)
            assert answer.status_code == 200
            seen = ParsedPage(answer.text)
            assert seen.tags <= ALLOWED
            assert seen.scripts == SCRIPTS
    answer = odd_client.get("/sql", params={"sql": 'SELECT source AS "<script>" FROM rules'}, headers=HTML)
    assert ParsedPage(answer.text).scripts == SCRIPTS
    wrong = odd_client.get("/sql", params={"sql": "SELECT '<script>alert(1)</script>' FROM <script>"}, headers=HTML)
    assert (wrong.status_code, ParsedPage(wrong.text).scripts) == (422, SCRIPTS)
    lost = odd_client.get("/<script>alert(1)</script>", headers=HTML)
    assert (lost.status_code, ParsedPage(lost.text).scripts) == (404, SCRIPTS)


@pytest.mark.campaign
@pytest.mark.timeout(3_600)
def test_ten_thousand_odd_tokens_are_escaped(store: Store, connect: Connect) -> None:
    tokens = odd_tokens(10_000, 2)
    assert len(tokens) == 10_000
    learn_from(store, odd_pairs(tokens))
    client = connect(FakeService(store), max_burst=1_000_000)
    check(client, tokens)
    for pair_id in range(1, 1_600, 40):
        assert ParsedPage(client.get(f"/pairs/{pair_id}", headers=HTML).text).scripts == SCRIPTS
