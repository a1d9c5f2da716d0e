"""Small stores with subwords or compounds, for tests of their display."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import hierogram as hg
from hierogram.daemon.text.segments import count_words, format_known_words, format_merges, known_parts, learn_merges
from hierogram.daemon.text.word_view import WordView
from hierogram.storage.records.parts import PART_MARK
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

SUBJECTS = {"nina": "i", "una": "you", "ana": "she", "tuna": "we"}
VERBS = {"kula": "eat", "leta": "bring", "penda": "like", "taka": "want"}
OBJECTS = {"mkate": "bread", "samaki": "fish", "chai": "tea", "maji": "water", "mkate mtamu": "sweet bread"}
VERSES = [
    (f"{subject}{verb} {noun}", f"{SUBJECTS[subject]} {VERBS[verb]} {OBJECTS[noun]}")
    for subject, verb, noun in product(SUBJECTS, VERBS, OBJECTS)
]
PREFIXES = [(prefix, english) for prefix, english in SUBJECTS.items() for _ in range(12)]
ROOTS = [(root, english) for root, english in VERBS.items() for _ in range(12)]
"""Verb stems as separate pairs. With `PREFIXES`, they make the source words of `VERSES` compounds."""
SOURCE_WORDS = {word for source, _ in [*VERSES, *PREFIXES, *ROOTS] for word in source.split()}
TARGET_WORDS = {word for _, target in VERSES for word in target.split()}


def learn_parts(pairs: Sequence[tuple[str, str]], source: int, target: int) -> tuple[str, str]:
    """Return the setting `word_parts` of subwords, learned from pairs with these numbers of merges."""
    sources, targets = zip(*pairs, strict=True)
    return format_merges(learn_merges(sources, source)), format_merges(learn_merges(targets, target))


def open_parts(path: Path, word_parts: tuple[str, ...], **settings: Any) -> hg.GrammarStore:
    """Create a store whose words are divided into these parts."""
    store = open_store(str(path), create=True, settings=Settings(word_parts=word_parts, **settings))
    return hg.GrammarStore(store, created=True)


def make_parts(folder: Path, compounds: bool = False) -> str:
    """Create and learn a store with subwords, or with compounds of the source. Returns its URL."""
    pairs = [*VERSES, *PREFIXES, *ROOTS] if compounds else VERSES
    parts = learn_parts(pairs, 24, 24)
    if compounds:
        known = known_parts(count_words(source for source, _ in pairs))
        parts = format_known_words(known), parts[1]
    with open_parts(folder / "parts.db", parts) as store:
        store.add(pairs)
        store.learn(20, threads=1).run()
    return str(folder / "parts.db")


def segmented_word(store: hg.GrammarStore) -> str:
    """Return a source word of several subwords from the most used rule that has one, or fail."""
    view = WordView(store.settings().word_parts)
    for rule in store.rules().top(10_000):
        for word in view.side(rule.source).split(" "):
            if word in SOURCE_WORDS and PART_MARK in view.parts(0, word):
                return word
    raise AssertionError("no rule has a whole word of several subwords")
