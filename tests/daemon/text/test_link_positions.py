"""Detection of links whose positions refer to words split at Unicode spaces instead of the store's words."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.text.unicode_spaces import UnicodeSpaceDetector
from hierogram.daemon.text.validation import LineColumns
from hierogram.storage.store import Store, open_store

WORDS = {
    "le": "the", "chat": "cat", "chien": "dog", "maison": "house", "porte": "door", "rue": "street", "ville": "town",
    "arbre": "tree", "livre": "book", "rouge": "red", "vert": "green", "noir": "black", "grand": "big",
}  # fmt: skip
NO_BREAK = "\u00a0"


def corpus(
    number: int, *, divided: bool, space: str = NO_BREAK, spaced: Sequence[int] | None = None, seed: int = 1
) -> list[tuple[str, str, str]]:
    """Return pairs that start with a number containing a Unicode space, and whose last word has no link.

    So all links are in range whether they refer to split words (`divided`) or not. If `spaced` is given, other lines
    have no such space.
    """
    drawn = random.Random(seed)
    pairs = []
    for k in range(number):
        words = drawn.sample(sorted(WORDS), drawn.randint(3, 7))
        target = [WORDS[word] for word in words]
        if spaced is None or k in spaced:
            source = [f"10{space}000", *words]
            first = 2 if divided else 1
            links = [(k, 0) for k in range(first)] + [(first + i, 1 + i) for i in range(len(words))]
        else:
            source, links = ["1000", *words], [(i, i) for i in range(len(words) + 1)]
        line = " ".join(f"{i}-{j}" for i, j in links)
        pairs.append((f"{' '.join(source)} .", f"{' '.join(['10,000', *target])} .", line))
    return pairs


def columns(pairs: Sequence[tuple[str, str, str | None]]) -> LineColumns:
    sources, targets, alignments = zip(*pairs, strict=True)
    return LineColumns(
        range(1, len(pairs) + 1),
        [text.encode() for text in sources],
        [text.encode() for text in targets],
        [None if links is None else links.encode() for links in alignments],
        [None] * len(pairs),
    )


@pytest.mark.parametrize("space", [NO_BREAK, "\u202f", "\u2009", "\u3000", "\u2003", "\x1c"])
def test_links_in_range_that_refer_to_split_words_are_detected_by_likelihood(space: str) -> None:
    fields = columns(corpus(30, divided=True, space=space))
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    note = detector.note()
    assert note is not None
    assert note.code == "unicode-spaces"
    assert f"such as U+{ord(space):04X}: the links count words that are split at these spaces" in note.text
    found = detector.divide(fields)
    assert found.sources[0].startswith(b"10 000 ")
    assert found.targets == fields.targets


@pytest.mark.parametrize("space", [NO_BREAK, "\u202f", "\u2009"])
def test_pairs_whose_links_refer_to_the_store_s_words_are_unchanged(space: str) -> None:
    fields = columns(corpus(30, divided=False, space=space))
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    assert detector.note() is None
    assert detector.divide(fields) is fields


@pytest.mark.parametrize("divided", [True, False])
def test_few_lines_with_unicode_spaces_are_compared_with_other_lines(divided: bool) -> None:
    fields = columns(corpus(60, divided=divided, spaced=[30, 50]))
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    assert detector.divided == divided
    assert (detector.note() is None) != divided


def test_words_are_split_if_only_then_all_links_are_in_range() -> None:
    fields = columns([(f"10{NO_BREAK}000 chats", "10,000 cats", "0-0 1-0 2-1")])
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    assert detector.divide(fields).sources == [b"10 000 chats"]


def test_few_links_that_fit_both_tokenizations_are_noted() -> None:
    fields = columns([(f"10{NO_BREAK}000 chats noirs", "10,000 black cats", "0-0 1-2 2-1")])
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    note = detector.note()
    assert note is not None
    assert "the links are read as positions of words between spaces and tabs" in note.text
    assert detector.divide(fields) is fields


def test_the_note_counts_lines_read_before_split_words_were_detected() -> None:
    detector = UnicodeSpaceDetector()
    detector.inspect([columns([(f"10{NO_BREAK}000 chats", "10,000 cats", "0-0 1-1")])])
    detector.inspect([columns(corpus(30, divided=True))])
    note = detector.note()
    assert note is not None
    assert note.text.endswith("split there, except in the first of these lines, where this was not known yet")


def test_lines_without_links_keep_their_spaces() -> None:
    pairs: list[tuple[str, str, str | None]] = [*corpus(30, divided=True), (f"10{NO_BREAK}000 chats", "cats", None)]
    fields = columns(pairs)
    detector = UnicodeSpaceDetector()
    detector.inspect([fields])
    assert detector.divide(fields).sources[-1] == fields.sources[-1]
    alone = UnicodeSpaceDetector()
    alone.inspect([columns([pairs[-1]])])
    assert alone.note() is None


def links_of_houses(store: Store) -> set[tuple[str, str]]:
    """Return the linked word pairs that contain `maison` or `house`."""
    found = set()
    for row in store.pairs():
        source, target = row.source.split(" "), row.target.split(" ")
        for link in row.alignment.split():
            i, j = map(int, link.split("-"))
            if "maison" in source[i] or target[j] == "house":
                found.add((source[i], target[j]))
    return found


@pytest.mark.parametrize("form", ["parallel", "pipes", "jsonl"])
def test_links_that_refer_to_split_words_are_stored_with_the_right_words(
    hierogram: Run, tmp_path: Path, form: str
) -> None:
    pairs = corpus(40, divided=True, spaced=range(0, 40, 3))
    names = ["a"]
    if form == "parallel":
        names = ["a.fr", "a.en", "a.align"]
        for name, lines in zip(names, zip(*pairs, strict=True), strict=True):
            (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    elif form == "pipes":
        (tmp_path / "a").write_text("".join(" ||| ".join(pair) + "\n" for pair in pairs))
    else:
        members = ("source", "target", "alignment")
        (tmp_path / "a").write_text("".join(json.dumps(dict(zip(members, pair, strict=True))) + "\n" for pair in pairs))
    done = hierogram("--store", "s.db", "ingest", *names)
    assert "40 pairs stored" in done.out
    assert "unicode-spaces: 14 lines with links and Unicode spaces, such as U+00A0" in done.err
    with open_store("s.db") as store:
        assert links_of_houses(store) == {("maison", "house")}
