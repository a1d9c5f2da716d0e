"""Subwords: learned from text, unaffected by later text, and joined exactly."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.daemon.parts import learn_parts, open_parts

import hierogram as hg
from hierogram.daemon.text import memory_input
from hierogram.daemon.text.inspection import TOKENIZATION, WORD_PARTS
from hierogram.daemon.text.reading import CHUNKS_PER_TRANSACTION
from hierogram.daemon.text.segments import (
    SubwordSegmenter,
    choose_word_parts,
    format_merges,
    learn_merges,
    make_segmenter,
    measure_rare_share,
)
from hierogram.samplers.grammar.known_links import Link
from hierogram.storage.records.parts import PART_MARK, index_words, join_parts

VERSES = {
    "en": "This is the record of the genealogy of Jesus Christ , the son of David , the son of Abraham :",
    "sw": "Yesu Kristo alikuwa mzawa wa Daudi , mzawa wa Abrahamu . Hii ndiyo orodha ya ukoo wake :",
    "wo": "Lii mooy cosaanu Yeesu Kirist , sëtu Daawuda , sëtu Ibraayma .",
    "jiv": "Jesukrístu Weatrí ju ainiawai . Tura Ashí nankaamas ti uunt weat Tawitcha Apraámsha ainiawai .",
    "qu": "Jesucristo aillu quillca , Davidmanda mirai , David Abrahanmanda mirai .",
    "ppk": "Toi-mi pomeduncu-duncu to mpomuli-ki Yesus Kristus . Yesus muli Magau' Daud , muli Abraham .",
}
PAIRS = [
    ("unakula mkate", "you eat bread"),
    ("unakunywa maji", "you drink water"),
    ("ninakula samaki", "i eat fish"),
    ("ninakunywa chai", "i drink tea"),
]


@pytest.mark.parametrize("language", VERSES)
def test_segmentation_survives_a_round_trip_in_each_language(language: str) -> None:
    divided = SubwordSegmenter(learn_merges([VERSES[language]], 20)).split_line(VERSES[language])
    assert PART_MARK in divided
    assert join_parts(divided) == VERSES[language]


words = st.text(st.characters(blacklist_characters=" \t\n\r\0", blacklist_categories=("Cs",)), min_size=1, max_size=8)
marked = st.text(f"ab{PART_MARK}￬", min_size=1, max_size=6)


@given(st.lists(words | marked, min_size=1), st.integers(0, 30))
def test_any_words_survive_a_round_trip(line: list[str], merges: int) -> None:
    text = " ".join(line)
    assert join_parts(SubwordSegmenter(learn_merges([text, text], merges)).split_line(text)) == text


def test_most_frequent_neighbors_are_merged_first() -> None:
    assert learn_merges(["low low low lower lower new newer newer wider"], 4) == [
        ("e", "r"),
        ("l", "o"),
        ("lo", "w"),
        ("e", "w"),
    ]


def merges_by_recount(words: list[str], most: int) -> list[tuple[str, str]]:
    """Learn merges like `learn_merges`, but recount all neighbors before each merge."""
    parts, merges = [list(word) for word in words], list[tuple[str, str]]()
    while len(merges) < most:
        counts = Counter(pair for own in parts for pair in pairwise(own))
        best = min(((-count, pair) for pair, count in counts.items() if count > 1), default=None)
        if best is None:
            break
        merges.append(best[1])
        for own in parts:
            k = 0
            while k < len(own) - 1:
                if (own[k], own[k + 1]) == best[1]:
                    own[k : k + 2] = ["".join(best[1])]
                k += 1
    return merges


@given(st.lists(st.text("ab", min_size=1, max_size=12), min_size=1), st.integers(1, 12))
def test_learned_merges_equal_merges_from_recounts(words: list[str], most: int) -> None:
    assert learn_merges([" ".join(words)], most) == merges_by_recount(words, most)


def test_merges_do_not_depend_on_the_order_of_lines() -> None:
    lines = list(VERSES.values())
    assert learn_merges(lines, 40) == learn_merges(lines[::-1], 40)


def test_neighbors_seen_once_are_not_merged() -> None:
    assert learn_merges(["abc"], 5) == []


def test_merges_are_applied_in_order() -> None:
    assert SubwordSegmenter([("b", "c"), ("a", "b")]).split_line("abc") == f"a {PART_MARK}bc"


def test_segmenter_is_made_from_the_stored_merges() -> None:
    merges = learn_merges(VERSES.values(), 40)
    assert make_segmenter(format_merges(merges)).merges == tuple(merges)


def test_words_stay_whole_without_merges() -> None:
    assert make_segmenter("").split_line("ab c") == "ab c"
    assert make_segmenter("").count_parts("ab c") == [1, 1]
    assert join_parts(make_segmenter("").split_line(f"{PART_MARK}a {PART_MARK}b")) == f"{PART_MARK}a {PART_MARK}b"


def test_a_mark_at_the_start_of_a_line_joins_nothing() -> None:
    assert join_parts(f"{PART_MARK}a {PART_MARK}b c") == "ab c"
    assert index_words(f"{PART_MARK}a {PART_MARK}b c".split()) == [0, 0, 1, 2]
    assert index_words([]) == [0]


def _links_of_words(links: Iterable[Link], source: str, target: str) -> list[Link]:
    own = [index_words(side.split()) for side in (source, target)]
    return sorted({(own[0][i], own[1][j]) for i, j in links})


def test_links_of_subwords_become_links_of_their_words() -> None:
    links = [(0, 0), (1, 0), (2, 1), (2, 2)]
    assert _links_of_words(links, f"a {PART_MARK}b c", f"x y {PART_MARK}z") == [(0, 0), (1, 1)]


@pytest.fixture
def segmented_store(tmp_path: Path) -> hg.GrammarStore:
    store = open_parts(tmp_path / "parts.db", learn_parts(PAIRS, 6, 6))
    store.add(PAIRS[:2])
    store.add([(*PAIRS[2], "0-0 0-1 1-2")], corpus="linked")
    store.add([{"source": PAIRS[3][0], "target": PAIRS[3][1], "id": "tea", "fixed": [[1, 2]]}], corpus="named")
    return store


def test_a_segmented_store_keeps_the_words_of_its_pairs(segmented_store: hg.GrammarStore) -> None:
    with segmented_store as store:
        found = [(join_parts(row.source), join_parts(row.target)) for row in store.store.pairs()]
        assert sorted(found) == sorted(PAIRS)
        assert store.status().corpora == {"default": 2, "linked": 1, "named": 1}


def test_word_links_are_stored_as_links_of_subwords(segmented_store: hg.GrammarStore) -> None:
    with segmented_store as store:
        rows = {join_parts(row.source): row for row in store.store.pairs()}
        linked, named = rows[PAIRS[2][0]], rows[PAIRS[3][0]]
        places = (link.partition("-") for link in linked.alignment.split())
        links = [(int(i), int(j)) for i, _, j in places]
        assert _links_of_words(links, linked.source, linked.target) == [(0, 0), (0, 1), (1, 2)]
        fixed = store.store.human_links([named.id])[named.id].fixed
        assert _links_of_words(fixed, named.source, named.target) == [(1, 2)]


@pytest.mark.slow
def test_a_segmented_store_accepts_and_returns_words(segmented_store: hg.GrammarStore, tmp_path: Path) -> None:
    with segmented_store as store:
        store.learn(threads=1).run()
        assert store.verify().problems == []
        found = hg.Decoder(store).translator().translate("unakula maji")
        assert PART_MARK not in found.text
        assert found.source == ("unakula", "maji")
        linked = np.array(found.alignment())
        assert (linked.max(axis=0) < [2, len(found.text.split())]).all()
        whole, *uses = found.derivation()
        assert (whole.source_span, whole.target_span) == ((0, 2), (0, len(found.text.split())))
        assert any(PART_MARK in use.target for use in (whole, *uses))
        assert all(0 <= start < end <= 2 for start, end in (use.source_span for use in uses))
        store.export(tmp_path / "grammar.cdec")
        # The exported grammar also accepts and returns words.
        assert PART_MARK not in hg.Decoder(tmp_path / "grammar.cdec").translate("unakula maji").text
        store.withdraw(external_ids=["tea"], corpus="named")
        assert store.verify().problems == []


def test_invalid_links_are_rejected_by_a_segmented_store(segmented_store: hg.GrammarStore) -> None:
    with segmented_store as store:
        report = store.add([("unakula chai", "you eat tea", "0-0 7-1"), ("a", "b", "0-0 x")])
        assert (report.totals.accepted, report.totals.rejected) == (0, 2)


def _rich(pairs: int) -> list[tuple[str, str]]:
    return [(f"Ni{k:04}kula {'ab'[k % 2]}.", f"I eat {'ab'[k % 2]}.") for k in range(pairs)]


def _first_text(tmp_path: Path, pairs: Sequence[tuple[str, ...]], **settings: Any) -> tuple[tuple[str, ...], list[str]]:
    """Return the word parts of a store after its first text, and the codes of the notes."""
    settings = {"languages": ("sw", "en"), "tokenize": True, **settings}
    with hg.open(tmp_path / "first.db", create=True, **settings) as store:
        notes = store.add(pairs).notes
        return store.settings().word_parts, [note.code for note in notes]


def test_a_first_text_with_rich_morphology_is_segmented(tmp_path: Path) -> None:
    (source, target), notes = _first_text(tmp_path, _rich(500))
    assert "ku l" in source.split("\n")
    assert (target, notes) == ("", [WORD_PARTS])
    with hg.open(tmp_path / "first.db", create=True, languages=("sw", "en"), tokenize=True) as store:
        assert not store.add([("Ni9999kula a.", "I eat a.")]).notes
        assert all(PART_MARK in row.source for row in store.store.pairs())
        store.learn(2, threads=1).run()
        assert store.verify().problems == []
        assert PART_MARK not in hg.Decoder(store).translate("Ni0007kula b.").text


@pytest.mark.parametrize(
    ("pairs", "settings"),
    [
        (_rich(499), {}),
        ([(*pair, "0-0") for pair in _rich(500)], {}),
        ([*_rich(500), ("Ni9999kula a.", "I eat a.", "0-0")], {}),
        (_rich(500), {"tokenize": False}),
        (_rich(500), {"aligner": "itg"}),
        (_rich(500), {"grammar": "itg"}),
        pytest.param(_rich(20_000), {}, marks=pytest.mark.slow),
    ],
)
def test_unsuitable_first_texts_keep_whole_words(
    pairs: Sequence[tuple[str, ...]], settings: dict[str, Any], tmp_path: Path
) -> None:
    parts, notes = _first_text(tmp_path, pairs, **settings)
    assert (parts, WORD_PARTS in notes) == ((), False)
    # Later texts do not change the setting.
    with hg.open(tmp_path / "first.db") as store:
        store.add(_rich(600))
        assert store.settings().word_parts == ()


def test_word_parts_are_not_learned_from_the_end_of_an_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_input, "LINES_PER_CHUNK", 500)
    unpunctuated = [(f"mtu {k}", f"man {k}") for k in range(500 * CHUNKS_PER_TRANSACTION)]
    parts, notes = _first_text(tmp_path, [*unpunctuated, *_rich(500)], tokenize=None)
    assert (parts, notes) == ((), [TOKENIZATION])


@pytest.mark.parametrize(
    ("rare_sources", "rare_targets", "is_split"), [(30, 10, True), (30, 25, False), (10, 2, False), (2, 30, False)]
)
def test_the_source_is_segmented_if_it_is_richer_than_the_target(
    rare_sources: int, rare_targets: int, is_split: bool
) -> None:
    sources, targets = (
        [f"{name}{k} say" if k < rare else "we say" for k in range(80)]
        for name, rare in (("nakula", rare_sources), ("eaten", rare_targets))
    )
    sources = [f"{source} now" for source in sources]
    parts, reason = choose_word_parts(sources, targets)
    assert parts == ((format_merges(learn_merges(sources, 4_000)), "") if is_split else ())
    once = f"{rare_sources / 240:.1%} of the source words and {rare_targets / 160:.1%} of the target words occur once"
    assert once in reason


def test_rare_words_of_long_texts_are_measured_on_samples() -> None:
    # Each word occurs twice; a sample of 20,000 words contains hardly any of them twice.
    twice = [f"w{n % 29_999}" for n in range(59_998)]
    assert measure_rare_share(twice) > 0.9
    assert measure_rare_share(twice[:20_000] * 2) == 0
