"""Open addressing compared with a Python set, with a hash that maps all keys to few home slots."""

from random import Random

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import close_gap, probe

FREE = np.uint64(0)


@njit_inline
def home(key, mask):
    return (key // np.uint64(7)) & mask


@njit_inline
def ends_at(keys, slot, key):
    return (keys[slot] == key) | (keys[slot] == FREE)


@njit_inline
def find_home(keys, slot):
    return keys[slot] != FREE, home(keys[slot], np.uint64(len(keys) - 1))


@njit_inline
def move(keys, slot, to):
    keys[to] = keys[slot]


@njit
def find(keys, key):
    mask = np.uint64(len(keys) - 1)
    return np.int64(probe(home(key, mask), mask, ends_at, keys, key))


@njit
def take_out(keys, slot):
    keys[close_gap(np.uint64(slot), np.uint64(len(keys) - 1), find_home, move, keys)] = FREE


def test_a_table_with_open_addressing_behaves_like_a_set() -> None:
    random = Random(2)
    keys = np.zeros(64, np.uint64)
    held: set[int] = set()
    for _ in range(5_000):
        key = random.randint(1, 120)
        slot = find(keys, np.uint64(key))
        assert (keys[slot] == key) == (key in held)
        if key in held:
            take_out(keys, slot)
            held.remove(key)
        elif len(held) < 60:
            keys[slot] = key
            held.add(key)
        assert set(keys[keys != 0].tolist()) == held
    for key in range(1, 121):
        assert (keys[find(keys, np.uint64(key))] == key) == (key in held)
