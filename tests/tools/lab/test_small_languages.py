"""The benchmark of small languages, on a small artificial text."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hierogram.daemon.exceptions import UsageError
from hierogram.tools.lab.papers.small_languages import (
    SOURCE_PARTS,
    WORDS,
    Cell,
    SmallOptions,
    _LearnedStore,
    draft,
    measure,
    saved_share,
    split_verses,
)

SUBJECTS = {"ni": "I", "u": "you", "wa": "they", "tu": "we"}
VERBS = {"nakula": "eat", "nakunywa": "drink", "naona": "see", "nataka": "want"}
NOUNS = {"mkate": "bread", "maji": "water", "samaki": "fish", "chai": "tea"}


def write_verses(folder: Path, nouns: dict[str, str], book: Callable[[int], str], first: int = 0) -> None:
    made = [
        (f"{subject}{verb} {noun}.", f"{who} {does} {what}.")
        for subject, who in SUBJECTS.items()
        for verb, does in VERBS.items()
        for noun, what in nouns.items()
    ]
    for language, side in (("sw", 0), ("en", 1)):
        with (folder / f"nt.{language}").open("a", encoding="utf-8") as file:
            file.writelines(f"{book(k)}.1.{first + k}\t{pair[side]}\n" for k, pair in enumerate(made))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_verses(tmp_path, NOUNS, lambda k: "ACT" if k % 5 == 0 else "MAT")
    return tmp_path


def _options(folder: Path) -> SmallOptions:
    return SmallOptions(work=folder / "work", test=8, draft=6, block=3)


def test_the_test_book_is_not_learned(folder: Path) -> None:
    verses = split_verses(folder, Cell("sw", "en", 40, WORDS), _options(folder))
    assert (len(verses.train), len(verses.test)) == (40, 8)
    assert not {*verses.train} & {*verses.test}


def test_a_smaller_cell_learns_the_first_verses_of_a_larger_one(folder: Path) -> None:
    small, large = (split_verses(folder, Cell("sw", "en", size, WORDS), _options(folder)) for size in (10, 40))
    assert large.train[:10] == small.train
    assert large.test == small.test


def test_text_of_the_language_model_is_neither_learned_nor_translated(folder: Path) -> None:
    options = replace(_options(folder), more_text=10)
    verses = split_verses(folder, Cell("sw", "en", 30, WORDS), options)
    known = {target for _, target in (*verses.train, *verses.test)}
    assert len(verses.more_text) == 10
    assert not known & {*verses.more_text}


@pytest.mark.slow
def test_more_text_changes_the_language_model(folder: Path) -> None:
    options = replace(_options(folder), more_text=10)
    cell = Cell("sw", "en", 30, WORDS)
    with ExitStack() as stack:
        verses = split_verses(folder, cell, options)
        learned = _LearnedStore(cell, options, verses.train, stack)
        scores = [
            translator.translate(verses.test[0][0]).candidates[0].features["lm"]
            for translator in (learned.translator(), learned.translator(verses.more_text))
        ]
    assert scores[0] != scores[1]


def test_too_few_verses_are_reported(folder: Path) -> None:
    with pytest.raises(UsageError, match="verses of other books, got 13 and 51"):
        split_verses(folder, Cell("sw", "en", 52, WORDS), _options(folder))


@pytest.mark.slow
def test_a_cell_reports_the_quality_and_length_of_translations(folder: Path) -> None:
    for method in (WORDS, SOURCE_PARTS):
        figures = measure(folder, Cell("sw", "en", 48, method), _options(folder))
        assert json.loads(json.dumps(figures)) == figures
        assert 0.8 < figures["length"] < 1.3
        assert 20 < figures["chrf"] <= 100


@pytest.mark.slow
def test_drafting_learns_from_corrections(tmp_path: Path) -> None:
    write_verses(tmp_path, NOUNS, lambda _: "MAT")
    # Only the drafted book has the word *banana*.
    write_verses(tmp_path, {"ndizi": "banana"}, lambda _: "ACT", first=100)
    figures = draft(tmp_path, Cell("en", "sw", 48, WORDS), _options(tmp_path))
    assert figures["verses"] == [3, 6]
    # The first block is translated before anything of the book is learned.
    assert figures["updated"][0] == figures["unchanged"][0]
    assert figures["updated"][1] > figures["unchanged"][1]
    assert len(figures["seconds"]) == 2


def test_the_saved_share_is_one_minus_the_share_of_edits() -> None:
    assert saved_share(["kitten"], ["sitting"]) == pytest.approx(4 / 7)
    assert saved_share(["abc"], ["abc"]) == 1
    # The share is never negative: a translator can start from scratch.
    assert saved_share(["something else"], ["abc"]) == 0
