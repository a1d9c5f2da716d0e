"""Where sides match a sentence, compared with every way to put them there."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as some

from hierogram.daemon.evidence.matching import MOST_PLACES, Place, Sentence
from hierogram.samplers.grammar.rules import parse_side, render_side

WORDS = some.sampled_from(["a", "b", "[X,1]"])


def every_way(sentence: list[str], symbols: tuple[str | int, ...]) -> set[tuple[int, ...]]:
    """The positions of a side's words, in all ways in which it covers the sentence or a part between its ends."""
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
def test_places_are_all_ways(sentence: list[str], shape: list[str | int]) -> None:
    gaps = iter(range(1, 9))
    symbols = tuple(next(gaps) if isinstance(symbol, int) else symbol for symbol in shape)
    found = Sentence(sentence)
    pattern = found.pattern(render_side(symbols))
    if all(isinstance(symbol, int) for symbol in symbols) or not set(symbols) - set(range(9)) <= set(sentence):
        assert pattern is None
        return
    assert pattern is not None
    places = [tuple(place.covered) for place in found.places(pattern)]
    expected = sorted(every_way(sentence, symbols))
    assert places == expected[:MOST_PLACES]


def test_spans_of_words_and_gaps() -> None:
    sentence = Sentence(["il", "ne", "le", "voit", "pas"])
    pattern = sentence.pattern("[X,1] ne [X,2] [X,3] pas")
    assert pattern is not None
    assert (pattern.length, pattern.plain) == (2, False)
    assert sentence.places(pattern) == [Place(((1, 2), (4, 5)), ((0, 1), (2, 4)))]
    short = Sentence(["ne", "voit", "pas"])
    pattern = short.pattern("ne [X,1] [X,2] pas")
    assert pattern is not None
    assert short.places(pattern) == []


def test_words_that_look_like_nonterminals() -> None:
    sentence = Sentence(["[X,1]", "\\a", "b"])
    pattern = sentence.pattern(render_side(("[X,1]", "\\a", 1)))
    assert pattern is not None
    assert sentence.places(pattern) == [Place(((0, 2),), ((2, 3),))]
    assert parse_side("\\[X,1]") == ("[X,1]",)
