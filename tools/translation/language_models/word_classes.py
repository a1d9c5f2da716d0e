"""Classes of words: learned from text, or read from a file of words and classes, as `Settings.classes` has them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.lines import read_sentences
from hierogram.samplers.grammar.numbers import MOST_CLASSES
from hierogram.samplers.language_models.classes import word_classes


class NumberedWords(NamedTuple):
    """Words of lines: each word's number, and the numbers of line after line, int32[words], int64[lines + 1]."""

    numbers: dict[str, int]
    words: NDArray[np.int32]
    offsets: NDArray[np.int64]


def number_words(lines: Iterable[str]) -> NumberedWords:
    """Number the words of lines of tokens, in the order in which they come."""
    numbers: dict[str, int] = {}
    words: list[int] = []
    offsets = [0]
    for line in lines:
        words += [numbers.setdefault(word, len(numbers)) for word in line.split()]
        offsets.append(len(words))
    return NumberedWords(numbers, np.array(words, np.int32), np.array(offsets, np.int64))


def learn_classes(lines: Iterable[str], different: int) -> tuple[str, ...]:
    """Return the words of the classes from 1 on, learned from lines of tokens; class 0 has most words, and new ones."""
    numbers, words, offsets = number_words(lines)
    return _in_classes(zip(numbers, word_classes(words, offsets, different).tolist(), strict=True), different)


def classes_of_file(path: str | Path, different: int, tokens: Callable[[str], str]) -> tuple[str, ...]:
    """Return the classes of a file of words and their classes, from 0 on and separated by tabs; of another file, learn
    that many from its lines, each of which `tokens` divides into words. Raises `UsageError` and `InputError`.
    """
    lines = read_sentences(str(path))
    fields = [line.split("\t") for line in lines]
    if lines and all(len(pair) == 2 and pair[1].isdecimal() for pair in fields):
        given = [(word, int(number)) for word, number in fields]
        most = max(number for _, number in given) + 1
        if most > MOST_CLASSES:
            raise UsageError(f"{path}: has the class {most - 1}; classes are 0 to {MOST_CLASSES - 1}")
        return _in_classes(given, max(most, different))
    if different < 2:
        raise UsageError(f"{path}: how many classes are to be learned from it? Set labels, 2 to {MOST_CLASSES}")
    return learn_classes(map(tokens, lines), different)


def _in_classes(given: Iterable[tuple[str, int]], different: int) -> tuple[str, ...]:
    classes: list[list[str]] = [[] for _ in range(different)]
    for word, number in given:
        classes[number].append(word)
    return tuple(" ".join(sorted(own)) for own in classes[1:])
