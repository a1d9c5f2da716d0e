"""Numbers of the phrase pairs of a batch, compared with the definition."""

from random import Random

import pytest
from tests.samplers.itg.corpora import Pairs, to_batch

from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.itg import batch as batches
from hierogram.samplers.itg.batch import phrase_offset


def random_pairs(random: Random) -> Pairs:
    def side() -> tuple[int, ...]:
        return tuple(random.randrange(3) for _ in range(random.randrange(6)))

    return tuple((side(), side()) for _ in range(5))


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_phrase_pairs_are_numbered_by_their_words(longest: int) -> None:
    """Equal phrase pairs have the same number at all positions, different phrase pairs different numbers."""
    pairs = random_pairs(Random(longest))
    batch = to_batch(pairs, longest)
    phrases = batch.phrases
    assert phrases.longest == longest
    places = longest**2 - 1
    assert len(phrases.types) == len(batch.types) * places
    numbers: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    cell = 0
    for source, target in pairs:
        for i in range(len(source)):
            for x in range(len(target)):
                for s in range(1, longest + 1):
                    for t in range(1, longest + 1):
                        if s == t == 1:
                            continue
                        number = int(phrases.types[cell * places + phrase_offset(longest, s, t) - 1])
                        if i + s > len(source) or x + t > len(target):
                            assert number == -1
                            continue
                        words = source[i : i + s], target[x : x + t]
                        assert numbers.setdefault(words, number) == number
                        at = number - len(batch.type_source)
                        f, e, of_cell, step = phrases.first[at].tolist()
                        assert phrases.sizes[at].tolist() == [s, t]
                        assert (tuple(batch.source[f : f + s]), tuple(batch.target[e : e + t])) == words
                        # The word pairs inside a phrase pair are found from its first cell.
                        for k in range(s):
                            for z in range(t):
                                of_type = batch.types[of_cell + k * step + z]
                                pair = int(batch.type_source[of_type]), int(batch.type_target[of_type])
                                assert pair == (words[0][k], words[1][z])
                cell += 1
    assert sorted(numbers.values()) == list(range(len(batch.type_source), batch.emitted_types))


def test_too_many_words_for_phrases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MAX_NUMBERS", 3)
    pairs: Pairs = (((0, 1), (0,)), ((0,), (1,)))
    to_batch(pairs, 1)
    with pytest.raises(AlignmentInputError, match="3 words on the source side, the limit for phrase pairs is 2"):
        to_batch(pairs, 2)
