"""Order of rules: by text, then by key."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hierogram.samplers.counts.texts import select_texts, text_order
from hierogram.samplers.grammar.columns import join_texts

SIDES = st.lists(
    st.tuples(st.text("ab \x01語é", max_size=20), st.integers(-2, 2), st.integers(-2, 2)),
    max_size=60,
)


@settings(deadline=None)
@given(SIDES)
def test_texts_are_ordered_as_in_python_then_by_key(rules: list[tuple[str, int, int]]) -> None:
    texts = join_texts([text for text, _, _ in rules])
    keys = np.array([key for _, *key in rules], np.int64).reshape(-1, 2).view(np.uint64)
    order = text_order(texts, keys)
    assert sorted(order.tolist()) == list(range(len(rules)))
    assert [rules[row] for row in order] == sorted(rules)
    assert select_texts(texts, order).strings() == sorted(text for text, _, _ in rules)


def test_texts_that_differ_after_their_first_bytes_are_ordered() -> None:
    words = [f"[X,1] the same beginning {number % 7} {number % 5}" for number in range(500)]
    keys = np.zeros((500, 2), np.uint64)
    keys[:, 1] = np.random.default_rng(1).permutation(500)
    order = text_order(join_texts(words), keys)
    assert [(words[row], keys[row, 1]) for row in order] == sorted(zip(words, keys[:, 1], strict=True))
