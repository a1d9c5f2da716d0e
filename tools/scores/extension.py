"""Scores extension of the daemon: the command `score`, the section `[scores]`, a route and a loop."""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    PROBLEMS_FOUND,
    advise_tokenization,
    interruptible,
    open_chosen_store,
    plural,
    print_note,
    print_table,
)
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.extensions import INSPECT, Command, Extension
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson, Tokenized
from hierogram.storage.options import Option
from hierogram.storage.records.pairs import PairScore
from hierogram.tools.scores.options import ScoringOptions

if TYPE_CHECKING:
    from fastapi import APIRouter

    from hierogram.daemon.library.store import GrammarStore
    from hierogram.daemon.serving.service import Daemon
    from hierogram.daemon.serving.supervision import Loop
    from hierogram.daemon.web.protocol.context import WebContext
    from hierogram.storage.store import Store
    from hierogram.tools.scores.library import ScoredPair


_TABLE_COLUMNS = ("pair", "doubt", "evidence", "log P", "unseen", "odd source", "odd target", "source", "target")


@with_options
def score(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        Option("Files to score. Default: the stored pairs.", metavar="[SOURCE TARGET]", positional=True),
    ] = None,
    pair: Annotated[list[int] | None, Option("Score only this stored pair. May be repeated.", metavar="NUMBER")] = None,
    doubt: Annotated[
        float | None, Option("Show only pairs with at least this doubt.", metavar="DOUBT", shown="all")
    ] = None,
    below: Annotated[
        float | None, Option("Show only pairs with less evidence than this.", metavar="EVIDENCE", shown="all")
    ] = None,
    misfit: Annotated[
        float | None,
        Option("Show only pairs with a misfit of at least these log-odds.", metavar="ODDS", shown="all"),
    ] = None,
    after: Annotated[
        int, Option("Start after this pair or line, to continue an interrupted run.", min=0, metavar="NUMBER")
    ] = 0,
    keep: Annotated[bool, Option("Store the scores of the pairs.")] = False,
    kept: Annotated[bool, Option("Show stored scores instead of computing them.")] = False,
    tokenized: Tokenized = False,
    as_json: AsJson = False,
) -> None:
    """Score pairs to find noise. Scores are based on the probability of a pair under the learned grammar.

    A stored pair is scored without its own counts. Pairs with a high doubt, little evidence, or a misfit with high
    log-odds are probably noise. --doubt, --below and --misfit show pairs that match any of these options. --json prints
    one object per line immediately, with the probable word links, and needs little memory. Exit with 1 if a line of a
    file cannot be scored, for example because a side is empty.
    """
    from hierogram.tools.scores.library import kept_scores
    from hierogram.tools.scores.library import score as score_pairs

    if files and (keep or kept):
        raise UsageError("--keep and --kept apply only to stored pairs: omit SOURCE TARGET")
    if keep and kept:
        raise UsageError("--keep and --kept are mutually exclusive")
    if files and (len(files) != 2 or pair):
        raise UsageError("expected two files, SOURCE TARGET, or no files and optionally --pair")

    def matches(score: PairScore) -> bool:
        log_odds = [found.log_odds for found in (score.source_misfit, score.target_misfit) if found is not None]
        return (
            (doubt is None and below is None and misfit is None)
            or (doubt is not None and score.doubt >= doubt)
            or (below is not None and score.evidence < below)
            or (misfit is not None and max(log_odds, default=-math.inf) >= misfit)
        )

    rows: list[ScoredPair] = []
    number = unscored = 0
    with (
        interruptible("the remaining pairs were not scored"),
        open_chosen_store(context) as opened,
        progress("score", "pairs") as bar,
    ):
        total = len(pair) if pair else None if files else opened.store.count_pairs()

        def report(step: str, done: int, total: int | None) -> None:
            bar.update(done, total, done, step, "rules" if step == "reading rules" else None)

        if kept:
            scores = kept_scores(opened, pair or None, after)
        else:
            texts = _read_pairs(opened, files, tokenized) if files else None
            scores = score_pairs(
                opened, texts, ids=pair or None, after=after, keep=keep, tokenized=tokenized, progress=report
            )  # fmt: skip
        for number, scored in enumerate(scores, 1):
            bar.update(number, total, number)
            unscored += scored.score is None
            if scored.score and not matches(scored.score):
                continue
            if as_json:
                row = {"line" if files else "pair": scored.number, "source": scored.source, "target": scored.target}
                row |= dataclasses.asdict(scored.score) if scored.score else {"problem": scored.problem}
                print(json.dumps(row, ensure_ascii=False))
            else:
                rows.append(scored)
    if not as_json:
        print_table(_TABLE_COLUMNS, [_format_row(scored) for scored in rows], numeric=range(5))
        print_note(f"{plural(len(rows), 'pair')} of {number:,}")
    if unscored:
        print_note(f"hierogram: {plural(unscored, 'line')} could not be scored: --json shows the problem of each")
        raise typer.Exit(PROBLEMS_FOUND)


def _read_pairs(store: "GrammarStore", files: list[str], tokenized: bool) -> Iterator[tuple[str, str]]:
    from hierogram.daemon.library.aligning import resolve_text_pipeline
    from hierogram.daemon.text.pair_files import read_pairs

    pipeline, sides = resolve_text_pipeline(store, None, tokenized), read_pairs(files)
    for side, name, lines in zip((pipeline.source, pipeline.target), files, sides, strict=True):
        advise_tokenization(side, name, lines, tokenized)
    return zip(*sides, strict=True)


def _format_row(scored: "ScoredPair") -> list[str]:
    score = scored.score
    if score is None:
        return [str(scored.number), *[""] * 6, scored.source, scored.target]
    misfits = (
        "" if misfit is None else f"{words.split()[misfit.position]} {misfit.log_odds:.1f}"
        for misfit, words in ((score.source_misfit, scored.source), (score.target_misfit, scored.target))
    )
    numbers = f"{score.doubt:.2f}", f"{score.evidence:.3f}", f"{score.log_probability:.3f}", f"{score.unseen:.2f}"
    return [str(scored.number), *numbers, *misfits, scored.source, scored.target]


def _routes(context: "WebContext") -> "Iterable[APIRouter]":
    from hierogram.tools.scores.routes import score_routes

    yield score_routes(context.service)


def _loops(daemon: "Daemon") -> "Iterable[Loop]":
    from hierogram.tools.scores.loop import ScoringLoop

    log = daemon.log.bind(loop="score").info
    yield ScoringLoop(daemon.store, lambda: daemon.configuration.section(ScoringOptions), log)


def _warm_up_loops(store: "Store") -> None:
    from threading import Event

    from hierogram.daemon.serving.supervision import Heartbeat
    from hierogram.tools.scores.loop import ScoringLoop

    stop = Event()
    # Stop the loop when it logs the end of its first round.
    ScoringLoop(store, lambda: ScoringOptions(share=1.0), lambda *_, **__: stop.set()).run(stop, Heartbeat())


EXTENSION = Extension(
    commands=[Command(INSPECT, score, "hierogram score --doubt 4 --json > doubtful.jsonl")],
    sections={"scores": ScoringOptions},
    routes=_routes,
    loops=_loops,
    warm_up_loops=_warm_up_loops,
)
