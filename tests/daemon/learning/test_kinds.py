"""A kind of grammar defined by this test: once registered, it can be learned, verified, exported and withdrawn."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import CopyStore
from tests.daemon.conftest import LINES, Run, write_corpus
from tests.daemon.serving.turns import SHORT, ManualTurns
from tests.storage.rows import rule_rows

from hierogram.daemon.learning.kinds.kind import (
    Averages,
    Chain,
    ChainConfig,
    Kind,
    LoadedBatch,
    Report,
    Sweep,
    SweepRequest,
)
from hierogram.daemon.learning.kinds.pairs import LoadedPairs, load_pairs
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.serving.service import warm_up
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.forests.derivations import State, initial_state
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS, PAIRS, SOURCE, TARGET, GrammarKind, WordSide
from hierogram.samplers.grammar.rules import RuleUse, unescape_terminal
from hierogram.samplers.grammar.schedules import Schedule
from hierogram.samplers.grammar.settings import JOINED
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

NAME = "whole pairs"
WORDS = (WordSide(SOURCE, SOURCE, unescape_terminal), WordSide(TARGET, TARGET, unescape_terminal))


class WholePairsChain(Chain):
    """Chain that counts whole pairs as rules and has nothing to sample."""

    rule_types = rule_tokens = 0

    def __init__(self, store: Store, config: ChainConfig) -> None:
        status = store.status()
        self.rule_types, self.rule_tokens = status.rules_in_use, status.rule_tokens

    def add_pairs(self, loaded: LoadedBatch, state: State, stored: NDArray[np.bool_]) -> None:
        self.rule_tokens += int((~stored).sum())

    def change_counts(self, loaded: LoadedBatch, state: State, weight: int) -> None:
        self.rule_tokens += weight * loaded.batch.size

    def sweep(self, loaded: LoadedBatch) -> Sweep:
        def take(state: State, averages: Averages, request: SweepRequest, report: Report) -> tuple[State, SweepInfo]:
            report(loaded.batch.size)
            return state, SweepInfo(0, 0, 0, 0)

        return take

    def log_likelihood(self) -> float:
        return -float(self.rule_tokens)


def begin(loaded: LoadedPairs, settings: Settings, due: NDArray[np.bool_], start: str | None) -> State:
    return initial_state(settings.seed, loaded.batch, JOINED)


def show(row: PairRow, settings: Settings) -> list[RuleUse]:
    sizes = row.source.count(" ") + 1, row.target.count(" ") + 1
    return [RuleUse(row.source, row.target, (0, sizes[0]), (0, sizes[1]), ())]


EXAMPLE = PairRow(1, "a b", "c d", "0-0 1-1", WAITING, 0, 0, None, None)


WHOLE_PAIRS = Kind(
    name=NAME,
    needs_all_pairs=False,
    load=load_pairs,
    draw_initial_state=begin,
    schedule=lambda _: Schedule(1, 2),
    chain=WholePairsChain,
    read_derivation=show,
    example=EXAMPLE,
    sweeps=3,
)
"""Kind in which each pair is a rule."""


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar_kind = GrammarKind(NAME, "whole pairs", PAIRS, (SOURCE, TARGET), WORDS, frozenset())
    monkeypatch.setitem(GRAMMAR_KINDS, NAME, grammar_kind)
    monkeypatch.setitem(sys.modules, f"hierogram.daemon.learning.kinds.{NAME}", SimpleNamespace(KIND=WHOLE_PAIRS))


@pytest.fixture
def url(store_url: str, copy_store: CopyStore, hierogram: Run, tmp_path: Path) -> str:
    """URL of a learned store of the kind `whole pairs`. Parametrized by database."""

    def make(url: str) -> None:
        with open_store(url, create=True, settings=Settings(grammar=NAME, span_limit=0)):
            pass
        for command in (["ingest", str(write_corpus(tmp_path))], ["learn", "--sweeps", "4"]):
            ran = hierogram("--store", url, *command)
            assert ran.code == 0, ran.err

    copy_store("whole pairs", store_url, make)
    return store_url


def rules(store: Store) -> dict[tuple[str, str], tuple[int, float]]:
    with store.snapshot() as snapshot:
        found = rule_rows(snapshot)
        return {(rule.source, rule.target): (rule.count, rule.expected_uses) for rule in found if rule.count}


@pytest.mark.database("sqlite")
def test_a_registered_kind_is_learned_and_verified(url: str, hierogram: Run) -> None:
    texts = [tuple(line.split(" ||| ")[:2]) for line in LINES]
    with open_store(url) as store:
        assert rules(store) == {(s, t): (texts.count((s, t)), texts.count((s, t))) for s, t in texts}
        assert store.status().pairs["settled"] == len(LINES)
        assert {row.sweep for row in store.pairs()} == {2 + 4}
        assert [rule.source for rule in store.find_rules(words=["voit"])] == [LINES[7].split(" ||| ")[0]]
    sound = hierogram("--store", url, "verify")
    assert (sound.code, "no problems found" in sound.out) == (0, True)


@pytest.mark.database("sqlite")
def test_a_registered_kind_is_exported_as_jsonl_and_tsv_and_not_as_moses(
    url: str, hierogram: Run, tmp_path: Path
) -> None:
    assert hierogram("--store", url, "export", "-o", "g.jsonl", "--format", "jsonl", "--posterior-mean").code == 0
    exported = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    with open_store(url) as store:
        assert {(rule["source"], rule["target"]): rule["count"] for rule in exported} == {
            rule: count for rule, (count, _) in rules(store).items()
        }
    assert hierogram("--store", url, "export", "-o", "g.tsv", "--format", "tsv", "--posterior-mean").code == 0
    assert len((tmp_path / "g.tsv").read_text().splitlines()) == 1 + len(exported)
    refused = hierogram("--store", url, "export", "-o", "g.moses", "--format", "moses")
    assert refused.code != 0
    assert "a store of whole pairs cannot be exported as moses" in refused.err


@pytest.mark.database("sqlite")
def test_pairs_of_a_registered_kind_are_withdrawn_by_commands_and_by_the_daemon(url: str, hierogram: Run) -> None:
    assert hierogram("--store", url, "withdraw", "1", "2").code == 0
    with open_store(url) as store:
        warm_up(store.settings())
        with ManualTurns(store, **SHORT) as turns:
            store.request_withdrawals([3])
            turns.settle()
            turns.turns.run_turn()
            assert turns.learner.chain.rule_tokens == len(LINES) - 3
        assert sum(count for count, _ in rules(store).values()) == len(LINES) - 3
        assert verify(store).problems == []
    assert hierogram("--store", url, "withdraw", "--corpus", "default").code == 0
    with open_store(url) as store:
        assert store.status().rules_in_use == 0
        assert verify(store).problems == []
