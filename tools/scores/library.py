"""Library functions for scores of pairs under the grammar of a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from hierogram.daemon.library.options import list_ids
from hierogram.daemon.library.pairs import rows_by_id
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.prefetch import map_in_threads
from hierogram.daemon.progress import Phases
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.storage.records.pairs import PairScore
from hierogram.tools.scores.learned_counts import LearnedCounts, iterate_rows
from hierogram.tools.scores.scoring import BATCH_SIZE, MAX_WORDS, Scorer, save_scores

_SCORERS: WeakKeyDictionary[GrammarStore, Scorer] = WeakKeyDictionary()
"""Scorer of each open store, because reading the grammar takes longer than scoring a few pairs."""


class ScoredPair(NamedTuple):
    """Score of a pair of tokenized sides, or None with a `problem`, such as an empty side.

    `number` is the pair's id in the store, or its position, from 1, among the given pairs.
    """

    number: int
    source: str
    target: str
    score: PairScore | None
    problem: str | None = None


def score(
    store: GrammarStore,
    pairs: Iterable[tuple[str, str]] | None = None,
    *,
    ids: int | Iterable[int] | None = None,
    after: int = 0,
    keep: bool = False,
    tokenized: bool = False,
    progress: Phases = lambda *_: None,
) -> Iterator[ScoredPair]:
    """Yield scores of given pairs, of the stored pairs `ids`, or of all stored pairs.

    A stored pair is scored without its own counts. `after` skips pairs up to this number, except with `ids`. `keep`
    stores the scores of stored pairs. Raises `NothingLearnedError` if the store has no rules, `WrongKindError` if its
    grammar is not synchronous, and `InputError` if a pair of `ids` does not exist.
    """
    scorer = _SCORERS.get(store)
    if scorer is None or scorer.learned.position != store.store.position():
        scorer = _SCORERS[store] = Scorer(LearnedCounts(store.store, progress), progress)
    threads = os.cpu_count() or 1
    if pairs is not None:
        pipeline = make_pipeline(store.settings())
        pipeline = pipeline.for_tokenized() if tokenized else pipeline
        numbered = ((number, pipeline.pair(*pair)) for number, pair in enumerate(pairs, 1) if number > after)
        lines = ((number, source.split(), target.split()) for number, (source, target) in numbered)
        line_batches = iter(lambda: list(islice(lines, BATCH_SIZE)), [])
        for scored in map_in_threads(line_batches, lambda batch: score_texts(scorer, batch), threads):
            yield from scored
        return
    rows = iterate_rows(store.store, after) if ids is None else rows_by_id(store.store, list_ids(ids))
    batches = iter(lambda: list(islice(rows, BATCH_SIZE)), [])
    for batch, scores in map_in_threads(batches, lambda batch: (batch, scorer.score_stored(batch)), threads):
        if keep:
            save_scores(store.store, scorer, batch, scores)
        for row, (pair_score, _) in zip(batch, scores, strict=True):
            yield ScoredPair(row.id, row.source, row.target, pair_score)


def score_texts(scorer: Scorer, lines: Sequence[tuple[int, list[str], list[str]]]) -> list[ScoredPair]:
    """Score pairs that are not stored. Pairs with an empty or too long side get a problem."""
    problems = []
    for _, source, target in lines:
        too_long = max(len(source), len(target)) > MAX_WORDS
        problem = f"a side exceeds {MAX_WORDS:,} words" if too_long else None
        problems.append(problem if source and target else "a side is empty")
    sound = [(source, target) for (_, source, target), problem in zip(lines, problems, strict=True) if problem is None]
    scores = iter(scorer.score(sound) if sound else [])
    return [
        ScoredPair(number, " ".join(source), " ".join(target), None if problem else next(scores), problem)
        for (number, source, target), problem in zip(lines, problems, strict=True)
    ]


def kept_scores(store: GrammarStore, ids: int | Iterable[int] | None = None, after: int = 0) -> Iterator[ScoredPair]:
    """Yield stored scores of the pairs `ids`, or of pairs above `after`. Omits pairs without a score.

    Raises `InputError` if a pair of `ids` does not exist.
    """
    chosen = None if ids is None else list_ids(ids)
    if chosen is not None:
        # Check that the pairs exist.
        rows_by_id(store.store, chosen)
    while scores := store.store.scores(after) if chosen is None else store.store.scores_by_id(chosen):
        after = scores[-1].pair_id
        texts = {row.id: row for row in store.store.pairs_by_id([score.pair_id for score in scores])}
        for stored in scores:
            if row := texts.get(stored.pair_id):
                yield ScoredPair(row.id, row.source, row.target, stored.score)
        if chosen is not None:
            return
