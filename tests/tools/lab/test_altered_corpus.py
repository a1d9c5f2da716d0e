"""Altered corpora: some words are replaced by unique words, or one side is written in another script."""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierogram.daemon.exceptions import InputError
from hierogram.tools.lab.altered_corpus import add_unique_words, alter, transliterate

LINES = ["the house is the house", "a house , a cat", "the cat is a cat", ", ,"]


def share_of_unique(lines: list[list[str]]) -> float:
    count = Counter(word for words in lines for word in words)
    return sum(number == 1 for number in count.values()) / count.total()


@given(st.floats(0, 1), st.integers(0, 99))
def test_words_are_replaced_until_the_share_of_unique_words_is_reached(share: float, seed: int) -> None:
    before = [line.split() for line in LINES]
    after = [list(words) for words in before]
    add_unique_words(after, share, random.Random(seed))
    assert [len(words) for words in after] == [len(words) for words in before]
    assert share <= share_of_unique(after) <= share + 2 / 17
    pairs = [pair for words in zip(before, after, strict=True) for pair in zip(*words, strict=True)]
    changed = [new for old, new in pairs if old != new]
    assert len(set(changed)) == len(changed)


def test_words_are_transcribed_to_other_scripts() -> None:
    assert transliterate("Château , C' œuvre 1984 Quatre", "greek") == "Τσατεαου , Κ' οεουβρε 1984 Κατρε"
    assert transliterate("Château chez Génie", "cyrillic") == "Чатеау чез Жение"


def test_the_copy_has_one_side_in_another_script(tmp_path: Path) -> None:
    folder = tmp_path / "gold-fr-en"
    folder.mkdir()
    for name, content in (("corpus.fr", "le chat\n\n"), ("corpus.en", "the cat\n\n"), ("gold.talp", "0-0 1-1\n\n")):
        (folder / name).write_text(content)
    alter(folder, tmp_path / "copy", letters="cyrillic", side="fr")
    contents = [(tmp_path / "copy" / name).read_text() for name in ("corpus.fr", "corpus.en", "gold.talp")]
    assert contents == ["ле чат\n\n", "the cat\n\n", "0-0 1-1\n\n"]
    with pytest.raises(InputError, match="--side must be given together"):
        alter(folder, tmp_path / "other", letters="cyrillic")
