"""Rules that a pair keeps, their average uses and possible missed uses: docs/model.md, section 4, in plain Python.

The exact weighted uses of each rule are kept as well, to check that the averages are within their error bounds.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

ONE_USE = 4096
LEAST = ONE_USE // 32
MAX_SWEEPS = 2048
SWEEPS_PER_PRUNING = 16
BYTES_PER_SLOT = 10


def error_variance(mean: int, sweeps: int, *, shared: bool) -> int:
    """0.9 m (1 - m/2) / T^(3/4) + m/1024, or m/64 of a shared rule, m at most 1 in the bracket; in squared units."""
    root = math.sqrt(sweeps)
    of_chain = 0.9 * mean * (ONE_USE - min(mean, ONE_USE) / 2) / (root * math.sqrt(root))
    return int(of_chain + 0.5) + mean * ONE_USE // (64 if shared else 1024)


@dataclass
class Entry:
    """A rule's uses since it was entered, the bound on its earlier uses, and the slots that it takes."""

    uses: int
    missed: int
    slots: int

    @property
    def most(self) -> int:
        """Upper bound on the uses of the rule."""
        return self.uses + self.missed


@dataclass
class Average:
    """Averages of one pair in a fixed number of slots; `truth` has exact uses, `weight` that of all sweeps."""

    slots: int
    entries: dict[Hashable, Entry] = field(default_factory=dict)
    floor: int = 0
    sweeps: int = 0
    total: int = 0
    truth: dict[Hashable, Fraction] = field(default_factory=dict)
    largest: int = 1

    def sweep(self, credits: Mapping[Hashable, tuple[int, int]]) -> None:
        """Add a sweep, given the uses of each rule and the bytes of its fragment."""
        known = [rule for rule in credits if rule in self.entries]
        for rule in known:
            self.entries[rule].uses += credits[rule][0]
        for rule, (uses, size) in credits.items():
            if rule not in known:
                self._enter(rule, uses, -(-size // BYTES_PER_SLOT))
            self.truth[rule] = self.truth.get(rule, Fraction(0)) + uses
            self.total += uses
        self.sweeps += 1
        if self.sweeps == MAX_SWEEPS:
            self._halve()
        if self.sweeps % SWEEPS_PER_PRUNING == 0:
            self._prune()

    def lose(self, rule: Hashable, uses: int) -> None:
        """Uses whose rule is not known to the averages: any rule may have had them."""
        self.floor += uses
        for entry in self.entries.values():
            entry.missed += uses
        self.truth[rule] = self.truth.get(rule, Fraction(0)) + uses
        self.total += uses

    def _enter(self, rule: Hashable, uses: int, slots: int) -> None:
        self.largest = max(self.largest, slots)
        if not self._has_room(slots):
            self._prune()
        while not self._has_room(slots):
            self._let_go(min(self.entries, key=lambda known: self.entries[known].most))
        self.entries[rule] = Entry(uses, self.floor, slots)

    def _has_room(self, slots: int) -> bool:
        return sum(entry.slots for entry in self.entries.values()) + slots <= self.slots

    def _let_go(self, rule: Hashable) -> None:
        self.floor = max(self.floor, self.entries.pop(rule).most)

    def _prune(self) -> None:
        for rule in [rule for rule, entry in self.entries.items() if entry.most < LEAST * self.sweeps]:
            self._let_go(rule)

    def _halve(self) -> None:
        self.sweeps //= 2
        self.total = (self.total + 1) // 2
        self.floor = (self.floor + 1) // 2
        for entry in self.entries.values():
            most = (entry.most + 1) // 2
            entry.uses //= 2
            entry.missed = most - entry.uses
        self.truth = {rule: uses / 2 for rule, uses in self.truth.items()}

    def bound(self) -> Fraction:
        """Return an upper bound on the missed uses of any rule, as proved in docs/model.md; two units allow for
        rounding.
        """
        room = self.slots - self.largest + 1
        return Fraction(LEAST * self.sweeps) + Fraction(self.largest * self.total + 2 * self.slots, room) + 2

    def is_within_its_errors(self) -> bool:
        """Return whether every rule's exact uses are between its kept uses and its upper bound."""
        for rule, truth in self.truth.items():
            entry = self.entries.get(rule, Entry(0, self.floor, 0))
            if not entry.uses <= truth <= entry.most or entry.missed > self.bound():
                return False
        return self.floor <= self.bound()
