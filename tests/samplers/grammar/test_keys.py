"""Rule keys from word hashes equal keys computed from the rules themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.keys import hash_words, lexical_keys, rule_key
from hierogram.samplers.grammar.rules import Rule

WORDS = st.one_of(st.none(), st.text(min_size=1, max_size=4).filter(lambda word: not word.isspace()))


@given(st.lists(st.tuples(WORDS, WORDS), max_size=5), st.integers(0, 9))
def test_a_key_from_word_hashes_equals_the_rule_s_key(sides: list[tuple[str | None, str | None]], salt: int) -> None:
    def hashes(side: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        words = [pair[side] for pair in sides]
        return np.array([0 if word is None else hash_words([word], salt)[0] for word in words], np.uint64)

    found = lexical_keys(hashes(0), hashes(1))
    expected = [rule_key(Rule(() if f is None else (f,), () if e is None else (e,)), salt) for f, e in sides]
    assert [tuple(key) for key in found.tolist()] == expected


def test_keys_masked_to_two_bits_equal_the_rule_s_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0x3))
    words = [f"w{number}" for number in range(40)]
    found = lexical_keys(hash_words(words, 1), np.zeros(40, np.uint64))
    assert [tuple(key) for key in found.tolist()] == [rule_key(Rule((word,), ()), 1) for word in words]
    assert (0, 1) in {tuple(key) for key in found.tolist()}
