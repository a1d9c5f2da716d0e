"""Counts of tokens equal a token-by-token count."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierogram.storage.pairs.vocabulary import count_tokens

TOKENS = st.text(st.sampled_from("aä名𝔸\u00a0\0\n"), max_size=10)


@given(st.lists(st.lists(TOKENS, max_size=6).map(" ".join), max_size=5))
def test_token_counts_equal_a_counter(texts: list[str]) -> None:
    counts = Counter(token for text in texts for token in text.split(" ") if token)
    assert count_tokens(texts) == counts


@pytest.mark.parametrize("length", range(1, 20))
def test_tokens_of_any_length_at_any_position_are_counted(length: int) -> None:
    word = "abcdefghijklmnopqrstuvwxyz"[:length]
    for before in range(17):
        assert count_tokens(["." * before, word, word]) == Counter({"." * before: 1} if before else {}) + Counter(
            {word: 2}
        )
