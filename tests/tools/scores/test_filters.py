"""The filters for OpusFilter and OpusCleaner: each line has a score or a reason, and pairs are streamed."""

import abc
import json
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from hierogram.storage.store import Store

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "scores.md").read_text()
OPUSFILTER, OPUSCLEANER = ROOT / "packaging" / "opusfilter", ROOT / "packaging" / "opuscleaner"
GOOD = [("la maison verte", "the green house"), ("elle voit la porte", "she sees the door")]
STRANGE = [
    ("", "the house"),
    ("la maison", ""),
    ("   ", "\u3000"),
    ("la " * 300, "the " * 300),
    ("la maison " * 150, "x"),
    ("la " * 1_200, "the"),
    ("l ' a m a i s o n", "<b> the </b>\u00a0house"),
    ("lamaison", "thehouse"),
    ("\ufffd\u200b", "\U0001f600"),
]


class FilterABC(metaclass=abc.ABCMeta):
    """Stub of the filters' base class in OpusFilter 3, which creates filters by name from YAML."""

    def __init__(self, name: str | None = None, workdir: str = "", **kwargs: Any) -> None:
        self.name, self.workdir = name, workdir
        assert not kwargs

    @abc.abstractmethod
    def score(self, pairs: Iterable[Any]) -> Iterator[Any]: ...

    @abc.abstractmethod
    def accept(self, score: Any) -> bool: ...

    @property
    @abc.abstractmethod
    def score_direction(self) -> str: ...

    def decisions(self, pairs: Iterable[Any]) -> Iterator[bool]:
        for score in self.score(pairs):
            yield self.accept(score)


@pytest.fixture
def opus(learned: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The filter for OpusFilter, created from the documented configuration."""
    module = types.ModuleType("opusfilter")
    module.__dict__.update(FilterABC=FilterABC, CLEAN_LOW="clean_low")
    monkeypatch.setitem(sys.modules, "opusfilter", module)
    made: dict[str, Any] = {}
    exec((OPUSFILTER / "hierogram_filter.py").read_text(), made)
    name, store, threshold = re.findall(r"- (\w+): \{store: (\S+), threshold: (\d+)\}", DOCUMENT)[0]
    assert store == "news.db"
    return made[name](name=None, workdir=".", store=learned.url, threshold=float(threshold))


@pytest.mark.database("sqlite")
def test_opusfilter_gets_a_score_for_each_line(opus: Any) -> None:
    scores = list(opus.score(GOOD + STRANGE))
    assert len(scores) == len(GOOD + STRANGE)
    assert all(opus.accept_threshold < score <= opus.reject_threshold for score in scores)
    without = [pair for pair, score in zip(GOOD + STRANGE, scores, strict=True) if score == opus.reject_threshold]
    assert without == [STRANGE[0], STRANGE[1], STRANGE[2], STRANGE[5]]
    assert opus.score_direction == "clean_low"
    assert opus.accept(opus.accept_threshold)
    assert not opus.accept(opus.reject_threshold)


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_opusfilter_keeps_accepted_pairs_and_streams_its_input(opus: Any) -> None:
    lines = STRANGE + GOOD
    assert list(opus.filter(iter(lines))) == [
        pair for pair, accepted in zip(lines, opus.decisions(lines), strict=True) if accepted
    ]
    read = 0

    def many() -> Iterator[tuple[str, str]]:
        nonlocal read
        for read in range(10_000):
            yield GOOD[read % 2]

    assert len(list(islice(opus.filter(many()), 30))) == 30
    assert read < 5_000


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_opuscleaner_gets_accepted_lines_and_reasons_for_other_lines(learned: Store) -> None:
    described = json.loads((OPUSCLEANER / "hierogram.json").read_text())
    given = {"PYTHON": sys.executable, "STORE": learned.url, "DOUBT": "500"}
    assert given.keys() == described["parameters"].keys()
    command = [given[word[1:]] if word.startswith("$") else word for word in shlex.split(described["command"])]
    lines = ["\t".join(pair) + "\n" for pair in GOOD + STRANGE]
    ran = subprocess.run(command, cwd=OPUSCLEANER, input="".join(lines), capture_output=True, text=True, check=True)
    reasons = ran.stderr.splitlines()
    assert [reason.split(":")[0] for reason in reasons] == ["line 3", "line 4", "line 5", "line 8"]
    assert ran.stdout == "".join(line for number, line in enumerate(lines, 1) if number not in (3, 4, 5, 8))
