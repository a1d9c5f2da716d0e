"""Matches of rule sides in a sentence, and selection of pairs that cover missing words."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as some

from hierogram.samplers.grammar.rules import parse_side, render_side
from hierogram.storage.browsing.similar_pairs import SimilarPair
from hierogram.tools.evidence.matching import MAX_MATCHES, MatchedSentence, Pattern, SideMatch, choose_pairs

WORDS = some.sampled_from(["a", "b", "[X,1]"])


def every_way(sentence: list[str], symbols: tuple[str | int, ...]) -> set[tuple[int, ...]]:
    """Return the positions of a side's words for each match in the sentence, by brute force."""
    starts = [0] if isinstance(symbols[0], int) else range(len(sentence))
    found = set()
    for start in starts:
        for lengths in product(range(1, len(sentence) + 1), repeat=sum(isinstance(s, int) for s in symbols)):
            remaining, at, words, fits = list(lengths), start, [], True
            for symbol in symbols:
                if isinstance(symbol, int):
                    at += remaining.pop(0)
                elif at < len(sentence) and sentence[at] == symbol:
                    words.append(at)
                    at += 1
                else:
                    fits = False
                    break
            ends = at == len(sentence) if isinstance(symbols[-1], int) else at <= len(sentence)
            if fits and ends:
                found.add(tuple(words))
    return found


@given(some.lists(WORDS, min_size=1, max_size=6), some.lists(some.sampled_from(["a", "b", 1]), min_size=1, max_size=4))
def test_matches_of_a_rule_side_equal_brute_force(sentence: list[str], shape: list[str | int]) -> None:
    gaps = iter(range(1, 9))
    symbols = tuple(next(gaps) if isinstance(symbol, int) else symbol for symbol in shape)
    found = MatchedSentence(sentence)
    pattern = found.pattern(render_side(symbols))
    if all(isinstance(symbol, int) for symbol in symbols) or not set(symbols) - set(range(9)) <= set(sentence):
        assert pattern is None
        return
    assert pattern is not None
    places = [tuple(place.covered) for place in found.matches(pattern)]
    expected = sorted(every_way(sentence, symbols))
    assert places == expected[:MAX_MATCHES]


def test_spans_of_words_and_gaps_are_found() -> None:
    sentence = MatchedSentence(["il", "ne", "le", "voit", "pas"])
    pattern = sentence.pattern("[X,1] ne [X,2] [X,3] pas")
    assert pattern is not None
    assert (pattern.length, pattern.is_contiguous) == (2, False)
    assert sentence.matches(pattern) == [SideMatch(((1, 2), (4, 5)), ((0, 1), (2, 4)))]
    short = MatchedSentence(["ne", "voit", "pas"])
    pattern = short.pattern("ne [X,1] [X,2] pas")
    assert pattern is not None
    assert short.matches(pattern) == []


def test_words_that_look_like_nonterminals_are_matched_as_words() -> None:
    sentence = MatchedSentence(["[X,1]", "\\a", "b"])
    pattern = sentence.pattern(render_side(("[X,1]", "\\a", 1)))
    assert pattern is not None
    assert sentence.matches(pattern) == [SideMatch(((0, 2),), ((2, 3),))]
    assert parse_side("\\[X,1]") == ("[X,1]",)


SENTENCE = ["il", "ne", "voit", "pas", "la", "maison", "verte"]
EVEN = dict.fromkeys(SENTENCE, 1.0)


def pairs(*sources: str) -> list[SimilarPair]:
    return [SimilarPair(number, "c", source, f"t {source}") for number, source in enumerate(sources, 1)]


def chosen(candidates: list[SimilarPair], limit: int = 5, patterns: tuple[Pattern, ...] = ()) -> list[str]:
    return [one.source for one in choose_pairs(SENTENCE, EVEN, patterns, candidates, limit)]


def test_pairs_that_add_the_most_missing_words_come_first() -> None:
    candidates = pairs("la maison verte brille", "la maison verte", "il ne dort pas", "la maison", "une rue")
    # The shortest pair with the same words of the sentence is chosen, and a pair without such words is omitted.
    assert chosen(candidates, 2) == ["la maison verte", "il ne dort pas"]
    assert "une rue" not in chosen(candidates, 9)
    assert len(chosen(candidates, 9)) == 4


def test_a_pair_is_selected_once_with_its_spans() -> None:
    found = choose_pairs(SENTENCE, EVEN, (), pairs("maison verte", "la maison", "la maison"), 5)
    assert [one.source for one in found[:2]] == ["la maison", "maison verte"]
    # Other pairs with the same texts are the same example.
    assert len(found) == 2
    assert found[0].covered_spans == ((4, 6),)
    assert (found[1].covered_spans, found[1].new_spans) == (((5, 7),), ((5, 7),))


def test_long_matches_are_one_span() -> None:
    [found] = choose_pairs(SENTENCE, EVEN, (), pairs("et il ne voit pas la maison verte"), 1)
    assert found.covered_spans == ((0, 7),)


def test_words_matched_by_rules_with_gaps_count_as_covered() -> None:
    pattern = MatchedSentence(SENTENCE).pattern("ne [X,1] pas")
    assert pattern is not None
    candidates = pairs("pas ne", "ne dort pas")
    assert chosen(candidates, 1) == ["pas ne"]
    assert chosen(candidates, 1, (pattern,)) == ["ne dort pas"]


def test_words_of_larger_weight_are_covered_first() -> None:
    candidates = pairs("il ne", "maison verte")
    heavy = {**EVEN, "verte": 5.0}
    assert [one.source for one in choose_pairs(SENTENCE, heavy, (), candidates, 1)] == ["maison verte"]
