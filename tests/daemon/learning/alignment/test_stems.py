"""Alignment chains over stems, and the stem counts of a store."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.daemon.conftest import QUICK
from tests.daemon.learning.alignment.arrivals import put
from tests.daemon.learning.alignment.languages import invented_corpus
from tests.storage.building import aligner_counts

from hierogram.daemon.learning.alignment.aligning import align_sides, corpus_options
from hierogram.daemon.learning.alignment.incremental import IncrementalAligner, align_pending
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.learning.stored_links import (
    LinkedTexts,
    NamedCounts,
    add_link_counts,
    make_withdrawal,
    unit_names,
    words_and_stems,
)
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.alignment.bitext import Side, fold, make_direction, read_side
from hierogram.samplers.alignment.marginals import add_marginals, empty_marginals, mean_posterior
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, chain_seed, run_chain
from hierogram.samplers.alignment.prior_counts import MAX_EVENT, PriorCounts, PriorsByUnit
from hierogram.storage.records.aligner import AlignerChange, AlignerCounts, FertilityCounts, LinkRow
from hierogram.storage.store import Store, open_store

SOURCES = ["une Maison verte", "la maisonnette vert vert", "verte", ""]
TARGETS = ["a green House", "the housing greenish", "greens green", "none"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True, settings=QUICK) as opened:
        yield opened


def stem(word: str) -> str:
    return fold(word)[:4]


def with_stems(sentences: Iterable[str]) -> Side:
    return read_side(" ".join(stem(word) for word in sentence.split()) for sentence in sentences)


def test_two_of_three_chains_use_stems() -> None:
    sources, targets, _ = invented_corpus(30)
    # Add endings, because the invented words are shorter than a stem.
    sources, targets = (
        [" ".join(f"{word}st{k % 3}" for word in line.split()) for k, line in enumerate(side)]
        for side in (sources, targets)
    )
    options = corpus_options(AlignOptions(sweeps=5, chains=5), 30)
    source, target = read_side(sources), read_side(targets)
    _, aligned = align_sides(words_and_stems(source, target), options, 1)
    units = [(source, target), (with_stems(sources), with_stems(targets))]
    assert len(units[1][0].vocabulary) < len(source.vocabulary)
    sums = []
    for number, whole in enumerate((make_direction(target, source), make_direction(source, target))):
        total = empty_marginals(whole.bitext)
        for chain, unit in enumerate((0, 1, 1, 0, 1)):
            one, other = units[unit]
            direction = make_direction(one, other) if number else make_direction(other, one)
            add_marginals(
                whole.bitext,
                total,
                run_chain(AlignmentKernel(options, direction), chain_seed(options.seed, number, chain)),
            )
        sums.append(total)
    expected = mean_posterior(aligned.links, source, target, sums)
    assert np.array_equal(aligned.posterior, expected)
    words = align_sides(words_and_stems(source, target), replace(options, stems=False), 1)[1]
    assert list(words.lines(True)) != list(aligned.lines(True))


def link_rows(sources: list[str], targets: list[str]) -> list[LinkRow]:
    return [LinkRow(n, *pair, "", "", "", None, None, 1) for n, pair in enumerate(zip(sources, targets, strict=True))]


def count_by_link(counts: PriorCounts) -> dict[tuple[int, int], int]:
    pairs = zip(counts.conditioning.tolist(), counts.emitted.tolist(), strict=True)
    return dict(zip(pairs, counts.counts.tolist(), strict=True))


def test_links_are_counted_by_words_and_by_stems() -> None:
    texts = LinkedTexts.from_rows(link_rows(SOURCES, TARGETS))
    random = np.random.default_rng(3)
    lengths = [(len(s.split()), len(t.split())) for s, t in zip(SOURCES, TARGETS, strict=True)]
    forward = [int(random.integers(-1, height)) for height, width in lengths for _ in range(width)]
    backward = [int(random.integers(-1, width)) for height, width in lengths for _ in range(height)]
    links = np.array(forward, np.int16), np.array(backward, np.int16)
    weight = [2, 3, 1, 1]
    expected: dict[str, Counter[tuple[str, str]]] = {"forward": Counter(), "backward": Counter()}
    f, b = iter(forward), iter(backward)
    for times, source, target in zip(weight, SOURCES, TARGETS, strict=True):
        s, t = (tuple(map(fold, side.split())) for side in (source, target))
        for word in t:
            link = next(f)
            expected["forward"][s[link] if link >= 0 else "", word] += times
            expected["forward"][(stem(s[link]) if link >= 0 else "") + " ", stem(word) + " "] += times
        for word in s:
            link = next(b)
            expected["backward"][word, t[link] if link >= 0 else ""] += times
            expected["backward"][stem(word) + " ", (stem(t[link]) if link >= 0 else "") + " "] += times
    change = AlignerChange()
    learned = texts.counts(links, np.array(weight, np.int64))
    add_link_counts(change, learned, texts.units)
    keys = [row[:2] for row in change.lexicon]
    assert len(set(keys)) == len(keys)
    for k, direction in enumerate(("forward", "backward")):
        assert {row[:2]: row[2 + k] for row in change.lexicon if row[2 + k]} == dict(expected[direction])
    counts = AlignerCounts(change.lexicon, change.words, change.jumps)
    again = NamedCounts(counts).select(unit_names(texts.units), (0, 0))
    for read, entered in zip(again, learned, strict=True):
        for one, other in zip(read, entered, strict=True):
            assert count_by_link(one) == count_by_link(other)
            for array in ("link_counts", "fertility", "jumps"):
                assert np.array_equal(getattr(one, array), getattr(other, array))


def test_prior_counts_of_words_are_found_by_name() -> None:
    """Compare with a search through all rows, for words with and without counts, and for an empty side."""
    lexicon = [("a", "x", 2, 0), ("a", "y", 0, 3), ("b", "x", 5, 7), ("", "x", 1, 0), ("b", "", 0, 4), ("c", "y", 8, 9)]
    words = [
        FertilityCounts(side, word, *range(first, first + 9))
        for first, (side, word) in enumerate(
            [("source", "a"), ("target", "x"), ("source", "b"), ("source", ""), ("target", ""), ("target", "y")], 10
        )
    ]
    lexicon += [(f"{s} ", f"{t} ", 10 * forward, 10 * backward) for s, t, forward, backward in lexicon]
    words += [row._replace(word=f"{row.word} ", links=10 * row.links) for row in words]
    found = NamedCounts(AlignerCounts(lexicon, words, [("forward", 2, 6), ("backward", -1, 5)]))
    for source, target in (("a new b", "x other"), ("b", "x y x"), ("new", "other"), ("a", "")):
        both = unit_names(words_and_stems(read_side([source]), read_side([target])))
        for unit, names in zip(found.select(both, (20, 30)), both, strict=True):
            for k, task in enumerate(unit):
                conditioning, emitted = names[k], names[1 - k][:-1]
                expected = {
                    (conditioning.index(row[k]), emitted.index(row[1 - k])): row[2 + k]
                    for row in lexicon
                    if row[k] in conditioning and row[1 - k] in emitted and row[2 + k]
                }
                assert count_by_link(task) == expected
                own = {row.word: row for row in words if row.side == ("source", "target")[k]}
                rows = [own[name][2:] if name in own else (0,) * 9 for name in conditioning]
                assert task.link_counts.tolist() == [row[0] for row in rows]
                assert task.fertility.tolist() == [list(row[1:]) for row in rows[:-1]]
                jumps = task.jumps.tolist()
                assert [(n - MAX_EVENT, jumps[n]) for n in np.flatnonzero(jumps)] == [((2, 6), (-1, 5))[k]]
                assert task.emitted_words == (30, 20)[k]


def test_a_stem_and_a_word_with_equal_letters_have_different_names() -> None:
    of_words, of_stems = unit_names(words_and_stems(read_side(["mais maison"]), read_side(["x"])))
    assert of_words == (["mais", "maison", ""], ["x", ""])
    assert of_stems == (["mais ", " "], ["x ", " "])


def test_stem_counts_exclude_the_pairs_being_aligned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, 0, 40)
    align_pending(store)
    seen = []

    def noted_align(*texts_and_options: Any, prior: PriorsByUnit, **given: Any) -> object:
        seen.append(prior)
        return align_sides(*texts_and_options, prior=prior, **given)

    monkeypatch.setattr("hierogram.daemon.learning.alignment.incremental.align_sides", noted_align)
    IncrementalAligner(store).realign_stale(40)
    [prior] = seen
    # All pairs of the store are being aligned, so no counts remain.
    assert [
        (int(task.counts.sum()), int(task.link_counts.sum()), int(task.jumps.sum())) for unit in prior for task in unit
    ] == [(0, 0, 0)] * 4
    assert verify(store).problems == []


def test_stem_counts_of_withdrawn_pairs_are_removed(store: Store) -> None:
    put(store, 0, 20)
    align_pending(store)
    rows = aligner_counts(store).lexicon
    stems = [row for row in rows if row[0].endswith(" ")]
    words = [row for row in rows if not row[0].endswith(" ")]
    assert [sum(row[k] for row in stems) for k in (2, 3)] == [sum(row[k] for row in words) for k in (2, 3)]
    some = [row.id for row in store.pairs()][:7]
    store.commit_alignments(make_withdrawal(store, some))
    assert not [problem for problem in verify(store).problems if "aligner:" in problem]
