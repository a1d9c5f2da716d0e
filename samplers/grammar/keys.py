"""Hashes of words, and keys and packed sizes of rules.

A rule's key has 128 bits: two words, `high` from the hash of the source side, and `low` from both. A key computed from
a rule's text equals the key that kernels compute incrementally. A word's hash depends only on its spelling and the
store's salt, so that stores with the same salt have the same keys on every machine.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.rules import Rule, Side

BASE = np.uint64(0xD1342543DE82EF95)
"""Base of a rule side's hash: a polynomial modulo 2^64 with the symbols' hashes as coefficients."""
SOURCE_NONTERMINAL = np.uint64(0x8EBC6AF09C88C6E3)
"""Hash of any unlabeled nonterminal on the source side."""
TARGET_NONTERMINAL = np.uint64(0x589965CC75374CC3)
TARGET_STEP = np.uint64(0xA0761D6478BD642F)
"""Hash step: target nonterminal k has the hash TARGET_NONTERMINAL + (k - 1) * TARGET_STEP."""
OPEN = np.uint64(0x1D8E4E27C47D124F)
CLOSE = np.uint64(0xEB44ACCAB455D165)
LABEL = np.uint64(0x9FB21C651E98DF25)
"""Hash step: an expansion of label l in a fragment is between OPEN + l * LABEL and CLOSE.

The hash of a frontier nonterminal is SOURCE_NONTERMINAL + l * LABEL.
"""

_WORD = (1 << 64) - 1

ALL_BITS = np.uint64(_WORD)
"""Mask of full keys. Tests narrow it to make keys collide."""


def numbering() -> defaultdict[str, int]:
    """Return an empty dictionary that numbers words from 0: looking up a new word adds it."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def hash_words(words: Iterable[str], salt: int) -> NDArray[np.uint64]:
    """Return the hash of each word, uint64[n]. `salt` is an integer in [0, 2^64)."""
    salted = salt.to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8, salt=salted).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _mix(x: Any) -> Any:
    """Apply the finalizer of splitmix64 to an integer below 2^64 or an array uint64[n]."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _WORD
    return x ^ x >> 31


def _polynomial(side: Side, nonterminal: int, step: int, salt: int) -> int:
    value = 0
    for symbol in side:
        if isinstance(symbol, int):
            code = nonterminal + (symbol - 1) * step
        else:
            digest = hashlib.blake2b(symbol.encode(), digest_size=8, salt=salt.to_bytes(8, "little")).digest()
            code = int.from_bytes(digest, "little")
        value = (value * int(BASE) + code) & _WORD
    return value


def rule_key(rule: Rule, salt: int) -> tuple[int, int]:
    """Return the key (high, low) of a phrase rule: two unsigned 64-bit integers, never both 0."""
    high = _mix(_polynomial(rule.source, int(SOURCE_NONTERMINAL), 0, salt))
    low = _mix((_polynomial(rule.target, int(TARGET_NONTERMINAL), int(TARGET_STEP), salt) + high) & _WORD)
    mask = int(ALL_BITS)
    high, low = high & mask, low & mask
    return (high, low) if high or low else (0, 1)


def lexical_hashes(words: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes uint64[n] of sides of word numbers int64[n, L], padded with -1, given hashes by word."""
    values = np.zeros(len(words), np.uint64)
    for column in words.T:
        filled = np.flatnonzero(column >= 0)
        values[filled] = values[filled] * BASE + hashes[column[filled]]
    return values


def lexical_keys(source: NDArray[np.uint64], target: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the keys uint64[n, 2] of rules without nonterminals, given `lexical_hashes` of both sides."""
    high = _mix(source)
    keys = np.stack((high, _mix(target + high)), axis=1) & ALL_BITS
    keys[~keys.any(axis=1), 1] = 1
    return keys


def fragment_key(label: str, fragment: str, salt: int) -> tuple[int, int]:
    """Return the key (high, low) of a tree fragment, given its root label and bracket notation."""
    return rule_key(Rule((label,), tuple(fragment.split(" "))), salt)


def signed(word: int) -> int:
    """Convert an unsigned 64-bit integer to the signed integer with the same bits, which databases store."""
    return word - (1 << 64) if word >> 63 else word


class Matches(NamedTuple):
    """Rows `ours[k]` and `theirs[k]` with equal keys in two lists, and all other rows of each list."""

    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    only_ours: NDArray[np.int64]
    only_theirs: NDArray[np.int64]


def first_rows_by_key(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return, for each row of `keys` uint64[n, 2], the index of the first row with the same key, int64[n]."""
    high, low = np.ascontiguousarray(keys.T)
    order = np.argsort(high)
    begins = _begins(high[order])
    # Sort by both halves only if keys with equal high halves differ in their low halves, which is rare.
    if not (begins | ~_begins(low[order])).all():
        order = np.lexsort((low, high))
        begins = _begins(high[order]) | _begins(low[order])
    starts = np.flatnonzero(begins)
    firsts = np.empty(len(order), np.int64)
    if len(order):
        firsts[order] = np.repeat(np.minimum.reduceat(order, starts), np.diff(np.append(starts, len(order))))
    return firsts


def _begins(ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    return begins


def match_keys(ours: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> Matches:
    """Match keys uint64[n, 2]. Keys of `ours` must be unique. Only the first of equal `theirs` matches."""
    firsts = first_rows_by_key(np.concatenate((ours, theirs)))
    of_theirs = firsts[len(ours) :]
    is_matched = of_theirs < len(ours)
    if np.bincount(of_theirs[is_matched]).max(initial=0) > 1:
        is_matched &= first_rows_by_key(theirs) == np.arange(len(theirs))
    missing = np.ones(len(ours), np.bool_)
    missing[of_theirs[is_matched]] = False
    return Matches(
        of_theirs[is_matched], np.flatnonzero(is_matched), np.flatnonzero(missing), np.flatnonzero(~is_matched)
    )


SIZE_BITS = 16
"""Number of bits for each number in a packed rule size: length, source terminals and target terminals."""
_SOURCE_SHIFT = np.uint64(SIZE_BITS)
_TARGET_SHIFT = np.uint64(2 * SIZE_BITS)
_MASK = np.uint64((1 << SIZE_BITS) - 1)


def pack_size(length: Any, source_terminals: Any, target_terminals: Any) -> Any:
    """Return the packed size of a rule, uint64. Arguments are numbers or arrays, below 2^`SIZE_BITS`."""
    return (
        np.uint64(length)
        | (np.uint64(source_terminals) << _SOURCE_SHIFT)
        | (np.uint64(target_terminals) << _TARGET_SHIFT)
    )


def length_of(size: Any) -> Any:
    """Return the length in a packed size, int64."""
    return np.int64(size & _MASK)


def source_terminals_of(size: Any) -> Any:
    """Return the number of source terminals in a packed size, int64."""
    return np.int64((size >> _SOURCE_SHIFT) & _MASK)


def target_terminals_of(size: Any) -> Any:
    """Return the number of target terminals in a packed size, int64."""
    return np.int64((size >> _TARGET_SHIFT) & _MASK)
