"""Hashes of words and keys of rules, from their texts: what a kernel computes piece by piece, in plain Python.

A word's hash depends on its spelling and the store's salt alone, so keys mean the same in every store and on every
machine; another salt gives other keys throughout. Rules of two lists are matched by their keys.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.grammar.rules import Rule, Side

BASE = np.uint64(0xD1342543DE82EF95)
"""A side's hash is the polynomial in this base, modulo 2^64, whose coefficients are the hashes of its symbols."""
SOURCE_NONTERMINAL = np.uint64(0x8EBC6AF09C88C6E3)
"""The hash of any nonterminal on the source side."""
TARGET_NONTERMINAL = np.uint64(0x589965CC75374CC3)
TARGET_STEP = np.uint64(0xA0761D6478BD642F)
"""The hash of nonterminal k on the target side is TARGET_NONTERMINAL + (k - 1) * TARGET_STEP."""
OPEN = np.uint64(0x1D8E4E27C47D124F)
CLOSE = np.uint64(0xEB44ACCAB455D165)
LABEL = np.uint64(0x9FB21C651E98DF25)
"""A fragment's expansion of label l stands between the hashes OPEN + l * LABEL and CLOSE; a frontier nonterminal's hash
has l * LABEL added."""

_WORD = (1 << 64) - 1

ALL_BITS = np.uint64(_WORD)
"""The mask of whole keys; tests narrow it to make keys collide."""


def numbering() -> defaultdict[str, int]:
    """A dictionary in which each word that is looked up gets a number, from 0 on."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def hash_words(words: Iterable[str], salt: int) -> NDArray[np.uint64]:
    """64-bit hash of each word under a salt, uint64."""
    salted = salt.to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=8, salt=salted).digest() for word in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _mix(x: int) -> int:
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
    """The key of a phrase rule (high, low), two unsigned 64-bit words, never (0, 0)."""
    high = _mix(_polynomial(rule.source, int(SOURCE_NONTERMINAL), 0, salt))
    low = _mix((_polynomial(rule.target, int(TARGET_NONTERMINAL), int(TARGET_STEP), salt) + high) & _WORD)
    mask = int(ALL_BITS)
    high, low = high & mask, low & mask
    return (high, low) if high or low else (0, 1)


def _mix_all(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def lexical_hashes(words: NDArray[np.int64], hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hashes of sides that are words alone, int64[n, L] by number with -1 behind the last, from the words' own."""
    values = np.zeros(len(words), np.uint64)
    for column in words.T:
        there = np.flatnonzero(column >= 0)
        values[there] = values[there] * BASE + hashes[column[there]]
    return values


def lexical_keys(source: NDArray[np.uint64], target: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The keys uint64[n, 2] of rules that are words alone, from the sides' hashes; 0 for an empty side."""
    high = _mix_all(source)
    keys = np.stack((high, _mix_all(target + high)), axis=1) & ALL_BITS
    keys[~keys.any(axis=1), 1] = 1
    return keys


def fragment_key(label: str, fragment: str, salt: int) -> tuple[int, int]:
    """The key of a tree fragment in bracket notation with this root label, as `rule_key`."""
    return rule_key(Rule((label,), tuple(fragment.split(" "))), salt)


def signed(word: int) -> int:
    """The 64-bit word as databases keep it, with a sign."""
    return word - (1 << 64) if word >> 63 else word


class Matches(NamedTuple):
    """Rows of two lists with the same key: `ours[k]` and `theirs[k]`; and those whose key the other list lacks."""

    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    only_ours: NDArray[np.int64]
    only_theirs: NDArray[np.int64]


def first_of_each_key(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of each row of keys uint64[n, 2], the first row with that key."""
    high, low = np.ascontiguousarray(keys.T)
    order = np.argsort(high)
    begins = _begins(high[order])
    # Keys are random, so that hardly ever two differ in their low halves alone; the order of these matters then.
    if not (begins | ~_begins(low[order])).all():
        order = np.lexsort((low, high))
        begins = _begins(high[order]) | _begins(low[order])
    starts = np.flatnonzero(begins)
    firsts = np.empty(len(order), np.int64)
    if len(order):
        firsts[order] = np.repeat(np.minimum.reduceat(order, starts), np.diff(np.append(starts, len(order))))
    return firsts


def _begins(ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Where a number is another than the one before it."""
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    return begins


def match_keys(ours: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> Matches:
    """The rows of ours, each key once, and of theirs, uint64[n, 2], that have the same key; ascending by theirs."""
    firsts = first_of_each_key(np.concatenate((ours, theirs)))
    of_theirs = firsts[len(ours) :]
    found = of_theirs < len(ours)
    if np.bincount(of_theirs[found]).max(initial=0) > 1:
        # Of theirs with one key, the first is the match.
        found &= first_of_each_key(theirs) == np.arange(len(theirs))
    missing = np.ones(len(ours), np.bool_)
    missing[of_theirs[found]] = False
    return Matches(of_theirs[found], np.flatnonzero(found), np.flatnonzero(missing), np.flatnonzero(~found))
