"""Commands and queries in the documents run, and the documented columns exist."""

import re
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from sqlalchemy import create_engine, inspect, text
from tests.daemon.conftest import Run, create_learned_store, write_news

from hierogram.daemon.cli.main import app
from hierogram.daemon.text import rejections as faults
from hierogram.storage.database.connection import parse_url
from hierogram.storage.schema.views import VIEWS
from hierogram.storage.store import open_store

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
CORPORA = (ROOT / "docs" / "corpora.md").read_text()
SQL = (ROOT / "docs" / "sql.md").read_text()
QUERIES = re.findall(r"```sql\n(.*?)```", SQL, re.DOTALL)


def blocks(document: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)


def commands(document: str) -> list[list[str]]:
    return [shlex.split(line) for block in blocks(document, "sh") for line in block.splitlines()]


def test_every_documented_command_and_option_exists() -> None:
    offered = {
        name: {"--help", *(flag for option in command.params for flag in (*option.opts, *option.secondary_opts))}
        for name, command in typer.main.get_command(app).commands.items()
    }
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    pattern = re.compile(r"(?<![\w.-])(?<!import )hierogram(?: --store \S+)? ([a-z][\w-]*)((?: [^`|;&#\n]*)?)")
    named = [(page.name, *found) for page in pages for found in pattern.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 200
    for page, command, rest in named:
        assert command in offered, f"{page}: hierogram {command}"
        for option in re.findall(r"(?<=\s)(--[a-z-]+)", rest):
            assert option in offered[command], f"{page}: hierogram {command} {option}"


def test_every_documented_query_returns_rows(
    learned_url: str, hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No rule of such a small corpus is frequent enough to have a recorded history.
    monkeypatch.setattr("hierogram.storage.grammar.changes.MIN_HISTORY_USES", 1)
    # A rule's history starts at 0, so its count can fall only on a later day.
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    monkeypatch.setattr("hierogram.storage.grammar.changes.now", lambda: tomorrow)
    assert hierogram("--store", learned_url, "learn", "--sweeps", "6").code == 0
    with open_store(learned_url) as store:
        store.record_failed_file("bad.gz", "news", "damaged", lambda: "failed/bad.gz")
    (tmp_path / "bad").write_text("a b\n")
    assert hierogram("--store", learned_url, "ingest", "bad", "--format", "pipes").code == 0
    assert hierogram("--store", learned_url, "export").code == 0
    assert len(QUERIES) > 20
    engine = create_engine(parse_url(learned_url))
    with engine.connect() as connection:
        for query in QUERIES:
            assert connection.execute(text(query.strip().removesuffix(";"))).all(), query
    engine.dispose()


def test_the_catalog_describes_every_table_view_and_column(learned_url: str) -> None:
    engine = create_engine(parse_url(learned_url))
    inspector = inspect(engine)
    found = {
        (name, column)
        for name in [*inspector.get_table_names(), *inspector.get_view_names()]
        if name != "alembic_version"
        for column in ["", *(column["name"] for column in inspector.get_columns(name))]
    }
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT relation, column_name, description, stable FROM catalog")).all()
    if engine.dialect.name == "postgresql":
        comments = {column["name"]: column["comment"] for column in inspector.get_columns("sentence_pairs")}
        assert comments == {column: text for name, column, text, _ in rows if name == "sentence_pairs" and column}
    engine.dispose()
    assert {(name, column) for name, column, _, _ in rows} == found
    assert len(rows) == len(found)
    assert all(text.endswith(".") for _, _, text, _ in rows)
    assert {name for name, _, _, stable in rows if stable} >= set(VIEWS)


def test_commands_of_the_readme_run(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    write_news(tmp_path)
    # The daemon's commands are run by tests/daemon/serving/test_tour.py.
    tour = [arguments for command, *arguments in commands(README) if command == "hierogram"]
    # `browse` serves until it is stopped, and `sql` needs the demo's store: other tests run them.
    tour = [arguments for arguments in tour if arguments[0] not in ("browse", "sql")]
    tour = [arguments for arguments in tour if "live.db" not in arguments]
    assert {argument for arguments in tour for argument in arguments} >= {"ingest", "learn", "rules", "export", "init"}
    for arguments in tour:
        ran = hierogram(*arguments)
        assert ran.code == 0, (arguments, ran.err)
        assert ran.out or ran.err


def test_the_query_of_the_readme_runs(corpus: Path, hierogram: Run, tmp_path: Path) -> None:
    [arguments] = [arguments for arguments in commands(README) if arguments[:2] == ["hierogram", "sql"]]
    create_learned_store(f"sqlite:///{tmp_path}/hierogram-demo.db", corpus)
    ran = hierogram(*arguments[1:-1], arguments[-1].replace("λόγος", "maison"))
    rows = ran.out.splitlines()[1:]
    assert len(rows) > 1
    assert all("maison" in row.split("\t")[0].split() for row in rows)


def test_commands_of_the_corpora_page_run(hierogram: Run, tmp_path: Path) -> None:
    write_news(tmp_path)
    shown = commands(CORPORA)
    assert len(shown) == 3
    for _, *arguments in shown:
        ran = hierogram(*arguments)
        assert ran.code == 0, (arguments, ran.err)


def test_the_documented_json_line_is_accepted(hierogram: Run, tmp_path: Path) -> None:
    [line] = blocks(CORPORA, "json")
    (tmp_path / "line").write_text(line)
    assert hierogram("ingest", "line", "--strict").code == 0


def test_corpora_page_lists_every_reason_for_rejections() -> None:
    codes = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
    table = CORPORA.split("| reason |")[1].split("\n\n")[0]
    first_cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    named = {code for cell in first_cells for code in re.findall(r"`([a-z0-9-]+)`", cell)}
    assert named == codes | {"token-too-long", "external-id-conflict"}


def setup_commands() -> list[str]:
    """Return the README's commands that create an environment: for the demo, and for the tests."""
    return [block.strip() for block in blocks(README, "sh") if "python3 -m venv" in block]


def test_the_readme_has_commands_for_a_fresh_machine() -> None:
    demo, test = setup_commands()
    assert blocks(README, "sh")[0].strip() == demo
    assert demo == "python3 -m venv .venv && . .venv/bin/activate && pip install . && hierogram demo"
    assert test == "python3 -m venv .venv && .venv/bin/pip install --editable '.[test]' && .venv/bin/pytest"


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    [line] = [line for line in script.splitlines() if line.startswith("command=")]
    found = subprocess.run(
        ["bash", "-euc", f'{line}; printf "%s" "$command"'], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == setup_commands()[1]
