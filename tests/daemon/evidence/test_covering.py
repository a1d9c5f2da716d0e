"""Pairs are chosen for what is not covered yet."""

from hierogram.daemon.evidence.covering import choose
from hierogram.daemon.evidence.matching import Pattern, Sentence
from hierogram.storage.browsing.likeness import LikePair

SENTENCE = ["il", "ne", "voit", "pas", "la", "maison", "verte"]
EVEN = dict.fromkeys(SENTENCE, 1.0)


def pairs(*sources: str) -> list[LikePair]:
    return [LikePair(number, "c", "tsv", source, f"t {source}") for number, source in enumerate(sources, 1)]


def chosen(candidates: list[LikePair], limit: int = 5, patterns: tuple[Pattern, ...] = ()) -> list[str]:
    return [one.pair.source for one in choose(SENTENCE, EVEN, patterns, candidates, limit)]


def test_each_next_pair_adds_what_is_missing() -> None:
    candidates = pairs("la maison verte brille", "la maison verte", "il ne dort pas", "la maison", "une rue")
    # Of the two that cover the same, the shorter one; nothing that covers nothing.
    assert chosen(candidates, 2) == ["la maison verte", "il ne dort pas"]
    assert "une rue" not in chosen(candidates, 9)
    assert len(chosen(candidates, 9)) == 4


def test_a_pair_is_taken_once_and_spans_are_told() -> None:
    found = choose(SENTENCE, EVEN, (), pairs("maison verte", "la maison", "la maison"), 5)
    assert [one.pair.source for one in found[:2]] == ["la maison", "maison verte"]
    # Other pairs with the same texts are one and the same example.
    assert len(found) == 2
    assert found[0].covers == ((4, 6),)
    assert (found[1].covers, found[1].fresh) == (((5, 7),), ((5, 7),))


def test_long_matches_are_one_span() -> None:
    [found] = choose(SENTENCE, EVEN, (), pairs("et il ne voit pas la maison verte"), 1)
    assert found.covers == ((0, 7),)


def test_rules_with_gaps_count() -> None:
    pattern = Sentence(SENTENCE).pattern("ne [X,1] pas")
    assert pattern is not None
    candidates = pairs("pas ne", "ne dort pas")
    assert chosen(candidates, 1) == ["pas ne"]
    assert chosen(candidates, 1, (pattern,)) == ["ne dort pas"]


def test_weights_decide() -> None:
    candidates = pairs("il ne", "maison verte")
    heavy = {**EVEN, "verte": 5.0}
    assert [one.pair.source for one in choose(SENTENCE, heavy, (), candidates, 1)] == ["maison verte"]
