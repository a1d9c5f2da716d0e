"""Orthographic similarity: names, numbers and cognates are likely translations of each other.

The similarity of two words is 1 for the same spelling, the squared share of the common prefix if both words and the
prefix are long enough, otherwise 0. The prior of a co-occurring word pair is proportional to its similarity.

Words of different scripts are compared in Latin letters, taken from Unicode names, which never change. A name such as
GREEK SMALL LETTER SIGMA contains a word that begins with the sound of the letter. For syllables, vowel signs and kana,
the whole word is the sound. Chinese characters have no such names and remain unchanged.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Direction
from hierogram.samplers.alignment.counts import (
    SHIFT,
    WordPairs,
    assign_row,
    empty_pairs,
    find_pair,
    has_room,
    larger_pairs,
    pair_key,
)
from hierogram.samplers.compiled.jit import njit, njit_inline

_FIRST_NOT_LATIN = "\u0370"
"""First letter of a script other than Latin. Latin letters after it have LATIN in their names."""
_NAME = re.compile(
    r"(?P<script>\S+) (?:\S+ )*?(?P<kind>LETTER|SYLLABLE|VOWEL SIGN|CHARACTER(?: SARA)?) "
    r"(?:(?:FINAL|SHORT|SMALL|FARSI|UKRAINIAN|BYELORUSSIAN-UKRAINIAN) )*(?P<sound>\S+)"
)
_WHOLE_SOUNDS = {"SYLLABLE", "VOWEL SIGN", "CHARACTER SARA", "HIRAGANA", "KATAKANA"}
"""Kinds and scripts of characters whose sound is a whole word of the name."""
_VOWEL_MARKS = {"VOWEL SIGN", "CHARACTER SARA"}
_SCRIPT_WORDS = 1_000
"""Number of words at the start of a vocabulary that determine its script."""
_IRREGULAR_SOUNDS = {
    "GREEK RHO": "r",
    "CYRILLIC GHE": "g",
    "CYRILLIC IE": "e",
    "CYRILLIC IO": "yo",
    "CYRILLIC EF": "f",
    "CYRILLIC EL": "l",
    "CYRILLIC EM": "m",
    "CYRILLIC EN": "n",
    "CYRILLIC ER": "r",
    "CYRILLIC ES": "s",
    "CYRILLIC YU": "yu",
    "CYRILLIC YA": "ya",
    "CYRILLIC SOFT": "",
    "CYRILLIC HARD": "",
}
"""Sounds of letters that differ from the beginning of their names, by script and name."""


def find_script(words: Sequence[str]) -> str:
    """Return the most frequent script of the letters in the first words, such as LATIN, the default."""
    letters = Counter(chain.from_iterable(words[:_SCRIPT_WORDS]))
    scripts = Counter[str]()
    for letter, number in letters.items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0]] += number
    return max(scripts, key=lambda script: (scripts[script], script), default="LATIN")


def romanize(word: str) -> str:
    """Romanize letters and digits of other scripts, dropping marks. Chinese characters are unchanged."""
    if max(word, default="") < _FIRST_NOT_LATIN:
        return word
    # Keep a word without any sound, such as a soft sign alone, since words must not be empty.
    return "".join(map(_romanize, word)) or word


@cache
def _romanize(character: str) -> str:
    name, category = unicodedata.name(character, ""), unicodedata.category(character)
    is_latin = "LATIN" in name or name.startswith(("COMBINING", "MODIFIER", "VARIATION"))
    if character < _FIRST_NOT_LATIN or is_latin or not (character.isdecimal() or category[0] in "LM"):
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    found = _NAME.match(name)
    if category[0] == "M" and (found is None or found["kind"] not in _VOWEL_MARKS):
        # Drop marks such as tones and points, since transcriptions omit them.
        return ""
    if found is None:
        return character
    sound = _IRREGULAR_SOUNDS.get(f"{found['script']} {found['sound']}")
    if sound is None and not _WHOLE_SOUNDS.isdisjoint((found["script"], found["kind"])):
        # Shorten long vowels, which names spell with two letters, such as AA.
        sound = re.sub(r"(.)\1", r"\1", found["sound"]).lower()
    elif sound is None:
        # A letter's name begins with its sound: SIGMA is s, KHA is kh, ALPHA is a.
        sound = (re.match("[BCDFGHJKLMNPQRSTVWXYZ]+|.", found["sound"]) or found)[0].lower()
    return sound.capitalize() if character.isupper() else sound


_MIN_LENGTH, _MIN_COMMON_LETTERS = 4, 3
"""Minimum length of similar words that are not equal, and minimum length of their common prefix."""


class Spellings(NamedTuple):
    """Spellings of a vocabulary. Word k has the code points `code[offset[k] : offset[k + 1]]`."""

    code: NDArray[np.int32]
    offset: NDArray[np.int64]


@lru_cache(maxsize=4)
def spell(vocabulary: tuple[str, ...], other_vocabulary: tuple[str, ...]) -> Spellings:
    """Return the spellings of a vocabulary, romanized if the other vocabulary has another script."""
    # Romanize only if scripts differ, because a letter that becomes two, such as sh, would count twice.
    is_foreign = find_script(vocabulary) != find_script(other_vocabulary)
    spellings = list(map(romanize, vocabulary)) if is_foreign else vocabulary
    offset = np.zeros(len(vocabulary) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, spellings), np.int64, len(spellings)), out=offset[1:])
    return Spellings(np.frombuffer("".join(spellings).encode("utf-32-le", "surrogatepass"), np.int32), offset)


@njit_inline
def _similarity(spellings, word, other_spellings, other_word):
    start, other_start = spellings.offset[word], other_spellings.offset[other_word]
    length, other_length = spellings.offset[word + 1] - start, other_spellings.offset[other_word + 1] - other_start
    shorter = min(length, other_length)
    common = 0
    while common < shorter and spellings.code[start + common] == other_spellings.code[other_start + common]:
        common += 1
    if common == length and common == other_length:
        return 1.0
    if common < _MIN_COMMON_LETTERS or shorter < _MIN_LENGTH:
        return 0.0
    share = common / max(length, other_length)
    return share * share


@njit
def _similarities(one, words, other, other_words, values):
    for k in range(len(words)):
        if one.code[one.offset[words[k]]] == other.code[other.offset[other_words[k]]]:
            values[k] = _similarity(one, np.int64(words[k]), other, np.int64(other_words[k]))


def similarities(
    words: NDArray[np.int32], vocabulary: tuple[str, ...], others: NDArray[np.int32], other_vocabulary: tuple[str, ...]
) -> NDArray[np.float64]:
    """Return the similarity of each word to the other word at the same index, float64[N]."""
    values = np.zeros(len(words))
    both = vocabulary, other_vocabulary
    _similarities(spell(*both), words, spell(*both[::-1]), others, values)
    return values


@njit
def _add_similar(first, bitext, emitted, others, strength, pairs, totals):
    """Add similar word pairs from `first` on. Returns the pair that lacks room, or the number of pairs."""
    for pair in range(first, len(bitext.emitted_offset) - 1):
        j_start, j_stop = bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]
        i_start, i_stop = bitext.conditioning_offset[pair], bitext.conditioning_offset[pair + 1]
        for j in range(j_start, j_stop):
            # The caller enlarges the table and repeats this sentence pair. Word pairs that have a row remain unchanged.
            if not has_room(pairs, i_stop - i_start):
                return pair
            f = np.int64(bitext.emitted[j])
            f_first = emitted.code[emitted.offset[f]]
            for i in range(i_start, i_stop):
                e = np.int64(bitext.conditioning[i])
                if others.code[others.offset[e]] != f_first:
                    continue
                alike = _similarity(emitted, f, others, e)
                if alike > 0.0:
                    key = pair_key(e, f)
                    row = find_pair(pairs.rows, pairs.registers[SHIFT], key)
                    if pairs.rows[row]["key"] != key:
                        assign_row(pairs, row, key)
                        pairs.rows[row]["prior"] = strength * alike
                        totals[e]["prior"] += np.float64(pairs.rows[row]["prior"])
    return len(bitext.emitted_offset) - 1


def make_similarity_prior(direction: Direction, strength: float, totals: NDArray[np.void]) -> WordPairs:
    """Return similar co-occurring word pairs with priors, which are also added to `totals` in place."""
    bitext, pairs = direction.bitext, empty_pairs()
    both = direction.emitted.vocabulary, direction.conditioning.vocabulary
    emitted, others = spell(*both), spell(*both[::-1])
    position = 0
    while (position := _add_similar(position, bitext, emitted, others, strength, pairs, totals)) < bitext.pairs:
        pairs = larger_pairs(pairs, bitext.longest_conditioning)
    return pairs
