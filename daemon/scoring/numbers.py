"""The numbers of rules by their sides, in little memory: 24 bytes a rule in place of some 500 for a dictionary."""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

Texts = tuple[str, str]
"""The two sides of a rule, as texts."""


class RuleNumbers:
    """Rules numbered from 0, told apart by digests of 128 bits of their sides."""

    def __init__(self, rules: Iterable[Texts]) -> None:
        """The rules are all different."""
        digests = np.frombuffer(b"".join(map(_digest, rules)), np.uint64).reshape(-1, 2)
        self._order = np.argsort(digests[:, 0], kind="stable").astype(np.int32)
        self._digests = digests[self._order]

    def __len__(self) -> int:
        """How many rules there are."""
        return len(self._order)

    def get(self, rule: Texts) -> int:
        """The rule's number, -1 where it has none."""
        first, second = np.frombuffer(_digest(rule), np.uint64)
        place = int(np.searchsorted(self._digests[:, 0], first))
        while place < len(self._order) and self._digests[place, 0] == first:
            if self._digests[place, 1] == second:
                return int(self._order[place])
            place += 1
        return -1


def _digest(rule: Texts) -> bytes:
    source, target = rule
    return blake2b(f"{source}\n{target}".encode(), digest_size=16).digest()
