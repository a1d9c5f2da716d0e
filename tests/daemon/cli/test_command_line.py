"""Commands of the command line: their output, exit codes and errors."""

import gzip
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import zstandard
from sqlalchemy import text
from tests.daemon.conftest import LINES, Run, make_store

from hierogram.__main__ import main
from hierogram.daemon.cli.main import app
from hierogram.storage.database.connection import make_engine, parse_url
from hierogram.storage.store import open_store

COMMANDS = ("init", "ingest", "learn", "rules", "export", "status", "verify", "demo")
SHORT: dict[str, object] = {"schedule": "paper", "sweeps_per_level": 2, "levels": 3, "round_sweeps": 2}


def every_command() -> list[tuple[str, ...]]:
    """Return the names of all commands, including commands of tools."""
    found: list[tuple[str, ...]] = [
        (command.name or command.callback.__name__.replace("_", "-"),)
        for command in app.registered_commands
        if command.callback
    ]
    return found


def test_command_line_includes_commands_of_daemon_and_tools() -> None:
    names = {" ".join(name) for name in every_command()}
    assert names >= {*COMMANDS, "diff", "serve", "withdraw", "parse", "align", "schedule"}


def test_help_shows_commands_in_groups(hierogram: Run) -> None:
    shown = hierogram("--help").out
    groups = [line.removesuffix(":") for line in shown.splitlines() if re.fullmatch(r"[A-Z]\w+:", line)]
    assert groups == ["Options", "Store", "Learn", "Inspect", "Translate", "Serve"]
    assert [name for (name,) in every_command() if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_command_has_help_with_an_example(hierogram: Run, command: tuple[str, ...]) -> None:
    ran = hierogram(*command, "--help")
    assert ran.code == 0
    assert f"  {command[0]} " in hierogram("--help").out
    example = ran.out.rstrip().split("Example:\n")[1].strip()
    assert example.startswith("hierogram ")
    assert set(command) <= set(example.split())


def test_exit_codes_match_the_help(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    [line] = [line for line in hierogram("--help").out.splitlines() if "Exit codes" in line]
    assert "0 success, 1 a check found a problem or a difference, 2 wrong" in line
    chosen = ("--store", learned_url)
    (tmp_path / "wrong").write_text("a ||| b ||| 7-7\n")
    for code, arguments in (
        (0, (*chosen, "rules", "maison")),
        (0, (*chosen, "rules", "nowhere")),
        (1, (*chosen, "ingest", "--strict", str(tmp_path / "wrong"))),
        (2, (*chosen, "rules", "--limit", "0")),
        (2, (*chosen, "export", "--format", "word")),
        (2, ("nosuch",)),
        (2, ("--store", "ftp://nowhere", "status")),
        (3, ("--store", str(tmp_path / "none.db"), "status")),
        (3, (*chosen, "export", "--corpus", "none")),
    ):
        ran = hierogram(*arguments)
        assert ran.code == code, (arguments, ran)
        assert code in (0, 1) or ran.err
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "command",
    [("rules", "maison"), ("rules", "--containing", "a", "--json"), ("export",), ("rules", "--pairs", "a ||| b")],
)
def test_commands_report_a_store_that_has_not_learned(
    hierogram: Run, store_url: str, corpus: Path, command: tuple[str, ...]
) -> None:
    """A grammar without a matching rule is not an error, but a store without a grammar is."""
    assert hierogram("--store", store_url, "ingest", str(corpus)).code == 0
    before = set(Path.cwd().iterdir())
    ran = hierogram("--store", store_url, *command)
    assert (ran.code, ran.out) == (3, "")
    assert "nothing learned yet: run `hierogram learn`" in ran.err
    assert set(Path.cwd().iterdir()) == before


def test_the_version_option_prints_the_version(hierogram: Run) -> None:
    assert hierogram("--version").out.startswith("hierogram 0.")


@pytest.mark.slow
def test_commands_ingest_learn_query_export_and_verify(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    make_store(**SHORT, seed=5)
    made = hierogram("init")
    assert (made.code, "sqlite:///hierogram.db: already exists" in made.out) == (0, True)

    stored = hierogram("ingest", str(corpus), "--json")
    assert stored.code == 0
    totals = json.loads(stored.out)
    assert (totals["accepted"], totals["duplicates"], totals["rejected"], totals["format"]) == (9, 0, 0, "pipes")

    learned = json.loads(hierogram("learn", "--sweeps", "4", "--json").out)
    assert (learned["pairs"], learned["sweeps"]) == (9, 10)
    assert learned["log_likelihood_after"] > learned["log_likelihood_before"]

    status = json.loads(hierogram("status", "--json").out)
    assert status["pairs"] == {"unaligned": 0, "waiting": 0, "sampling": 0, "settled": 9}
    assert status["rules_in_use"] == learned["rules_in_use_after"]
    assert status["settings"]["seed"] == 5

    [*_, last] = json.loads(hierogram("rules", "--limit", "1000", "--json").out)
    assert last["expected_uses"] > 0
    found = json.loads(hierogram("rules", "--containing", "maison", "house", "--json").out)
    assert found
    assert all("maison" in rule["source"].split() and "house" in rule["target"].split() for rule in found)
    exact = json.loads(hierogram("rules", *found[0]["source"].split(" "), "--json").out)
    assert found[0] in exact
    assert found[0] in json.loads(hierogram("rules", "--target", found[0]["target"], "--json").out)

    exported = hierogram("export", "-o", "g.gz", "--max-scope", "9", "--current-sample")
    assert exported.code == 0
    assert exported.out.startswith(f"g.gz: {status['rules_in_use']} rules, ")
    lines = gzip.decompress((tmp_path / "g.gz").read_bytes()).splitlines()
    assert len(lines) == status["rules_in_use"]
    assert json.loads((tmp_path / "g.gz.json").read_text())["rules"] == status["rules_in_use"]

    sound = hierogram("verify")
    assert (sound.code, sound.out[:18]) == (0, "no problems found:")


def test_status_names_the_writer(hierogram: Run, corpus: Path) -> None:
    hierogram("ingest", str(corpus))
    assert json.loads(hierogram("status", "--json").out)["writer"] is None
    with open_store("hierogram.db") as store:
        store.take_lease("hierogram serve", 60)
        assert json.loads(hierogram("status", "--json").out)["writer"]["pid"] == str(os.getpid())
        assert f"writer          hierogram serve, process {os.getpid()} on " in hierogram("status").out


def test_commands_without_json_print_summaries_and_tables(hierogram: Run, corpus: Path) -> None:
    make_store(**SHORT)
    assert (
        "9 pairs stored, 0 duplicates in the corpus default, 0 lines rejected" in hierogram("ingest", str(corpus)).out
    )
    assert "9 pairs, 7 sweeps (6 of burn-in, 1 after it) in" in hierogram("learn", "--sweeps", "1").out
    assert "pairs           9 (0 unaligned, 0 waiting, 0 sampling, 9 settled)" in hierogram("status").out
    head, first, *_ = hierogram("rules").out.splitlines()
    assert head.split("\t") == ["expected_uses", "±", "p(e|f)", "p(f|e)", "source", "target"]
    assert float(first.split("\t")[0]) >= 0.5
    assert float(first.split("\t")[1]) > 0
    head, first, *_ = hierogram("rules", "--current-sample").out.splitlines()
    assert head.split("\t") == ["count", "p(e|f)", "p(f|e)", "source", "target"]
    assert int(first.split("\t")[0]) >= 1
    assert hierogram("export").out.startswith("grammar.cdec.gz: ")


def test_rules_are_an_aligned_table_on_a_terminal(
    hierogram: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(**SHORT)
    hierogram("ingest", str(corpus))
    hierogram("learn", "--sweeps", "0")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    shown = hierogram("rules", "--containing", "maison")
    head = next(line for line in shown.out.splitlines() if "p(e|f)" in line)
    assert head.split() == ["expected_uses", "±", "p(e|f)", "p(f|e)", "source", "target"]
    assert "\t" not in shown.out
    assert "maison" in shown.out


def test_ingest_creates_a_store_and_reports_it(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    ran = hierogram("--store", "new.db", "ingest", str(corpus))
    assert ran.code == 0
    assert "sqlite:///new.db: created a store with the default settings" in ran.err
    assert (tmp_path / "new.db").exists()
    again = hierogram("--store", "new.db", "ingest", str(corpus))
    assert "created" not in again.err
    assert "0 pairs stored, 9 duplicates" in again.out
    (tmp_path / "one").write_text("une porte ||| a door\n")
    hierogram("--store", "new.db", "ingest", "one")
    assert "0 pairs stored, 1 duplicate in the corpus default" in hierogram("--store", "new.db", "ingest", "one").out


def test_ingest_creates_no_store_if_its_input_is_invalid(hierogram: Run, tmp_path: Path) -> None:
    assert hierogram("ingest", "missing.txt").code == 3
    assert hierogram("ingest", "one", "two", "three", "four").code == 2
    assert list(tmp_path.iterdir()) == []


def test_ingest_reads_compressed_standard_input(hierogram: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "".join(line + "\n" for line in LINES).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(zstandard.compress(content))))
    assert json.loads(hierogram("ingest", "-", "--json").out)["accepted"] == 9


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["ingest"], "a b ||| c d\n"),
        (["align"], "a b ||| c d\n"),
        (["lm", "-o", "small.lm"], "a b c\n"),
        (["evaluate", "-r", "reference", "--metrics", "bleu"], "a b c d\n"),
    ],
)
def test_commands_read_standard_input_if_no_file_is_given(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    (tmp_path / "reference").write_text("a b c d\n")
    for terminal in (True, False):
        typed = io.TextIOWrapper(io.BytesIO(text.encode()))
        monkeypatch.setattr(typed, "isatty", partial(bool, terminal))
        monkeypatch.setattr(sys, "stdin", typed)
        ran = hierogram(*arguments)
        assert ran.code == 0, ran.err
        assert ("from standard input; press Ctrl-D to finish" in ran.err) is terminal


def test_lm_reports_a_missing_file_before_it_reads_other_files(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\n")
    ran = hierogram("lm", "text", "missing", "-o", "x.lm")
    assert (ran.code, ran.err) == (3, "hierogram: missing: cannot be opened: No such file or directory\n")


def test_ingest_reports_rejected_lines_and_fails_on_them_with_strict(hierogram: Run, tmp_path: Path) -> None:
    path = tmp_path / "corpus"
    path.write_text("a ||| b ||| 0-0\n" + "a b\na b\n\n" * 6)
    lenient = hierogram("ingest", str(path))
    assert lenient.code == 0
    assert f"{path}:2-3: field-count: expected source ||| target [||| alignment], got 1 field" in lenient.err
    assert f"{path}:4: empty-line: the line is empty" in lenient.err
    assert "… and 3 more rejected lines: see the table rejected_lines" in lenient.err
    assert "rejected 12: field-count" in lenient.out
    assert hierogram("ingest", str(path), "--strict").code == 1


def test_the_store_is_set_by_an_option_or_else_by_the_environment(
    hierogram: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HIEROGRAM_STORE", f"sqlite:///{tmp_path}/here.db")
    assert hierogram("ingest", str(corpus)).code == 0
    assert json.loads(hierogram("status", "--json").out)["url"] == f"sqlite:///{tmp_path}/here.db"
    assert hierogram("status", "--store", "elsewhere.db").code == 3
    assert hierogram("--store", "elsewhere.db", "status").code == 3


@pytest.mark.slow
def test_the_first_learning_on_a_machine_announces_compilation(hierogram: Run, tmp_path: Path) -> None:
    hierogram("init")
    # An empty store needs few of the kernels, so this is quick.
    learn = [sys.executable, "-c", "from hierogram.daemon.cli.main import main; main()", "learn", "--json"]
    environment = {**os.environ, "HIEROGRAM_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(learn, env=environment, capture_output=True, text=True, check=True)
    assert ran.stderr.startswith("compiling the samplers for this machine")
    assert json.loads(ran.stdout)["pairs"] == 0
    assert "compiling" not in hierogram("learn", "--help").err


def test_verify_and_rules_commands_work_on_both_databases(hierogram: Run, learned_url: str) -> None:
    assert hierogram("--store", learned_url, "verify").code == 0
    rules = json.loads(hierogram("--store", learned_url, "rules", "--containing", "maison", "--json").out)
    assert rules[0]["expected_uses"] > 0


def test_verify_reports_a_wrong_count_of_a_rule(hierogram: Run, learned_url: str) -> None:
    engine = make_engine(parse_url(learned_url))
    with engine.begin() as connection:
        number = connection.execute(text("SELECT min(id) FROM rules WHERE count > 0")).scalar_one()
        connection.execute(text(f"UPDATE rules SET count = count + 1 WHERE id = {number}"))
    engine.dispose()
    ran = hierogram("--store", learned_url, "verify")
    assert ran.code == 1
    assert f"rule {number} " in ran.out
    assert "the store is damaged" in ran.err
    assert json.loads(hierogram("--store", learned_url, "verify", "--json").out)["problems"]


@pytest.mark.parametrize("command", [("status",), ("rules", "a"), ("learn",), ("export",), ("verify",)])
def test_a_missing_store_gives_a_one_line_error(hierogram: Run, command: tuple[str, ...]) -> None:
    ran = hierogram("--store", "missing.db", *command)
    assert ran.code == 3
    [line] = ran.err.splitlines()
    assert line.startswith("hierogram: no store at sqlite:///missing.db")


def test_a_file_that_is_not_a_store_and_an_unknown_database_are_errors(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, it is a text of some length" * 100)
    ran = hierogram("--store", "text.db", "status")
    assert (ran.code, len(ran.err.splitlines())) == (3, 1)
    assert hierogram("--store", "mysql://localhost/db", "status").code == 2


def test_a_dirichlet_process_has_its_own_default_schedule(hierogram: Run) -> None:
    def settings(*options: str) -> list[str]:
        store = f"sqlite:///{len(options)}-{options[-1]}.db"
        assert hierogram("init", *options, "--store", store).code == 0
        with open_store(store) as opened:
            found = opened.settings()
        return [found.schedule, str(found.temperature), str(found.annealing)]

    assert settings("--model", "dirichlet") == ["annealed", "10.0", "280"]
    assert settings("--model", "dirichlet", "--schedule", "quick")[0] == "quick"
    assert settings("--model", "dirichlet", "--annealing", "30") == ["annealed", "10.0", "30"]
    assert settings("--schedule", "annealed") == ["annealed", "5.0", "200"]


def test_init_refuses_to_change_settings_of_a_store(hierogram: Run) -> None:
    assert hierogram("init", "--discount", "0.4").code == 0
    assert hierogram("init").code == 0
    assert hierogram("init", "--discount", "0.4").code == 0
    ran = hierogram("init", "--discount", "0.6", "--seed", "2")
    assert ran.code == 3
    assert "discount is 0.4, not 0.6; seed is 1, not 2" in ran.err


@pytest.mark.parametrize(
    "option",
    [
        ("--model", "unigram"),
        ("--discount", "1"),
        ("--discount", "nan"),
        ("--strength", "0"),
        ("--burn-in", "0"),
        ("--max-tokens", "362"),
        ("--upgrade", "--seed", "2"),
    ],
)
def test_init_rejects_invalid_options(hierogram: Run, option: tuple[str, ...], tmp_path: Path) -> None:
    assert hierogram("init", *option).code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_longest_sides_that_init_allows_can_be_learned(hierogram: Run, tmp_path: Path) -> None:
    side = " ".join(f"w{k}" for k in range(361))
    (tmp_path / "corpus").write_text(f"{side} ||| {side} ||| {' '.join(f'{k}-{k}' for k in range(361))}\n")
    make_store(schedule="paper", max_tokens=361, sweeps_per_level=1, levels=1)
    assert json.loads(hierogram("ingest", "corpus", "--json").out)["accepted"] == 1
    assert hierogram("learn", "--sweeps", "0").code == 0
    assert hierogram("verify").code == 0


def test_upgrading_a_current_store_changes_nothing(hierogram: Run) -> None:
    assert hierogram("init", "--upgrade").code == 3
    hierogram("init")
    assert "nothing was changed" in hierogram("init", "--upgrade").out


def test_a_store_of_a_newer_version_is_refused(hierogram: Run, tmp_path: Path) -> None:
    hierogram("init")
    with sqlite3.connect(tmp_path / "hierogram.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    ran = hierogram("status")
    assert ran.code == 3
    assert "schema 9999" in ran.err


def test_rules_command_reports_an_empty_result(hierogram: Run, learned_url: str) -> None:
    ran = hierogram("--store", learned_url, "rules", "nowhere")
    assert (ran.code, ran.out) == (0, "")
    assert "try --containing" in ran.err


def test_interrupted_ingest_exits_with_130(hierogram: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hierogram.daemon.text.reading.validate", interrupt)
    ran = hierogram("ingest", str(corpus))
    assert ran.code == 130
    assert "interrupted: stored pairs are kept" in ran.err
    assert json.loads(hierogram("status", "--json").out)["pairs"]["waiting"] == 0


def test_rules_command_ignores_accents_and_case_and_suggests_similar_words_and_the_other_side(
    learned_url: str, hierogram: Run
) -> None:
    exact = hierogram("--store", learned_url, "rules", "maison", "--json")
    for typed in ("MAISON", "mai\u0308son"):
        found = hierogram("--store", learned_url, "rules", typed, "--json")
        assert json.loads(found.out) == json.loads(exact.out)
        assert "differ in accents or capital letters" in found.err
        assert hierogram("--store", learned_url, "rules", "--containing", typed).out
    assert "differ in accents" not in exact.err
    assert "similar words: maison" in hierogram("--store", learned_url, "rules", "mais").err
    other_side = hierogram("--store", learned_url, "rules", "the", "house")
    assert "try --target 'the house'" in other_side.err
    assert hierogram("--store", learned_url, "rules", "--target", "the house").out
    assert "house" not in hierogram("--store", learned_url, "rules", "hous").err


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "-o", "here.db", "--format", "tsv"),
        ("terms", "-o", "here.db", "--format", "tsv"),
        ("lm", "in.fr", "--tokenized", "-o", "here.db"),
        ("translate", "in.fr", "-o", "here.db"),
        ("diagnose", "--pairs", "2", "--draws", "here.db"),
        ("lm", "in.fr", "--tokenized", "-o", "in.fr"),
        ("translate", "in.fr", "-o", "./in.fr"),
        ("align", "in.fr", "in.en", "-o", "in.en"),
    ],
)
def test_output_never_overwrites_the_store_or_an_input(
    arguments: tuple[str, ...], hierogram: Run, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/here.db"
    hierogram("--store", store, "init")
    for name in ("in.fr", "in.en"):
        (tmp_path / name).write_text("a b\n")
    ran = hierogram("--store", store, *arguments)
    assert ran.code == 2
    assert "is a database" in ran.err or "is also an input of this command" in ran.err
    assert json.loads(hierogram("--store", store, "status", "--json").out)["pairs"]["waiting"] == 0
    assert [(tmp_path / name).read_text() for name in ("in.fr", "in.en")] == ["a b\n"] * 2


def test_ingest_notes_that_rare_words_are_split_into_subwords(hierogram: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "rich.bars"
    corpus.write_text("".join(f"nakula{number} ||| we eat\n" for number in range(500)))
    hierogram("init", "--languages", "sw,en", "--tokenize")
    ran = hierogram("ingest", str(corpus))
    assert re.search(
        r"word-parts: source words are split into subwords by \d+ merges: 100.0% of the source words and 0.0% of the "
        r"target words occur once in a sample, 0.0% and 0.0% are compounds",
        ran.err,
    )
    assert not re.search(r"^ *word_parts", hierogram("init").out, re.MULTILINE)


class FailingModule(ModuleType):
    """Module from which every import raises an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__("cut")
        self._error = error

    def __getattr__(self, name: str) -> object:
        raise self._error


def wrap(cause: BaseException) -> RuntimeError:
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), wrap(KeyboardInterrupt())])
def test_interrupting_an_import_shows_no_traceback(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"hierogram": "hierogram.__main__:main"}
    monkeypatch.setitem(sys.modules, "hierogram.daemon.cli.main", FailingModule(error))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_import_errors_other_than_interruptions_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hierogram.daemon.cli.main", FailingModule(wrap(ValueError())))
    with pytest.raises(RuntimeError, match="__set_name__"):
        main()


def test_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "hierogram", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("hierogram ")
