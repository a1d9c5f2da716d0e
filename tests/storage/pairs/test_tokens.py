"""Counts of tokens equal a token-by-token count."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, find_grammar_kind
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.pairs.vocabulary import count_pair_words

TOKENS = st.text(st.sampled_from("aä名𝔸\u00a0\0\n"), max_size=10)


@given(st.lists(st.lists(TOKENS, max_size=6).map(" ".join), max_size=5))
def test_token_counts_equal_a_counter(texts: list[str]) -> None:
    counts = Counter(token for text in texts for token in text.split(" ") if token)
    assert count_pair_words(find_grammar_kind(SYNCHRONOUS), texts, []) == {SOURCE: counts, TARGET: {}}
