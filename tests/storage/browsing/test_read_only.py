"""Those who look cannot write, whatever they ask: the database itself refuses; and nothing takes longer than it may."""

import time

import pytest
from tests.storage.building import commit, delta, query

from hierogram.storage.browsing import asking
from hierogram.storage.browsing.asking import ask
from hierogram.storage.browsing.reader import Reader, literal, readable
from hierogram.storage.exceptions import QuestionError, SlowQueryError, StoreMissingError, StoreUnavailableError
from hierogram.storage.store import Store

ENDLESS = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a"
WRITES = [
    "DELETE FROM rules",
    "UPDATE rules SET count = 0",
    "INSERT INTO corpora (name, pairs, created_at) VALUES ('x', 0, '2026-01-01')",
    "CREATE TABLE mine (a integer)",
    "DROP TABLE rules",
    "SELECT 1; DELETE FROM rules",
    "SELECT 1) AS asked(c0); COMMIT; DELETE FROM rules; --",
    "COMMIT",
    "ROLLBACK; DELETE FROM rules",
    "WITH gone AS (DELETE FROM rules RETURNING id) SELECT * FROM gone",
    "PRAGMA query_only = OFF",
    "PRAGMA journal_mode = DELETE",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'other.db'",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT nextval('corpora_id_seq')",
    "SET TRANSACTION READ WRITE",
    "COPY rules TO '/tmp/hierogram-rules'",
    "DO $$ BEGIN DELETE FROM rules; END $$",
    "EXPLAIN ANALYZE DELETE FROM rules",
]


@pytest.fixture
def asked(store: Store, store_url: str) -> Reader:
    commit(store, [], [delta("la maison", "the house", 4, 8), delta("ne [X,1] pas", "not [X,1]", 2)])
    return Reader(store_url)


@pytest.mark.parametrize("statement", WRITES)
def test_writes_are_refused_by_the_database(asked: Reader, store_url: str, statement: str) -> None:
    with asked, pytest.raises(QuestionError, match="the database"):
        ask(asked, statement, 5.0, 10)
    assert query(store_url, "SELECT count(*), sum(count) FROM rules") == [(2, 6)]


@pytest.mark.parametrize("statement", ["DELETE FROM rules", "UPDATE store_state SET position = 0"])
def test_pages_cannot_write_either(asked: Reader, store_url: str, statement: str) -> None:
    with asked, pytest.raises(StoreUnavailableError), asked.look() as look:
        look.rows(statement)
    assert query(store_url, "SELECT count(*) FROM rules") == [(2,)]


@pytest.mark.parametrize("statement", [ENDLESS, f"SELECT 1 WHERE 2 = ({ENDLESS})"])
def test_what_takes_too_long_is_ended(asked: Reader, statement: str) -> None:
    began = time.monotonic()
    with asked, pytest.raises(SlowQueryError, match=r"takes more than 0\.3 s"):
        ask(asked, statement, 0.3, 10)
    assert time.monotonic() - began < 10
    with asked, pytest.raises(SlowQueryError), asked.look(0.3) as look:
        look.rows(statement)
    # The connection is good for the next question.
    assert ask(asked, "SELECT 1 AS one", 5.0, 10) == (["one"], [[1]], False)


def test_a_question_cannot_lift_its_limit(asked: Reader, store_url: str) -> None:
    if store_url.startswith("sqlite"):
        with pytest.raises(QuestionError):
            ask(asked, "SELECT set_config('statement_timeout', '0', false)", 1.0, 1)
    else:
        with pytest.raises(SlowQueryError):
            ask(asked, "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)", 0.3, 10)
        with pytest.raises(SlowQueryError):
            ask(asked, "SELECT pg_sleep(60)", 0.3, 10)
    asked.close()


def test_an_answer(asked: Reader) -> None:
    with asked:
        question = " SELECT source, count, count * 0.5 AS half, NULL AS no FROM rules ORDER BY id -- so ;"
        found = ask(asked, question, 5, 10)
        assert found.columns == ["source", "count", "half", "no"]
        assert found.rows == [["la maison", 4, 2.0, None], ["ne [X,1] pas", 2, 1.0, None]]
        assert not found.more
        assert ask(asked, "SELECT id FROM rules ORDER BY id", 5, 1)._replace(columns=[]) == ([], [[1]], True)
        assert ask(asked, "SELECT source AS a, target AS a FROM rules WHERE source LIKE 'la%'", 5, 1).rows == [
            ["la maison", "the house"]
        ]


def test_long_values_and_bytes_are_cut(asked: Reader, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "hex(zeroblob(20000))" if store_url.startswith("sqlite") else "repeat('00', 20000)"
    with asked:
        [[value]] = ask(asked, f"SELECT {long} AS long", 5, 10).rows
        assert value == "0" * asking.LONGEST_VALUE + "…"
        blob = "x'00ff'" if store_url.startswith("sqlite") else r"CAST('\x00ff' AS bytea)"
        assert ask(asked, f"SELECT {blob} AS bytes", 5, 10).rows == [["\\x00ff"]]
        monkeypatch.setattr(asking, "MOST_CHARACTERS", 5)
        found = ask(asked, "SELECT source FROM rules", 5, 10)
        assert (len(found.rows), found.more) == (1, True)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("", "no question"), (" ; ", "no question"), ("SELEC", "database says"), ("x" * 10_001, "10,000 characters"),
        ("SELECT '\0'", "a text of"),
    ],
)  # fmt: skip
def test_questions_that_are_none(asked: Reader, question: str, said: str) -> None:
    with asked, pytest.raises(QuestionError, match=said):
        ask(asked, question, 5.0, 10)


def test_there_has_to_be_a_store(store_url: str) -> None:
    with pytest.raises(StoreMissingError):
        Reader(store_url)


def test_statements_are_shown_as_people_could_ask_them(asked: Reader) -> None:
    odd = "d'un \\ :side %s ' OR '1' = '1"
    with asked, asked.look() as look:
        assert look.rows("SELECT :word AS said, :number AS n", word=odd, number=7) == [(odd, 7)]
        [shown] = look.asked
    assert ask(asked, shown, 5.0, 1).rows == [[odd, 7]]
    assert literal("a'b") == "'a''b'"
    assert readable("SELECT CAST(1 AS int)::text, :a", {"a": 1}) == "SELECT CAST(1 AS int)::text, 1"
