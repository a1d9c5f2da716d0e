"""Fixtures that run commands, input files, and stores that have learned from them."""

import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from hypothesis import settings
from tests.conftest import CopyStore
from tests.daemon.parts import make_parts

import hierogram as hg
from hierogram.daemon.cli.main import main
from hierogram.daemon.cli.main import main as run_commands
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

# Other load on the machine must not fail a test.
settings.register_profile("hierogram", deadline=None)
settings.load_profile("hierogram")

LINES = [
    "la maison blanche ||| the white house ||| 0-0 1-2 2-1",
    "la maison ||| the house ||| 0-0 1-1",
    "une maison verte ||| a green house ||| 0-0 1-2 2-1",
    "la porte de la maison ||| the house 's door ||| 0-0 1-3 2-2 4-1",
    "la porte verte ||| the green door ||| 0-0 1-2 2-1",
    "elle ne vient pas ||| she does not come ||| 0-0 1-2 2-3 3-2",
    "il ne vient pas ||| he does not come ||| 0-0 1-2 2-3 3-2",
    "il ne voit pas la maison ||| he does not see the house ||| 0-0 1-2 2-3 3-2 4-4 5-5",
    "la maison ||| the house ||| 0-0 1-1",
]
"""A small parallel corpus. One pair occurs twice."""

QUICK = Settings(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)
"""Settings with a short schedule."""


def make_store(url: str = "sqlite:///hierogram.db", **settings: Any) -> None:
    """Create an empty store, also with settings for which `hierogram init` has no option."""
    open_store(url, create=True, settings=Settings(**settings)).close()


class CommandResult(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., CommandResult]

build_command = cache(typer.main.get_command)
"""Build the parsers of all commands once, which takes longer than parsing a command line."""


@pytest.fixture
def lab(hierogram: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Function that runs a command of the lab like the fixture `hierogram`."""
    commands = import_module("hierogram.tools.lab.__main__").app
    monkeypatch.setattr("tests.daemon.conftest.main", lambda: run_commands(commands))
    return hierogram


@pytest.fixture
def hierogram(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Function that runs a command in this process, in a temporary folder and without a default store."""
    monkeypatch.delenv("HIEROGRAM_STORE", raising=False)
    monkeypatch.setattr(typer.main, "get_command", build_command)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["hierogram", *arguments])
        capsys.readouterr()
        # A command that has finished ignores signals until the end of its process.
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        captured = capsys.readouterr()
        code = ended.value.code
        return CommandResult(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The small corpus as a file."""
    return write_corpus(tmp_path)


def write_corpus(folder: Path) -> Path:
    """Write the small corpus to a file of lines `source ||| target ||| links`."""
    path = folder / "corpus.bars"
    path.write_text("".join(line + "\n" for line in LINES))
    return path


def write_news(folder: Path) -> None:
    """Write the columns of the small corpus to `news.fr`, `news.en` and `news.align`."""
    columns = zip(*(line.split(" ||| ") for line in LINES), strict=True)
    for name, column in zip(("news.fr", "news.en", "news.align"), columns, strict=True):
        (folder / name).write_text("".join(line + "\n" for line in column))


@pytest.fixture
def learned_url(store_url: str, copy_store: CopyStore, tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a store learned from the small corpus. Parametrized by database."""
    copy_store("learned", store_url, learned_store_maker(tmp_path_factory))
    return store_url


def learned_store_maker(folders: pytest.TempPathFactory) -> Callable[[str], None]:
    """Return a function that creates a store at a URL and learns the small corpus."""
    return lambda url: create_learned_store(url, write_corpus(folders.mktemp("corpus")))


def create_learned_store(url: str, corpus: Path, settings: Settings = QUICK) -> None:
    """Create a store, ingest a file and learn it with four sweeps after the burn-in."""
    from hierogram.daemon.learning.learning import learn
    from hierogram.daemon.text.ingest import ingest
    from hierogram.daemon.text.pair_files import PairFiles

    with open_store(url, create=True, settings=settings) as store, PairFiles([str(corpus)]) as source:
        ingest(store, source)
        learn(store, sweeps=4)


@pytest.fixture
def learned(learned_url: str) -> Iterator[Store]:
    """A store learned from the small corpus. Parametrized by database."""
    with open_store(learned_url) as store:
        yield store


@pytest.fixture(scope="session", params=["subwords", "compounds"])
def parts_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a learned store with subwords, or with compounds, which tests only read."""
    return make_parts(tmp_path_factory.mktemp("parts"), compounds=request.param == "compounds")


@pytest.fixture
def parts(parts_url: str) -> Iterator[hg.GrammarStore]:
    """The store with subwords or compounds."""
    with hg.open(parts_url) as store:
        yield store
