"""Vocabularies compared with dictionaries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hierogram.samplers.language_models.vocabulary import SPECIAL, GrowingVocabulary

texts = st.text(st.characters(codec="utf-8"), max_size=6)


@settings(deadline=None)
@given(st.lists(texts, max_size=40), st.lists(texts, max_size=40))
def test_words_are_numbered_in_order_of_appearance(words: list[str], others: list[str]) -> None:
    growing = GrowingVocabulary()
    expected = {word: k for k, word in enumerate(SPECIAL)}
    for word in words:
        expected.setdefault(word, len(expected))
    assert growing.add(words) == [expected[word] for word in words]
    vocabulary = growing.finish()
    assert len(vocabulary) == len(growing) == len(expected)
    assert vocabulary.numbers(words + others).tolist() == [expected.get(word, 0) for word in words + others]
    assert [vocabulary.word(number) for number in expected.values()] == list(expected)


def test_a_growing_vocabulary_keeps_all_words_and_numbers() -> None:
    growing = GrowingVocabulary()
    words = [f"wort{k}" * (k % 7) for k in range(30_000)] + ["x" * 100_000]
    numbers = growing.add(words)
    vocabulary = growing.finish()
    assert vocabulary.numbers(words).tolist() == numbers
    assert [vocabulary.word(number) for number in numbers] == words


def test_invalid_utf_8_is_preserved() -> None:
    growing = GrowingVocabulary()
    (number,) = growing.add([b"\xff\xfe".decode("utf-8", "surrogateescape")])
    assert growing.finish().word(number).encode("utf-8", "surrogateescape") == b"\xff\xfe"
