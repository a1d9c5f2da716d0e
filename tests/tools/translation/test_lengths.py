"""Length fitting: the word weight is searched for each sentence."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hierogram.storage.records import PART_MARK
from hierogram.tools.translation.grammars import TextLengths
from hierogram.tools.translation.lengths import HIGHEST, STEP, LengthFitter, mark_words

WORDS, LETTERS = 20, 5


@dataclass
class Decoders:
    """Stand-ins for decoders: lengths by the added weight, the requested weights, and the selected one."""

    length: Any
    asked: list[float] = field(default_factory=list)
    taken: list[float] = field(default_factory=list)

    def __call__(self, more: float, narrower: int) -> Any:
        def decode(_sentence: Any, best: int = 1, *, distinct: bool = False) -> Any:
            if narrower > 1:
                self.asked.append(more)
            else:
                self.taken.append(more)
            words = self.length(more)
            outputs = SimpleNamespace(word_start=np.array([0, words]), words=np.arange(words) % 2)
            return SimpleNamespace(outputs=outputs, best=best, distinct=distinct)

        return SimpleNamespace(decode=decode)


def _decoded(decoders: Decoders, ratio: float) -> int:
    sentence = cast(Any, SimpleNamespace(words=np.zeros(WORDS, np.int32)))
    fitter = LengthFitter(decoders, ["a" * LETTERS], TextLengths(ratio, LETTERS))
    found = fitter.decode(sentence, ["b" * LETTERS] * WORDS, ["c" * LETTERS], 3, distinct=True)
    assert (found.best, found.distinct) == (3, True)
    assert len(decoders.taken) == 1
    assert decoders.taken[0] in decoders.asked
    return int(found.outputs.word_start[1])


def test_a_translation_that_is_long_enough_is_kept() -> None:
    decoders = Decoders(lambda more: 20)
    assert _decoded(decoders, 1.05) == 20
    assert decoders.asked == [0.0]


def test_a_translation_that_is_too_long_is_kept() -> None:
    decoders = Decoders(lambda more: round(20 * np.exp(more)))
    assert _decoded(decoders, 0.5) == 20
    assert decoders.asked == [0.0]


@pytest.mark.parametrize("ratio", [1.1, 1.2, 1.5, 1.9])
def test_the_length_that_is_wanted_is_found(ratio: float) -> None:
    decoders = Decoders(lambda more: round(20 * np.exp(more)))
    assert abs(_decoded(decoders, ratio) - ratio * WORDS) <= max(1, 0.1 * ratio * WORDS)
    assert len(decoders.asked) <= 6


def test_the_nearest_length_is_used_if_none_is_close_enough() -> None:
    decoders = Decoders(lambda more: 10 if more < 0.3 else 41)
    assert _decoded(decoders, 1.2) == 10
    assert _decoded(Decoders(lambda more: 10 if more < 0.3 else 41), 1.4) == 41


def test_weights_stay_within_bounds() -> None:
    decoders = Decoders(lambda more: 1)
    assert _decoded(decoders, 1.0) == 1
    assert decoders.asked[-1] == STEP * HIGHEST
    assert all(0 <= more <= HIGHEST * STEP for more in decoders.asked)


def test_lengths_of_short_words_depend_on_their_number() -> None:
    # Two letters each, where words have five: twenty of them are as long as fourteen usual words.
    decoders = Decoders(lambda more: round(20 * np.exp(more)))
    fitter = LengthFitter(decoders, ["ab"], TextLengths(0.7, LETTERS))
    sentence = cast(Any, SimpleNamespace(words=np.zeros(WORDS, np.int32)))
    fitter.decode(sentence, ["b" * LETTERS] * WORDS, ["cd"])
    assert decoders.asked == [0.0]


def test_subwords_do_not_count_as_words() -> None:
    assert mark_words(["a", f"{PART_MARK}b", "c"]).tolist() == [1, 0, 1]
    fitter = LengthFitter(Decoders(lambda more: 20), ["abc", f"{PART_MARK}d"], TextLengths(1.0, 4.0))
    assert fitter._known.tolist() == [3.5, 0.5]
