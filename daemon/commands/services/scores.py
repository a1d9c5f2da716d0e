"""The command that scores sentence pairs under what a store has learned: score."""

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from hierogram.daemon.commands.common import (
    FOUND,
    AsJson,
    StoreUrl,
    interruptible,
    note,
    plural,
    say,
    say_table,
    store_url,
)
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.scoring.options import ScoreOptions
from hierogram.daemon.scoring.records import PairScore

if TYPE_CHECKING:
    from hierogram.daemon.scoring.scoring import Scorer
    from hierogram.storage.store import Store

_COLUMNS = ("pair", "evidence", "log P", "±", "unseen", "source", "target")


class _Scored(NamedTuple):
    """A pair by its number in the store, or that of its line; its score, None where a side is empty."""

    number: int
    source: str
    target: str
    score: PairScore | None


@with_options
def score(
    context: typer.Context,
    options: ScoreOptions,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[SOURCE TARGET]", help="Files to score; the stored pairs, if none.")
    ] = None,
    pair: Annotated[
        list[int] | None, typer.Option("--pair", metavar="NUMBER", help="Only this stored pair; may be repeated.")
    ] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Score pairs: how probable each is under all that the store has learned, and what of it is unexplained.

    Of a stored pair, what it has itself added to the store's counts is taken out first. A pair of low evidence is
    likely to be noise. With --json an object a line, with the probable links of words. Exits with 1 if a line of a file
    has an empty side and so no score.
    """
    if files and (len(files) != 2 or pair):
        raise UsageError("name two files, SOURCE TARGET, or none and perhaps a --pair")
    from hierogram.daemon.scoring.learned import Learned
    from hierogram.daemon.scoring.scoring import Scorer
    from hierogram.storage.store import open_store

    rows: list[_Scored] = []
    number = unscored = 0
    with (
        interruptible("what was not told is not scored"),
        open_store(store_url(context, store)) as opened,
        progress("score", "pairs") as shown,
    ):
        learned = Learned(opened, lambda doing, done, total: shown.update(done, total, done, doing))
        scorer = Scorer(learned, options)
        total = len(pair) if pair else None if files else opened.count_pairs()
        for number, scored in enumerate(_of_files(scorer, files) if files else _of_store(scorer, opened, pair), 1):
            shown.update(number, total, number)
            unscored += scored.score is None
            if scored.score and options.below is not None and scored.score.evidence >= options.below:
                continue
            if as_json:
                say(json.dumps(_object(scored, bool(files)), ensure_ascii=False))
            else:
                rows.append(scored)
    if not as_json:
        say_table(_COLUMNS, [_cells(scored) for scored in rows], numeric=range(5))
        note(f"{plural(len(rows), 'pair')} of {number:,}")
    if unscored:
        note(f"hierogram: {plural(unscored, 'line')} with an empty side: no score")
        raise typer.Exit(FOUND)


def _of_store(scorer: "Scorer", store: "Store", chosen: list[int] | None) -> Iterator[_Scored]:
    from hierogram.daemon.scoring.learned import rows_of

    rows = store.pairs_by_id(chosen) if chosen else rows_of(store)
    if chosen and (missing := set(chosen) - {row.id for row in rows}):
        raise InputError(f"{store.url}: there is no pair {min(missing)}")
    for row in rows:
        yield _Scored(row.id, row.source, row.target, scorer.score_stored(row))


def _of_files(scorer: "Scorer", files: list[str]) -> Iterator[_Scored]:
    from hierogram.daemon.alignment.files import read_sentences

    source, target = ([line.split() for line in read_sentences(name)] for name in files)
    if len(source) != len(target):
        raise InputError(f"{files[0]} has {len(source):,} lines, {files[1]} has {len(target):,}: they belong in pairs")
    for number, (one, other) in enumerate(zip(source, target, strict=True), 1):
        found = scorer.score(one, other, number) if one and other else None
        yield _Scored(number, " ".join(one), " ".join(other), found)


def _object(scored: _Scored, line: bool) -> dict[str, object]:
    told: dict[str, object] = {
        "line" if line else "pair": scored.number, "source": scored.source, "target": scored.target
    }  # fmt: skip
    return told | (dataclasses.asdict(scored.score) if scored.score else {"problem": "a side is empty"})


def _cells(scored: _Scored) -> list[str]:
    found = scored.score
    if found is None:
        return [str(scored.number), "", "", "", "", scored.source, scored.target]
    error = found.log_probability_error
    return [
        str(scored.number),
        f"{found.evidence:.3f}",
        f"{found.log_probability:.3f}",
        "" if error is None else f"{error:.3f}",
        f"{found.unseen:.2f}",
        scored.source,
        scored.target,
    ]
