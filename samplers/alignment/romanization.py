"""Romanization: Latin letters for letters of other scripts, from their Unicode names.

A name such as GREEK SMALL LETTER SIGMA contains a word that begins with the sound of the letter. For syllables, vowel
signs and kana, the whole word is the sound. Unicode never changes a name. Chinese characters have no such names and
remain unchanged.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain

_FIRST = "\u0370"
"""First letter of a script other than Latin. Later Latin letters have LATIN in their names."""
_NAME = re.compile(
    r"(?P<script>\S+) (?:\S+ )*?(?P<kind>LETTER|SYLLABLE|VOWEL SIGN|CHARACTER(?: SARA)?) "
    r"(?:(?:FINAL|SHORT|SMALL|FARSI|UKRAINIAN|BYELORUSSIAN-UKRAINIAN) )*(?P<sound>\S+)"
)
_WHOLE_SOUNDS = {"SYLLABLE", "VOWEL SIGN", "CHARACTER SARA", "HIRAGANA", "KATAKANA"}
"""Kinds and scripts of characters whose sound is a whole word of the name."""
_VOWEL_MARKS = {"VOWEL SIGN", "CHARACTER SARA"}
_WORDS = 1_000
"""Number of words at the start of a vocabulary that determine its script."""
_IRREGULAR = {
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


def find_script(words: Sequence[str]) -> str:
    """Return the script of most letters in the first words, such as CYRILLIC. LATIN if the words have no letters."""
    letters = Counter(chain.from_iterable(words[:_WORDS]))
    scripts = Counter[str]()
    for letter, number in letters.items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0]] += number
    return max(scripts, key=lambda script: (scripts[script], script), default="LATIN")


def romanize(word: str) -> str:
    """Return a word in Latin letters and digits, without tones and points. Chinese characters remain unchanged."""
    if max(word, default="") < _FIRST:
        return word
    # Keep a word without any sound, such as a soft sign alone, since words must not be empty.
    return "".join(map(_romanize, word)) or word


@cache
def _romanize(character: str) -> str:
    name, category = unicodedata.name(character, ""), unicodedata.category(character)
    is_latin = "LATIN" in name or name.startswith(("COMBINING", "MODIFIER", "VARIATION"))
    if character < _FIRST or is_latin or not (character.isdecimal() or category[0] in "LM"):
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    found = _NAME.match(name)
    if category[0] == "M" and (found is None or found["kind"] not in _VOWEL_MARKS):
        # Drop marks such as tones and points, since transcriptions omit them.
        return ""
    if found is None:
        return character
    sound = _IRREGULAR.get(f"{found['script']} {found['sound']}")
    if sound is None and not _WHOLE_SOUNDS.isdisjoint((found["script"], found["kind"])):
        # Shorten long vowels, which names spell with two letters, such as AA.
        sound = re.sub(r"(.)\1", r"\1", found["sound"]).lower()
    elif sound is None:
        # A letter's name begins with its sound: SIGMA is s, KHA is kh, ALPHA is a.
        sound = (re.match("[BCDFGHJKLMNPQRSTVWXYZ]+|.", found["sound"]) or found)[0].lower()
    return sound.capitalize() if character.isupper() else sound
