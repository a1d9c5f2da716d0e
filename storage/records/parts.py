"""Parts of words in stored text.

`￭` marks a part on the side where its word continues. Byte pair encoding marks each part except the first: `a ￭b`. A
compound marks each part except the last, so that its head is written like the word itself: `haus￭ tür`. The head also
has the case of the compound: `haus￭ Tür` is *Haustür*.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

PART_MARK = "￭"
GUARD = "￬"
"""Escape before a mark that is part of the word itself."""


def is_modifier(token: str) -> bool:
    """Check if a token is a marked part of a compound before its head, such as `haus￭`."""
    return token.endswith(PART_MARK) and token[:-1].isalpha()


def is_part(token: str) -> bool:
    """Check if a token is marked as a part of a word, on either side."""
    return token.startswith(PART_MARK) or is_modifier(token)


def are_joined(before: str, token: str) -> bool:
    """Check if a token belongs to the same word as the token `before` it."""
    return token.startswith(PART_MARK) or (is_modifier(before) and token[:1].isalpha())


def join_parts(tokens: str) -> str:
    """Return a line of tokens with the parts of words joined. Removes marks without a part to join."""
    if PART_MARK not in tokens:
        return tokens
    if f"{PART_MARK} " in tokens or tokens.endswith(PART_MARK):
        tokens = _join_compounds(tokens.split(" "))
    return tokens.removeprefix(PART_MARK).replace(f" {PART_MARK}", "").replace(GUARD + PART_MARK, PART_MARK)


def _join_compounds(tokens: Sequence[str]) -> str:
    words, modifiers = list[str](), ""
    for token in tokens:
        if is_modifier(token):
            modifiers += token[:-1]
        elif modifiers and token[:1].isalpha():
            words.append(_compound(modifiers, token))
            modifiers = ""
        else:
            words += [modifiers, token] if modifiers else [token]
            modifiers = ""
    return " ".join([*words, modifiers] if modifiers else words)


def _compound(modifiers: str, head: str) -> str:
    """Join a compound's modifiers and head. The word is capitalized if the head is capitalized."""
    lower = head.lower()
    if head == lower or head != lower[:1].upper() + lower[1:]:
        return modifiers + head
    return modifiers[:1].upper() + modifiers[1:] + lower


def index_words(tokens: Sequence[str]) -> list[int]:
    """Return the index, from 0, of the word of each token of a line, followed by the number of words."""
    starts = [int(not are_joined(*pair)) for pair in pairwise(tokens)]
    return [*accumulate(starts, initial=0), sum(starts) + 1] if tokens else [0]
