"""Small stores with subwords or compounds, for tests of their display."""

from itertools import product
from pathlib import Path

import hierogram as hg
from hierogram.daemon.text.segments import WordView
from hierogram.storage.records.parts import PART_MARK

WHO = {"nina": "i", "una": "you", "ana": "she", "tuna": "we"}
DO = {"kula": "eat", "leta": "bring", "penda": "like", "taka": "want"}
WHAT = {"mkate": "bread", "samaki": "fish", "chai": "tea", "maji": "water", "mkate mtamu": "sweet bread"}
VERSES = [(f"{who}{do} {what}", f"{WHO[who]} {DO[do]} {WHAT[what]}") for who, do, what in product(WHO, DO, WHAT)]
PREFIXES = [(who, english) for who, english in WHO.items() for _ in range(12)]
ROOTS = [(do, english) for do, english in DO.items() for _ in range(12)]
"""Pairs of the beginnings and ends of words, so that the words are compounds."""
SOURCE_WORDS = {word for source, _ in [*VERSES, *PREFIXES, *ROOTS] for word in source.split()}
TARGET_WORDS = {word for _, target in VERSES for word in target.split()}


def make_parts(folder: Path, compounds: bool = False) -> str:
    """Create a store with subwords, or with compounds of the source, in a folder, learn it, and return its URL."""
    with hg.open(folder / "words.db", create=True) as words:
        words.add(VERSES)
        if compounds:
            words.add([*PREFIXES, *ROOTS])
        with words.in_parts(folder / "parts.db", bpe_merges=(None if compounds else 24, 24)) as store:
            store.learn(20, threads=1).run()
    return str(folder / "parts.db")


def segmented_word(store: hg.GrammarStore) -> str:
    """Return the source word of several subwords that occurs together in the most used rule."""
    view = WordView(store.settings().word_parts)
    for rule in store.rules().top(10_000):
        for word in view.side(rule.source).split(" "):
            if word in SOURCE_WORDS and PART_MARK in view.parts(0, word):
                return word
    raise AssertionError("no rule has a whole word of several subwords")
