"""Extracted terms compared with a plain implementation of their definition, and their details."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.tools.terms import twin

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.options import OptionError
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.terms import extraction, phrases
from hierogram.tools.terms.extraction import HashCounter, likelihood_ratio, terms
from hierogram.tools.terms.options import TermOptions
from hierogram.tools.terms.reports import TermReport

WORDS = ["la", "Maison", "blanche", "pomme", "de", "terre", "vin", "rouge", ",", "42", "été"]
ALL = TermOptions(top=10_000, min_count=2, max_words=3, min_words=1, consistency=0)


def random_lines(number: int, seed: int) -> list[twin.Line]:
    """Return random pairs in which about 10 % of the links are between random words."""
    random.seed(seed)
    lines = []
    for _ in range(number):
        source = [random.choice(WORDS) for _ in range(random.randint(1, 7))]
        target = [(word.upper() if random.random() < 0.2 else word) + "e" for word in source if word != "de"] or ["x"]
        links = {
            (random.randrange(len(source)), random.randrange(len(target)))
            if random.random() < 0.1
            else (i, min(i, len(target) - 1))
            for i in range(len(source))
            if random.random() < 0.9
        }
        text = " ".join(f"{i}-{j}" for i, j in sorted(links))
        lines.append((" ".join(source), " ".join(target), text or "0-0"))
    return lines


def extract_terms(store: Store, options: TermOptions, departures: int = 0) -> TermReport:
    return terms(GrammarStore(store), options=options, departures=departures)


def put(store: Store, lines: list[twin.Line], folder: Path, corpus: str = "default") -> None:
    path = folder / f"{corpus}.txt"
    path.write_text("".join(" ||| ".join(line) + "\n" for line in lines))
    with PairFiles([str(path)]) as source:
        ingest(store, source, corpus)


def phrase(text: str) -> twin.Phrase:
    return tuple(text.lower().split())


def test_terms_match_the_definition(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hierogram.tools.terms.extraction._NESTED_SHARE", 2.0)
    monkeypatch.setattr(phrases, "_COMMON_SHARE", 1.0)
    monkeypatch.setattr("hierogram.storage.exports.snapshot.IDS_PER_BLOCK", 64)
    # Use a small table so that rare phrases collide.
    monkeypatch.setattr(extraction, "_TABLE_BITS", 6)
    lines = random_lines(400, 3)
    put(store, lines, tmp_path)
    found = extract_terms(store, ALL)
    counts = twin.count(lines, 3)
    expected = twin.usual(counts, 2, 1)
    assert found.pairs == len(lines)
    assert {phrase(term.source) for term in found.terms} == expected.keys()
    assert len(expected) > 50
    for term in found.terms:
        source, target = phrase(term.source), phrase(term.target)
        assert target in expected[source]
        assert (term.pairs, term.source_pairs, term.target_pairs) == (
            counts.both[source, target], counts.source[source], counts.target[target]
        )  # fmt: skip
        assert term.ratio == pytest.approx(
            twin.ratio(term.pairs, term.source_pairs, term.target_pairs, len(lines)), abs=0.01
        )
        reported = {phrase(rendering.text): rendering.pairs for rendering in term.renderings}
        assert reported.items() <= {t: n for (s, t), n in counts.both.items() if s == source}.items()
        assert (term.renderings[0].text, term.renderings[0].pairs) == (term.target, term.pairs)
    assert all(a.score >= b.score for a, b in pairwise(found.terms))


def test_departures_are_the_pairs_without_the_usual_rendering(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrases, "_COMMON_SHARE", 1.0)
    lines = random_lines(300, 5)
    put(store, lines, tmp_path)
    found = extract_terms(store, ALL, departures=1000)
    reported = Counter(departure.term for departure in found.departures)
    for term in found.terms:
        assert reported[term.source] == term.source_pairs - term.pairs
    kept = {(source, target) for source, target, _ in lines}
    assert all((departure.source, departure.target) in kept for departure in found.departures)
    few = extract_terms(store, ALL, departures=2)
    assert max(Counter(departure.term for departure in few.departures).values()) == 2


PETIT = [
    ("le petit déjeuner est prêt", "breakfast is ready", "1-0 2-0 3-1 4-2"),
    ("Petit Déjeuner à Paris", "Breakfast in Paris", "0-0 1-0 2-1 3-2"),
    ("un petit déjeuner à Paris", "a breakfast in Paris", "0-0 1-1 2-1 3-2 4-3"),
]
DEPARTING = [
    ("mon petit déjeuner", "my first meal", "0-0 1-1 2-2"),
    ("le petit déjeuner manque", "nothing was there", "0-0"),
    ("un petit enfant déjeuner petit déjeuner", "one small child lunches now then", "0-0 1-1 2-2 3-3 4-4 5-5"),
    ("petit déjeuner , bon", "the morning 's good meal", "0-1 1-4 3-3"),
]


def departing_renderings(found: TermReport, source: str) -> tuple[str, ...]:
    return tuple(departure.rendering for departure in found.departures if departure.term == source)


def test_a_term_reports_its_counts_corpora_and_departures(store: Store, tmp_path: Path) -> None:
    put(store, PETIT, tmp_path, "menus")
    put(store, DEPARTING, tmp_path, "notes")
    options = TermOptions(min_count=2, consistency=0.1)
    found = extract_terms(store, options, departures=9)
    [term] = [term for term in found.terms if term.source == "petit déjeuner"]
    assert (term.target, term.pairs, term.source_pairs, term.target_pairs) == ("breakfast", 3, 7, 3)
    assert term.corpora == {"menus": 3, "notes": 4}
    row = store.find_pair(1)
    assert row is not None
    assert term.first == term.last == row.added_at.date()
    assert departing_renderings(found, "petit déjeuner") == ("first meal", "", "now then", "morning … meal")
    departure = found.departures[0]
    assert (departure.pair, departure.corpus, departure.origin) == (4, "notes", str(tmp_path / "notes.txt"))
    assert (departure.source, departure.target, departure.usual) == ("mon petit déjeuner", "my first meal", "breakfast")
    # Extract the terms of one corpus only.
    alone = extract_terms(store, TermOptions(min_count=2, max_words=2, corpus="menus"))
    assert alone.pairs == 3
    assert {(term.source, term.source_pairs) for term in alone.terms} == {("petit déjeuner", 3), ("à Paris", 2)}


def test_terms_of_an_unknown_corpus_are_refused(store: Store, tmp_path: Path) -> None:
    put(store, PETIT, tmp_path, "menus")
    put(store, DEPARTING, tmp_path, "notes")
    with pytest.raises(InputError, match="the store has: menus, notes"):
        extract_terms(store, TermOptions(corpus="books"))


def test_a_phrase_nested_in_a_longer_term_is_dropped(store: Store, tmp_path: Path) -> None:
    put(store, [("pomme de terre", "big potato here", "0-0 1-1 2-2")] * 6, tmp_path)
    assert [term.source for term in extract_terms(store, TermOptions(min_words=1)).terms] == ["pomme de terre"]


def test_terms_do_not_start_or_end_with_common_words(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [(f"le mot{k}", f"the word{k}", "0-0 1-1") for k in range(60)] * 2
    put(store, [*lines, *[("chat noir", "black cat", "0-1 1-0")] * 6], tmp_path)
    options = TermOptions(min_count=2, min_words=1, top=1000)
    monkeypatch.setattr(phrases, "_COMMON_SHARE", 0.1)
    found = {term.source for term in extract_terms(store, options).terms}
    assert {"mot1", "chat noir"} <= found
    assert not any("le" in source.split() for source in found)
    monkeypatch.setattr(phrases, "_COMMON_SHARE", 1.0)
    assert "le mot1" in {term.source for term in extract_terms(store, options).terms}


def test_extraction_fails_for_stores_without_bilingual_links(store: Store, tmp_path: Path) -> None:
    with pytest.raises(NothingLearnedError):
        extract_terms(store, TermOptions())
    with (
        open_store(f"sqlite:///{tmp_path}/trees.db", create=True, settings=Settings(grammar="trees")) as trees,
        pytest.raises(WrongKindError, match="contains monolingual trees"),
    ):
        extract_terms(trees, TermOptions())
    put(store, [("un", "one", "0-0")], tmp_path)
    assert extract_terms(store, TermOptions(), departures=3).terms == ()
    with pytest.raises(OptionError, match="min_words: must be <= --max-words 4, got 5"):
        TermOptions(min_words=5)


def test_likelihood_ratio_matches_the_contingency_table() -> None:
    for table in ((5, 5, 5, 100), (3, 7, 9, 50), (1, 50, 50, 60), (4, 4, 10, 10)):
        [found] = likelihood_ratio(*(np.array([number]) for number in table[:3]), table[3])
        assert found == pytest.approx(twin.ratio(*table))


def test_hash_counter_is_exact_across_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "_MAX_PENDING", 64)
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 500, 20_000).astype(np.uint64)
    tally = HashCounter(1)
    for part in np.split(keys, 40):
        tally.add(part, np.ones(len(part), np.int64), part[:, None].astype(np.int64))
    hashes, counts, descriptions = tally.result()
    assert dict(zip(hashes.tolist(), counts[:, 0].tolist(), strict=True)) == Counter(keys.tolist())
    assert descriptions[:, 0].tolist() == hashes.tolist()
