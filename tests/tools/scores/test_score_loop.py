"""The loop that scores pairs, and rescores them after large changes of their rules."""

import dataclasses
import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from tests.daemon.conftest import Run
from tests.storage.building import query

from hierogram.daemon.serving.supervision import Heartbeat
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.scores import loop as scoring
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.loop import ScoringLoop
from hierogram.tools.scores.options import ScoringOptions
from hierogram.tools.scores.scoring import Scorer, save_scores

SECONDS = 60.0


@dataclass(frozen=True)
class WithoutPause(ScoringOptions):
    pause_seconds: ClassVar[float] = 0.0


QUICK = WithoutPause(share=1.0)


class Loop:
    """The daemon's scoring loop, which is stopped after `rounds` rounds or a timeout."""

    def __init__(self, store: Store, options: ScoringOptions, rounds: int = 1) -> None:
        self._most = rounds
        self.stop = threading.Event()
        self.rounds: list[int] = []
        self.heartbeat = Heartbeat()
        self._loop = ScoringLoop(store, lambda: options, self._heard)

    def _heard(self, _event: str, pairs: int) -> None:
        self.rounds.append(pairs)
        if len(self.rounds) == self._most:
            self.stop.set()

    def run(self, seconds: float = SECONDS) -> list[int]:
        timer = threading.Timer(seconds, self.stop.set)
        timer.start()
        self._loop.run(self.stop, self.heartbeat)
        timer.cancel()
        return self.rounds


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_POLL_SECONDS", 0.01)


def test_the_daemon_scores_pairs_without_a_score(learned: Store) -> None:
    settled = [row.id for row in learned.pairs(states=["settled"])]
    loop = Loop(learned, QUICK)
    assert loop.run() == [len(settled)]
    scores = learned.scores()
    assert [score.pair_id for score in scores] == settled
    scorer = Scorer(LearnedCounts(learned, lambda *_: None))
    rows = learned.pairs(states=["settled"])
    for (made, _), score in zip(scorer.score_stored(rows), scores, strict=True):
        links = tuple(dataclasses.replace(link, probability=round(link.probability, 3)) for link in made.links)
        assert score.score == dataclasses.replace(made, links=links)
        assert score.position <= learned.position()


@pytest.mark.parametrize(("moved", "again"), [(0.4, 0), (0.6, 1), (-0.6, 1)])
def test_the_daemon_rescores_pairs_after_large_changes(learned: Store, moved: float, again: int) -> None:
    Loop(learned, QUICK).run()
    assert Loop(learned, QUICK).run() == [0]
    [score] = learned.scores_by_id([3])
    assert score.derivation_log_probability is not None
    changed = dataclasses.replace(score.score, evidence=99.0)
    learned.save_scores(
        [score._replace(derivation_log_probability=score.derivation_log_probability + moved, score=changed)]
    )
    assert Loop(learned, QUICK).run() == [again]
    assert (learned.scores_by_id([3])[0].score.evidence < 99) == bool(again)


@pytest.mark.database("sqlite")
def test_a_restarted_loop_has_no_problem_while_it_compiles(learned: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, problems = Loop(learned, QUICK), list[str | None]()
    loop.heartbeat.problem = "connection failed"
    monkeypatch.setattr(scoring, "_compile_scores", lambda *_: problems.append(loop.heartbeat.problem))
    loop.run()
    assert problems == [None]


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_an_unchanged_store_is_not_scored_again(learned: Store) -> None:
    """The second round finds nothing to do, and there is no third one."""
    assert Loop(learned, QUICK, rounds=3).run(3.0) == [len(learned.pairs(states=["settled"])), 0]


@pytest.mark.parametrize("options", [ScoringOptions(share=0.0), ScoringOptions(share=1.0, max_pairs=3)])
def test_nothing_is_scored_if_disabled_or_if_the_store_has_too_many_pairs(
    learned: Store, options: ScoringOptions
) -> None:
    assert Loop(learned, options).run(0.3) == []
    assert learned.scores() == []


def test_tree_stores_have_no_scores(store_url: str) -> None:
    with open_store(store_url, create=True, settings=Settings(grammar="trees")) as store:
        assert Loop(store, QUICK).run(0.2) == []


def test_the_scoring_loop_ends_on_request(learned: Store) -> None:
    """The loop may use only a small share of the time, so its pauses are long."""
    loop = Loop(learned, ScoringOptions(share=1e-4))
    thread = threading.Thread(target=loop.run)
    thread.start()
    loop.stop.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert loop.rounds == []


def test_a_pair_withdrawn_during_scoring_keeps_no_score(
    learned: Store, hierogram: Run, learned_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def withdrawn_first(*given: Any) -> None:
        assert hierogram("--store", learned_url, "withdraw", "2").code == 0
        save_scores(*given)

    monkeypatch.setattr(scoring, "save_scores", withdrawn_first)
    Loop(learned, QUICK).run()
    assert 2 not in [score.pair_id for score in learned.scores()]
    assert query(learned_url, "SELECT count(*) FROM pair_scores WHERE pair_id = 2") == [(0,)]
