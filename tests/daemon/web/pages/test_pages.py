"""Pages are served as HTML and JSON and show their SQL, and invalid or foreign requests are refused."""

import csv
import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError
from starlette.testclient import TestClient
from tests.conftest import CopyStore, create_sql_role
from tests.daemon.learning.treebanks import put
from tests.daemon.web.conftest import Connect, FakeService
from tests.storage.building import integrity, make_pairs, pair, query

from hierogram.daemon.configuration import HttpConfiguration
from hierogram.daemon.serving.supervision import Lag
from hierogram.daemon.web.application import build_browser
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import cookbook
from hierogram.storage.store import Store, open_store

TOKEN = "a token of some length"
HTML = {"Accept": "text/html"}
AT_ONCE = 10
"""Number of statements in one query, whose length is limited."""
RULE = f"source={quote('ne [X,1] pas')}&target={quote('not [X,1]')}"
PAGES = [
    "/", "/search?q=maison", "/search?q=ne+_+pas", "/search?q=maison&order=surprise&min_count=1&max_scope=3",
    "/search?q=house&match=whole", "/search?q=nowhere", f"/rule?{RULE}", "/rule?source=none&target=none",
    f"/rule/pairs?{RULE}", "/rule/pairs?source=none&target=none", "/pairs/1", "/word?token=maison",
    "/word?token=house&side=target", "/word?token=nowhere", "/now", "/sql", "/sql?sql=SELECT+1+AS+one",
]  # fmt: skip


class Checked(HTMLParser):
    """HTML parser that records forbidden contents, ids and addresses. Fails if elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "br", "rect", "line") or tag in ("rect", "line"):
            self.open.append(tag)
        values = dict(attributes)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.addresses += [values[name] or "" for name in ("href", "src", "action", "hx-get") if name in values]
        if tag == "script" and not (values.get("src") or "").startswith("/static/"):
            self.wrong.append("a script within the page")
        self.wrong += [name for name in values if name == "style" or name.startswith("on")]
        self.wrong += ["style within the page"] if tag == "style" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())


@pytest.fixture
def browser(reading_url: str) -> Iterator[TestClient]:
    """A client of the pages of a store without a daemon."""
    with Reader(reading_url) as reader:
        app = build_browser(reader, HttpConfiguration(sql_url=create_sql_role(reading_url)))
        yield TestClient(app, "http://127.0.0.1", raise_server_exceptions=False)


@pytest.mark.slow
def test_pages_have_no_inline_scripts_styles_or_duplicate_ids(reading_client: TestClient, browser: TestClient) -> None:
    for client in (reading_client, browser):
        for path in PAGES:
            page = client.get(path, headers=HTML)
            assert page.status_code == 200, (path, page.text)
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
            checked = Checked(page.text)
            assert checked.wrong == []
            assert len(checked.ids) == len(set(checked.ids)), path
            assert all(re.match(r"/(?!/)|#", address) for address in checked.addresses), checked.addresses


@pytest.mark.slow
def test_every_page_has_a_json_version_and_shows_its_sql(reading_client: TestClient) -> None:
    statements: list[str] = []
    for path in PAGES:
        page = reading_client.get(path, headers=HTML).text
        if path.startswith("/sql"):
            continue
        [twin] = re.findall(r'<a href="([^"]*)">This page as JSON', page) or [None]
        assert twin, path
        answer = reading_client.get(twin.replace("&amp;", "&"))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        statements += answer.json()["sql"]
    assert len(statements) > len(PAGES)
    count_rows(reading_client, list(dict.fromkeys(statements)))


def count_rows(client: TestClient, statements: list[str]) -> list[int]:
    """Count the rows of each statement, which must succeed. Each query counts several, because it starts a process."""
    found: list[int] = []
    for first in range(0, len(statements), AT_ONCE):
        part = statements[first : first + AT_ONCE]
        counts = ", ".join(f"(SELECT count(*) FROM ({sql.rstrip().rstrip(';')}\n) AS found)" for sql in part)
        answer = client.get("/sql.json", params={"sql": f"SELECT {counts}"})
        assert answer.status_code == 200, answer.text
        [rows] = answer.json()["rows"]
        assert len(rows) == len(part)
        found += rows
    return found


def test_contents_of_pages_agree_with_the_store(reading_client: TestClient) -> None:
    found = reading_client.get("/search.json?q=ne+_+pas").json()
    assert {"source": "ne [X,1] pas", "target": "not [X,1]"}.items() <= found["rules"][0].items()
    rule = reading_client.get(f"/rule.json?{RULE}").json()
    assert rule["rule"]["count"] == found["rules"][0]["count"] > 0
    assert rule["rivals"]["source"][0]["other"] == "not [X,1]"
    lines = reading_client.get(f"/rule/pairs.json?{RULE}").json()
    assert len(lines["lines"]) == rule["rule"]["count"]
    for line in lines["lines"]:
        assert [line["source"].split(" ")[place] for place in line["source_positions"]] == ["ne", "pas"]
        assert [line["target"].split(" ")[place] for place in line["target_positions"]] == ["not"]
    pair = reading_client.get("/pairs/1.json").json()
    assert pair["pair"]["source"] == "la maison blanche"
    assert pair["rules"][0]["number"] == 1
    assert pair["expected"][0]["expected_uses"] > 0
    means = [rule["expected_uses"] for rule in pair["expected"]]
    assert means == sorted(means, reverse=True)
    assert pair["score"] < 0
    word = reading_client.get("/word.json?token=maison").json()
    assert word["count"] == 6
    dispersion = word["dispersion"]
    assert dispersion["pairs_with_word"] == sum(share["pairs_with_word"] for share in dispersion["shares"]) == 6
    assert word["dispersion"]["pairs_read"] == sum(reading_client.get("/now.json").json()["store"]["pairs"].values())
    assert len(word["lines"]) == 6
    for line in word["lines"]:
        assert [line["source"].split(" ")[place] for place in line["source_positions"]] == ["maison"]
        assert [line["target"].split(" ")[place] for place in line["target_positions"]] == ["house"]
    assert "la" in {entry["token"] for entry in word["collocates"]}
    now = reading_client.get("/now.json").json()
    assert now["store"]["sweeps"] == len(now["sweeps"])
    assert now["diagnostics"]["burned_in"] == 1
    assert 0 < now["diagnostics"]["cuts_moved"] < 1
    assert now["diagnostics"]["log_likelihood"]["verdict"] in ("rising", "falling", "flat", "short")
    assert {loop["name"] for loop in now["daemon"]["loops"]} == {"ingest", "resample"}


def test_a_concordance_is_the_same_with_and_without_the_index(learned: Store, learned_client: TestClient) -> None:
    by_index = learned_client.get(f"/rule/pairs.json?{RULE}").json()
    assert by_index["indexed"]
    query(learned.engine.url.render_as_string(hide_password=False), "DELETE FROM rule_pairs")
    by_texts = learned_client.get(f"/rule/pairs.json?{RULE}").json()
    assert not by_texts["indexed"]
    assert by_index["lines"] == by_texts["lines"]
    first = by_index["lines"][0]["id"]
    later = learned_client.get(f"/rule/pairs.json?{RULE}&after={first}").json()
    assert later["lines"] == by_index["lines"][1:]


def test_the_pages_of_an_empty_store_show_the_next_step(empty_client: TestClient) -> None:
    page = empty_client.get("/", headers=HTML).text
    assert "The store is empty" in page
    assert "hierogram --store" in page
    assert "ingest" in page
    for path in ("/search?q=a", "/word?token=a", "/rule?source=a&target=b", "/rule/pairs?source=a&target=b", "/now"):
        assert empty_client.get(path, headers=HTML).status_code == 200


@pytest.mark.database("sqlite")
def test_pages_distinguish_waiting_from_sampled_pairs(learned: Store, connect: Connect) -> None:
    service = FakeService(learned)
    client = connect(service)
    sampled = sum(learned.status().pairs.values())
    batch = learned.begin_ingest("corpus", "file", "bars")
    learned.add_pairs(batch, make_pairs([pair("a b", "x y", "0-0 1-1")]))
    learned.finish_ingest(batch)
    assert f"times by the current derivations of {sampled} pairs." in client.get("/", headers=HTML).text
    service.change(lag=Lag(1, 3.0, 900.0))
    page = client.get("/now", headers=HTML).text
    assert "oldest has waited 3 s, 900 pair sweeps/s" in page
    assert "Pair sweeps per second" in page


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404), ("/pairs/999", 404), ("/pairs/0", 422), ("/pairs/x", 404), (f"/pairs/{1 << 64}", 422),
        ("/search?qq=a", 400), ("/search?q=a&q=b", 400), ("/search?q=a&order=up", 422), ("/search?min_count=-1", 422),
        ("/search?q=%FF", 400), ("/search?q=a%00b", 422), ("/word?side=middle&token=a", 422),
        ("/static/../site.py", 404), ("/static/vendor/htmx.js", 404),
        ("/search?q=a&max_scope=99999999999999999999", 422), ("/sql?sql=SELEC", 422),
        ("/sql.json?sql=DELETE+FROM+rules", 422), ("/sql.csv?sql=", 422), ("/search?q=a&after=1.2.3.4", 200),
        ("/sql.json?limit=5", 400), ("/withdrawn/1?a=b", 400), ("/logout?a=b", 400),
    ],
)  # fmt: skip
def test_pages_of_invalid_addresses_show_the_error(reading_client: TestClient, path: str, status: int) -> None:
    answer = reading_client.get(path, headers=HTML)
    assert answer.status_code == status, answer.text
    if "." not in path.split("?")[0]:
        assert Checked(answer.text).wrong == []
    if status != 200 and not path.startswith("/sql?"):
        problem = reading_client.get(path)
        assert problem.headers["content-type"] == "application/problem+json"
        assert problem.json()["status"] == status


ODD = [
    "_", "_ _", "  ",
    "\u2028", "\u2029\x1c", "\x85", "\u00a0", "\\", "\\_", "%", "%%", "*", "?", "[", "]", "!", "'", '"',
    "\x01", "\x7f",
    "\ufeff", "\u0301", "(", "(NP", "()", ":word", "a:b", ";", "--", "\U0010ffff", "x" * 900, "_ " * 300,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/search?q=", "/word?token=", "/search?match=whole&order=surprise&q=",
                                  "/rule?source=", "/rule/pairs?target="])  # fmt: skip
def test_any_typed_text_is_answered(reading_client: TestClient, path: str) -> None:
    @settings(max_examples=30, deadline=None)
    @given(
        st.one_of(
            st.text(st.characters(exclude_categories=("Cs",)), max_size=30),
            st.lists(st.sampled_from(["maison", "MAISON", "ne", "pas", "_", "\\_", "é", *ODD]), max_size=12).map(
                " ".join
            ),
            st.binary(max_size=12),
        ),
        st.booleans(),
    )
    @example("_", True)
    @example("\u2028", True)
    @example(b"\xed\xa0\x80", True)
    @example(b"\0", True)
    def ask(typed: str | bytes, as_page: bool) -> None:
        answer = reading_client.get(path + quote(typed, safe=""), headers=HTML if as_page else {})
        unreadable = isinstance(typed, bytes) and typed.decode("utf-8", "replace").encode() != typed
        nul = "\0" in typed if isinstance(typed, str) else 0 in typed
        assert answer.status_code in ((400, 422) if unreadable or nul else (200,)), (typed, answer.text[:300])

    ask()
    for typed in ODD:
        assert reading_client.get(path + quote(typed, safe=""), headers=HTML).status_code == 200, typed


@pytest.mark.parametrize("number", ["9" * 19, str((1 << 63) - 1), "9" * 5_000, "0" * 5_000 + "7", "٣", "1.0.0.nan"])
def test_numbers_of_any_size_are_answered(reading_client: TestClient, number: str) -> None:
    for path in ("/search?q=maison&min_count=", "/search?q=maison&max_scope=", "/search?q=maison&limit=",
                 "/search?q=maison&order=probability&after=", f"/rule/pairs?{RULE}&after="):  # fmt: skip
        answer = reading_client.get(path + number)
        assert answer.status_code in (200, 422), (path, answer.text)


@pytest.mark.parametrize("number", ["9" * 20, "-1", "1.5", "many"])
def test_a_filter_reports_the_numbers_it_accepts(reading_client: TestClient, number: str) -> None:
    detail = reading_client.get("/search.json", params={"q": "maison", "min_count": number}).json()["detail"]
    assert detail == f"min_count: must be a whole number from 0 to 9,223,372,036,854,775,807, got {number!r}"


def test_search_ignores_case_and_accents_and_suggests_similar_words(reading_client: TestClient) -> None:
    for typed in ("MAISON", "Maïson", "mai\u0308son"):
        found = reading_client.get("/search.json", params={"q": typed}).json()
        assert found["readings"][0] == "maison"
        assert found["rules"] == reading_client.get("/search.json?q=maison").json()["rules"]
        assert (
            "with other accents or capital letters"
            in reading_client.get("/search", params={"q": typed}, headers=HTML).text
        )
    missed = reading_client.get("/search.json?q=maisson").json()
    assert (missed["rules"], missed["unknown_words"], missed["similar_words"]) == (
        [],
        ["maisson"],
        {"maisson": ["maison"]},
    )
    page = reading_client.get("/search?q=maisson", headers=HTML).text
    assert 'href="/search?q=maison"' in page
    begun = reading_client.get("/search.json?q=mais").json()
    assert begun["similar_words"] == {"mais": ["maison"]}
    assert reading_client.get("/word.json?token=Maison").json()["similar_words"] == ["maison"]


def test_sql_queries_return_the_same_rows_as_csv_and_json(reading_client: TestClient) -> None:
    sql = "SELECT source, count FROM rules WHERE count > 0 ORDER BY count DESC, source, target"
    page = reading_client.get("/sql", params={"sql": sql}, headers=HTML).text
    rows = reading_client.get("/sql.json", params={"sql": sql}).json()
    assert rows["columns"] == ["source", "count"]
    text = reading_client.get("/sql.csv", params={"sql": sql})
    assert text.headers["content-disposition"].startswith("attachment")
    assert list(csv.reader(text.text.splitlines())) == [
        rows["columns"], *([source, str(count)] for source, count in rows["rows"])
    ]  # fmt: skip
    assert f">{len(rows['rows'])} rows<" in page


@pytest.mark.slow
def test_truncated_query_results_are_marked(learned: Store, connect: Connect) -> None:
    learned_client = connect(FakeService(learned), sql_seconds=300)
    long = "hex(zeroblob(20000))" if learned.engine.dialect.name == "sqlite" else "repeat('00', 20000)"
    sql = f"SELECT {long} AS long, 1 AS one UNION ALL SELECT 'short', 2"
    page = learned_client.get("/sql", params={"sql": sql}, headers=HTML).text
    assert "1 long value truncated to 10,000 characters" in page
    found = learned_client.get("/sql.json", params={"sql": sql}).json()
    assert (found["more"], found["truncated"], [len(str(row[0])) for row in found["rows"]]) == (False, 1, [10_001, 5])
    headers = learned_client.get("/sql.csv", params={"sql": sql}).headers
    assert (headers["x-more-rows"], headers["x-truncated-values"]) == ("False", "1")
    all_of_them = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT n FROM a LIMIT 100001"
    found = learned_client.get("/sql.json", params={"sql": all_of_them}).json()
    assert (len(found["rows"]), found["more"]) == (100_000, True)


@pytest.mark.slow
def test_slow_queries_are_canceled(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned), sql_seconds=0.3)
    endless = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a"
    for path in ("/sql", "/sql.json", "/sql.csv"):
        answer = client.get(path, params={"sql": endless}, headers=HTML)
        assert answer.status_code == 422
        assert "canceled after 0.3 s" in answer.text


def test_queries_on_postgres_need_a_separate_role(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned), sql_url=None)
    page = client.get("/sql", headers=HTML)
    assert page.status_code == 200
    on_postgres = learned.engine.dialect.name != "sqlite"
    assert ("sql_url" in page.text) == on_postgres
    for path in ("/sql", "/sql.json", "/sql.csv"):
        answer = client.get(path, params={"sql": "SELECT 1"}, headers=HTML)
        assert answer.status_code == (403 if on_postgres else 200)
        assert ("sql_url" in answer.text) == on_postgres
    with pytest.raises(ValidationError, match="sql_url") as refused:
        HttpConfiguration(sql_url="sqlite:///secret.db")
    assert "secret" not in str(refused.value.errors()[0]["msg"])


def test_the_cookbook_matches_the_document() -> None:
    """Other tests run the queries of docs/sql.md on both databases."""
    document = (Path(__file__).parents[4] / "docs" / "sql.md").read_text()
    questions = document.split("## Queries")[1].split("\n## ")[0]
    assert [recipe.sql for recipe in cookbook()] == [
        text.strip() for text in re.findall(r"```sql\n(.*?)```", questions, re.DOTALL)
    ]
    assert len({recipe.title for recipe in cookbook()}) == len(cookbook())


@pytest.mark.slow
def test_example_queries_and_tables_are_listed(reading_client: TestClient) -> None:
    response = reading_client.get("/sql.json").json()
    assert [(recipe["title"], recipe["sql"]) for recipe in response["cookbook"]] == [*cookbook()]
    tables = {table["name"]: table["columns"] for table in response["tables"]}
    assert "folded" in tables["vocabulary"]
    assert "p_target_given_source" in tables["rule_table"]
    beside = " ".join(f"LEFT JOIN (SELECT * FROM {name} LIMIT 1) AS t{n} ON 1 = 1" for n, name in enumerate(tables))
    answer = reading_client.get("/sql.json", params={"sql": f"SELECT * FROM (SELECT 0 AS zero) AS zero {beside}"})
    found = iter(answer.json()["columns"][1:])
    for columns in tables.values():
        # A column that a migration added is last on Postgres.
        assert sorted(islice(found, len(columns))) == sorted(columns)
    assert list(found) == []
    page = reading_client.get("/sql", headers=HTML).text
    assert "<code>p_target_given_source</code>" in page


TREEBANK = [
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    "(S (NP (DT a) (NN dog)) (VP (VBD slept)))",
    "(S (NP (DT the) (NN cat)) (VP (VBD slept)))",
]


@pytest.fixture
def tree_client(store_url: str, copy_store: CopyStore, connect: Connect) -> Iterator[TestClient]:
    copy_store("tree pages", store_url, make_trees)
    with open_store(store_url) as store:
        yield connect(FakeService(store))


def make_trees(url: str) -> None:
    from hierogram.daemon.learning.learning import learn
    from hierogram.storage.records.settings import Settings

    with open_store(url, create=True, settings=Settings(grammar="trees", annealing=4)) as store:
        put(store, TREEBANK)
        learn(store, sweeps=4)


def test_labels_and_words_of_trees_are_found(tree_client: TestClient) -> None:
    for typed in ("NP", "np", "(NP", "(NP)"):
        found = tree_client.get("/search.json", params={"q": typed}).json()
        assert found["labels"] == ["NP"]
        assert found["rules"]
        assert {rule["source"] for rule in found["rules"]} == {"NP"}
    [*within] = tree_client.get("/search.json?q=(S+the").json()["rules"]
    assert all(rule["source"] == "S" and " the)" in rule["target"] for rule in within)
    for typed in ("NP (DT", "(NP DT"):
        rules = tree_client.get("/search.json", params={"q": typed}).json()["rules"]
        assert rules
        assert all(rule["source"] == "NP" and "(DT" in rule["target"] for rule in rules)
    assert tree_client.get("/search.json?q=(XYZ").json()["rules"] == []
    assert tree_client.get("/search.json?q=THE").json()["readings"] == ["the"]
    assert tree_client.get("/index.json").json()["known_labels"][:2] == ["DT", "NN"]


@pytest.mark.database("sqlite")
def test_pages_of_a_tree_store_mention_trees_and_not_pairs(tree_client: TestClient) -> None:
    rule = tree_client.get("/search.json?q=NP").json()["rules"][0]
    sides = f"source={quote(rule['source'])}&target={quote(rule['target'])}"
    paths = ["/", "/search?q=NP", "/search?q=nowhere", f"/rule?{sides}", f"/rule/pairs?{sides}", "/word?token=dog",
             "/word?token=nowhere", "/now", "/pairs/1", "/pairs/1/withdraw", "/withdrawn/1", "/pairs/99"]  # fmt: skip
    for path in paths:
        page = tree_client.get(path, headers=HTML).text
        page = re.sub(r"(?s)<details class=\"behind\">.*?</details>|<dl class=\"tables\">.*?</dl>", "", page)
        shown = re.sub(r"<[^>]*>", " ", page.partition("<main")[2].partition("</main>")[0])
        assert not re.search(r"(?i)\bpairs?\b", shown), (path, re.findall(r"(?i).{40}\bpairs?\b.{20}", shown))
    lines = tree_client.get("/word.json?token=dog").json()
    assert [line["source"] for line in lines["lines"]] == ["a dog slept", "the dog saw the cat"]
    assert lines["dispersion"]["pairs_with_word"] == 2
    assert "side=target" not in tree_client.get("/word?token=nowhere", headers=HTML).text


def test_likelihood_curve_separates_the_stages_of_the_schedule(store: Store, connect: Connect) -> None:
    from hierogram.daemon.learning.learning import learn

    batch = store.begin_ingest("corpus", "file", "bars")
    store.add_pairs(batch, make_pairs([pair(f"a b c{n}", f"x y z{n}", "0-0 1-1 2-2") for n in range(12)]))
    store.finish_ingest(batch)
    done = learn(store, sweeps=30)
    now = connect(FakeService(store)).get("/now.json").json()
    assert now["annealed"]
    assert now["curve"][0] == [0, pytest.approx(done.log_likelihood_before), None]
    stages = {row["id"]: row["stage"] for row in now["sweeps"]}
    for sweep, early, late in now["curve"][1:]:
        assert (early is None, late is None) == ((False, True) if stages[sweep] == 1 else (True, False))
    assert {stages[sweep] for sweep, *_ in now["curve"][1:]} == {1, 2}
    assert done.burn_in == 26
    assert done.sweeps == 56
    trend = now["diagnostics"]["log_likelihood"]
    assert trend["values"] <= sum(late is not None for _, _, late in now["curve"])


@pytest.mark.database("sqlite")
def test_forms_of_other_sites_are_refused(learned_client: TestClient, learned: Store) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example.org"}, {"Origin": "null"}):
        assert learned_client.get("/sql?sql=SELECT+1", headers=HTML | headers).status_code == 403
        action = "/pairs/1/withdraw"
        page = learned_client.get(action, headers=HTML).text
        [token] = re.findall(r'name="form_token" value="(\w+)"', page)
        answer = learned_client.post(action, data={"form_token": token}, headers=headers)
        assert answer.status_code == 403
    assert learned.find_pair(1) is not None


def test_a_pair_can_be_withdrawn_only_by_its_own_form(learned_client: TestClient, learned: Store) -> None:
    page = learned_client.get("/pairs/1/withdraw", headers=HTML)
    assert page.status_code == 200
    [token] = re.findall(r'name="form_token" value="(\w+)"', page.text)
    for action, values in (("/pairs/2/withdraw", {"form_token": token}), ("/pairs/1/withdraw", {"a": "b"}),
                           ("/pairs/1/withdraw", {"form_token": "0" * 64})):  # fmt: skip
        assert learned_client.post(action, data=values).status_code == 403
    assert learned_client.post("/pairs/1/withdraw", json={"form_token": token}).status_code == 415
    assert learned_client.post("/pairs/1/withdraw", data={f"field{n}": "" for n in range(101)}).status_code == 400
    assert learned_client.get("/pairs/1/withdraw?form_token=x").status_code == 400
    assert [row.id for row in learned.pairs_by_id([1, 2])] == [1, 2]
    done = learned_client.post("/pairs/1/withdraw", data={"form_token": token}, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/withdrawn/1")
    assert "was withdrawn" in learned_client.get("/withdrawn/1", headers=HTML).text
    assert learned.find_pair(1) is None
    assert integrity(learned) == []


def test_only_a_pair_with_a_request_is_shown_as_pending_withdrawal(learned_client: TestClient, learned: Store) -> None:
    there = learned_client.get("/withdrawn/1", headers=HTML, follow_redirects=False)
    assert (there.status_code, there.headers["location"]) == (303, "/pairs/1")
    learned.request_withdrawals([1])
    assert "is being withdrawn" in learned_client.get("/withdrawn/1", headers=HTML).text
    assert learned_client.get("/withdrawn/99", headers=HTML).status_code == 404


def test_nothing_is_withdrawn_without_a_daemon(browser: TestClient) -> None:
    assert "Withdraw" not in browser.get("/pairs/1", headers=HTML).text
    assert browser.get("/pairs/1/withdraw", headers=HTML).status_code == 403
    assert browser.post("/pairs/1/withdraw", data={"form_token": "x"}).status_code == 403
    assert browser.get("/pairs/1", headers=HTML).status_code == 200


@pytest.mark.database("sqlite")
def test_login_sets_a_cookie_for_pages_only(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned), token=TOKEN)
    assert client.get("/search?q=maison").status_code == 401
    response = client.get("/search?q=maison", headers=HTML, follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/login?next=%2Fsearch%3Fq%3Dmaison")
    assert client.get("/login", headers=HTML).status_code == 200
    assert client.get("/static/style.css").status_code == 200
    wrong = client.post("/login", data={"token": "wrong", "next": "/now"}, headers=HTML)
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
    right = client.post("/login", data={"token": TOKEN, "next": "/now"}, follow_redirects=False)
    assert (right.status_code, right.headers["location"]) == (303, "/now")
    cookie = right.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert client.get("/now", headers=HTML).status_code == 200
    # The cookie is only for pages; programs send the token.
    assert client.get("/v1/status").status_code == 401
    assert client.request("DELETE", "/v1/pairs/1").status_code == 401
    assert client.get("/now", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    page = client.get("/logout", headers=HTML).text
    assert client.post("/logout", data={"form_token": "x"}).status_code == 403
    [token] = re.findall(r'name="form_token" value="(\w+)"', page)
    assert client.post("/logout", data={"form_token": token}, follow_redirects=False).status_code == 303
    assert client.get("/now").status_code == 401


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("place", ["//evil.example.org", "https://evil.example.org", "/\\evil", "evil", "/a\nb"])
def test_redirects_stay_on_the_site(learned: Store, connect: Connect, place: str) -> None:
    client = connect(FakeService(learned), token=TOKEN)
    answer = client.post("/login", data={"token": TOKEN, "next": place}, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_a_cookie_expires_and_cannot_be_forged() -> None:
    from hierogram.daemon.web.protocol.access import SESSION_SECONDS, Sessions

    now = time.time()
    sessions = Sessions(SecretStr(TOKEN), lambda: now)
    cookie = sessions.make_cookie()
    assert sessions.is_valid(cookie)
    assert Sessions(SecretStr(TOKEN), lambda: now).is_valid(cookie)
    assert not Sessions(SecretStr(TOKEN + "!"), lambda: now).is_valid(cookie)
    assert not Sessions(SecretStr(TOKEN), lambda: now + SESSION_SECONDS).is_valid(cookie)
    name, until, signature = cookie.split(".")
    later = f"{name}.{int(until) + 1}.{signature}"
    for wrong in (None, "", ".", "..", later, f"{name}.{until}.", cookie + "0", "ä.ö.ü"):
        assert not sessions.is_valid(wrong)
    assert sessions.is_form_valid(sessions.form_token(cookie, "/a"), cookie, "/a")
    assert not sessions.is_form_valid(sessions.form_token(cookie, "/a"), cookie, "/b")
    assert not sessions.is_form_valid(sessions.form_token(cookie, "/a"), None, "/a")


@pytest.mark.database("sqlite")
def test_pages_and_queries_can_be_switched_off(learned: Store, connect: Connect) -> None:
    client = connect(FakeService(learned), pages=False)
    assert client.get("/", headers=HTML).status_code == 404
    assert client.get("/v1/status").status_code == 200
    without_asking = connect(FakeService(learned), sql=False)
    assert without_asking.get("/sql", headers=HTML).status_code == 404
    assert "/sql" not in without_asking.get("/", headers=HTML).text


def test_history_of_a_rule_is_shown_as_a_curve(learned_client: TestClient, learned_url: str) -> None:
    [(rule_id,)] = query(learned_url, "SELECT id FROM rules WHERE source = 'ne [X,1] pas' AND target = 'not [X,1]'")
    assert "No history yet" in learned_client.get(f"/rule?{RULE}", headers=HTML).text
    today = time.strftime("%Y-%m-%d", time.gmtime())
    values = f"VALUES ('{today}', {rule_id}, 'a', 'b', 17, 16, 1)"
    columns = "day, rule_id, source, target, count, expected_uses, expected_uses_variance"
    query(learned_url, f"INSERT INTO rule_history ({columns}) {values}")
    response = learned_client.get(f"/rule.json?{RULE}").json()
    [first, last] = response["history"]
    assert first == {"day": today, "expected_uses": 16}
    assert last == {"day": "now", "expected_uses": response["rule"]["expected_uses"]}
    page = learned_client.get(f"/rule?{RULE}", headers=HTML).text
    [points] = re.findall(r"data-points='(.*?)'", page)
    assert json.loads(points) == [first, last]


@pytest.mark.database("sqlite")
def test_notes_on_an_input_are_shown_next_to_it(store: Store, store_url: str) -> None:
    batch = store.begin_ingest("news", "a.fr + a.en", "parallel")
    store.finish_ingest(batch, notes=["escaped: words such as <b>", "swapped-sides: the other way round"])
    with Reader(store_url) as reader:
        client = TestClient(build_browser(reader, HttpConfiguration()), "http://127.0.0.1")
        page = client.get("/now", headers=HTML).text
    assert Checked(page).wrong == []
    assert "<small>escaped: words such as &lt;b&gt;</small>" in page
    assert "<small>swapped-sides: the other way round</small>" in page
