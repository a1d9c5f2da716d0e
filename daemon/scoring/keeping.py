"""Scores that the store keeps: for programs and people that ask, refreshed where a pair's rules have changed much."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from hierogram.daemon.exceptions import NothingLearnedError
from hierogram.daemon.scoring.learned import Learned
from hierogram.daemon.scoring.options import KeepOptions, ScoreOptions
from hierogram.daemon.scoring.records import Misfit, PairScore
from hierogram.daemon.scoring.scoring import Scorer
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.database.transactions import now
from hierogram.storage.records import SETTLED, PairRow
from hierogram.storage.records.scores import ScoreRow
from hierogram.storage.store import Store

_CHANGED = 0.5
"""Rules have changed much where the mean log-probability of those that a derivation uses has moved by so much."""
_READ_AT_ONCE = 500
KEPT_AT_ONCE = 20
_LOOK_SECONDS = 1.0
_LONGEST_WAIT = 1.0


class Stop(Protocol):
    """Tells a loop that it shall end."""

    def is_set(self) -> bool:
        """Whether the loop shall end."""

    def wait(self, timeout: float | None = None, /) -> bool:
        """Sleeps until the loop shall end or the seconds are over; returns `is_set()`."""


class Beat(Protocol):
    """Signs of life of a loop."""

    def __call__(self) -> None:
        """The loop is alive."""

    def well(self) -> None:
        """A round is complete."""


class Keeper:
    """Scores stored pairs and has the store keep the scores."""

    def __init__(self, store: Store, scorer: Scorer) -> None:
        self._store = store
        self._scorer = scorer
        self._last_pair = scorer.learned.last_pair
        self._position = scorer.learned.position

    def keep(self, scored: Sequence[tuple[PairRow, PairScore]]) -> None:
        """Keeps these scores."""
        moment = now()
        rows = []
        for row, score in scored:
            source, target = score.source_misfit, score.target_misfit
            rows.append(
                ScoreRow(
                    row.id,
                    self._position,
                    moment,
                    score.tokens,
                    score.log_probability,
                    score.log_probability_error,
                    score.evidence,
                    score.unseen,
                    score.unseen_error,
                    score.pieces,
                    score.exact,
                    *_misfit_columns(source),
                    *_misfit_columns(target),
                    " ".join(f"{link.source}-{link.target}:{link.probability:.3f}" for link in score.links),
                    self._scorer.derivation(row),
                )
            )
        self._store.keep_scores(rows)

    def due(self, rows: Sequence[PairRow]) -> Iterator[PairRow]:
        """The pairs without a score, and those whose rules have changed much since they were scored.

        Pairs that are newer than what is known of the store wait for the next round.
        """
        kept = {score.pair_id: score for score in self._store.scores_by_id([row.id for row in rows])}
        for row in rows:
            if row.id > self._last_pair:
                continue
            score = kept.get(row.id)
            if score is None or _has_moved(score.derivation, self._scorer.derivation(row)):
                yield row

    def score(self, row: PairRow) -> PairScore:
        """The score of a stored pair."""
        return self._scorer.score_stored(row)


def _misfit_columns(misfit: Misfit | None) -> tuple[float | None, int | None]:
    return (None, None) if misfit is None else (misfit.odds, misfit.position)


def _has_moved(before: float | None, present: float | None) -> bool:
    if before is None or present is None:
        return before is not present
    return abs(present - before) > _CHANGED


class _EndedError(Exception):
    """The loop shall end."""


class _Pace:
    """Keeps a thread to a share of one core: after each piece of work it rests as long as that takes."""

    def __init__(self, share: float, stop: Stop, beat: Beat) -> None:
        self._share = share
        self._stop = stop
        self._beat = beat
        self._worked = time.thread_time()

    def rest(self, *_: object) -> None:
        """Rests for the work since the last rest; raises `_EndedError` where the loop shall end."""
        worked = time.thread_time() - self._worked
        left = worked * (1 - self._share) / self._share
        while left > 0 and not self._stop.is_set():
            self._beat()
            self._stop.wait(min(left, _LONGEST_WAIT))
            left -= _LONGEST_WAIT
        self._beat()
        if self._stop.is_set():
            raise _EndedError
        self._worked = time.thread_time()


class KeepingScores:
    """The loop of the daemon that scores settled pairs: a round over all of them, then the next.

    What the store has learned is read at the start of a round. A pair is scored where it has no score, or where its
    rules have changed much since. All of it takes no more than a share of one core.
    """

    name = "score"
    sections: frozenset[str] = frozenset({"scores"})

    def __init__(self, store: Store, options: Callable[[], KeepOptions], log: Callable[..., object]) -> None:
        self._store = store
        self._options = options
        self._log = log

    def run(self, stop: Stop, beat: Beat) -> None:
        """Runs until told to end; see `Loop.run`."""
        options = self._options()
        of_two_languages = self._store.settings().grammar == SYNCHRONOUS
        seen, again = -1, 0.0
        while not stop.is_set():
            position = self._store.position()
            if of_two_languages and options.share and position != seen and time.monotonic() >= again:
                try:
                    done = self._round(options, stop, beat)
                except _EndedError:
                    return
                if done is not None:
                    seen, again = position, time.monotonic() + options.pause_seconds
                    self._log("pairs scored", pairs=done)
            beat.well()
            stop.wait(_LOOK_SECONDS)

    def _round(self, options: KeepOptions, stop: Stop, beat: Beat) -> int | None:
        """Scores what is due; returns how many pairs, None where there is nothing to do, or too much."""
        status = self._store.status()
        pairs = sum(status.pairs.values())
        if not status.pairs.get(SETTLED) or pairs > options.most_pairs:
            return None
        pace = _Pace(options.share, stop, beat)
        try:
            learned = Learned(self._store, pace.rest)
        except NothingLearnedError:
            return None
        pace.rest()
        scorer = Scorer(learned, ScoreOptions(), pace.rest)
        keeper = Keeper(self._store, scorer)
        after, done = 0, 0
        scored: list[tuple[PairRow, PairScore]] = []
        while rows := self._store.pairs(after, _READ_AT_ONCE, (SETTLED,)):
            after = rows[-1].id
            for row in keeper.due(rows):
                scored.append((row, keeper.score(row)))
                pace.rest()
                if len(scored) == KEPT_AT_ONCE:
                    keeper.keep(scored)
                    done += len(scored)
                    scored = []
            pace.rest()
        if scored:
            keeper.keep(scored)
        return done + len(scored)
