"""Rules that a pair keeps, their average uses and possible missed uses: docs/model.md, section 4, in plain Python.

The exact weighted uses of each rule are kept as well, to check that the averages are within their error bounds.
"""

import math
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tests.reference.streams import MASK, mix

ONE_USE = 4096
ROUNDING_STEP, SHARED_ROUNDING_STEP = ONE_USE // 4, ONE_USE // 32
ROUNDING_DRAWS = 128
MAX_SWEEPS = 2048
SWEEPS_PER_PRUNING = 16
SHARED_PERIOD = 128
BYTES_PER_SLOT = 10


def draw_of_rule(pair: int, source_hash: int, target_hash: int) -> int:
    """Return a number from 0 to 127 that determines how the uses of a rule are rounded in a pair."""
    return mix(mix(mix(pair) + source_hash & MASK) + target_hash & MASK) % ROUNDING_DRAWS


def threshold(draw: int, sweeps: int, *, shared: bool = False) -> Fraction:
    """Return the sum of uses below which their mean is rounded to 0."""
    return Fraction(2 * draw + 1, 2 * ROUNDING_DRAWS) * (SHARED_ROUNDING_STEP if shared else ROUNDING_STEP) * sweeps


def error_variance(mean: int, sweeps: int) -> int:
    """Return the error variance 0.28 m (1 - min(m, 1) / 2) / √T, in squared units, of a mean m over T sweeps."""
    return int(0.28 * mean * (ONE_USE - min(mean, ONE_USE) / 2) / math.sqrt(sweeps) + 0.5)


def round_uses(uses: int, missed: int, sweeps: int, draw: int, *, shared: bool) -> tuple[int, int]:
    """Return expected uses and their variance. A mean below the step is rounded to the step, or to 0."""
    if uses + missed // 3 < math.floor(threshold(draw, sweeps, shared=shared)):
        return 0, 0
    mean = math.floor(Fraction(uses, sweeps) + Fraction(1, 2))
    rounded = max(mean, SHARED_ROUNDING_STEP if shared else ROUNDING_STEP)
    return rounded, error_variance(rounded, sweeps) + rounded * (rounded - mean)


@dataclass
class Entry:
    """A rule's uses since it was entered, the bound on its earlier uses, and the slots that it takes."""

    uses: int
    missed: int
    slots: int
    shared: bool = False

    @property
    def most(self) -> int:
        """Upper bound on the uses of the rule."""
        return self.uses + self.missed


@dataclass
class Average:
    """Averages of one pair in a fixed number of slots. The field `truth` has the exact uses.

    `draw` returns the draw of a rule.
    """

    slots: int
    draw: Callable[[Hashable], int]
    entries: dict[Hashable, Entry] = field(default_factory=dict)
    floor: int = 0
    sweeps: int = 0
    total: int = 0
    truth: dict[Hashable, Fraction] = field(default_factory=dict)
    largest: int = 1

    def sweep(self, credits: Mapping[Hashable, tuple[int, int]], shared: Collection[Hashable] = ()) -> None:
        """Add a sweep, given the uses of each rule and the bytes of its fragment, and the rules that are shared."""
        for rule, entry in self.entries.items():
            entry.shared = rule in shared
        known = [rule for rule in credits if rule in self.entries]
        for rule in known:
            self.entries[rule].uses += credits[rule][0]
        for rule, (uses, size) in credits.items():
            if rule not in known:
                self._enter(rule, uses, -(-size // BYTES_PER_SLOT), rule in shared)
            self.truth[rule] = self.truth.get(rule, Fraction(0)) + uses
            self.total += uses
        self.sweeps += 1
        if self.sweeps == MAX_SWEEPS:
            self._halve()
        if self.sweeps % SWEEPS_PER_PRUNING == 0:
            self._prune()

    def lose(self, rule: Hashable, uses: int) -> None:
        """Add uses whose rule is not stored: the bound of every entry grows by them."""
        self.floor += uses
        for entry in self.entries.values():
            entry.missed += uses
        self.truth[rule] = self.truth.get(rule, Fraction(0)) + uses
        self.total += uses

    def without_entry(self, rule: Hashable) -> int:
        """Return the upper bound on the uses of a rule that has no entry."""
        pruned = self.sweeps - self.sweeps % SWEEPS_PER_PRUNING
        return self.floor + math.floor(threshold(self.draw(rule), pruned))

    def _enter(self, rule: Hashable, uses: int, slots: int, shared: bool) -> None:
        self.largest = max(self.largest, slots)
        while not self._has_room(slots):
            least = min(self.entries, key=self._excess)
            self.floor += max(self._excess(least), 0)
            del self.entries[least]
        self.entries[rule] = Entry(uses, self.without_entry(rule), slots, shared)

    def _has_room(self, slots: int) -> bool:
        return sum(entry.slots for entry in self.entries.values()) + slots <= self.slots

    def _excess(self, rule: Hashable) -> int:
        return self.entries[rule].most - self.without_entry(rule)

    def _prune(self) -> None:
        for rule, entry in list(self.entries.items()):
            if entry.most < math.floor(threshold(self.draw(rule), self.sweeps, shared=entry.shared)):
                del self.entries[rule]

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
        """Return an upper bound on the floor, as proved in docs/model.md. The terms with a 2 allow for rounding."""
        room = self.slots - self.largest + 1
        return Fraction(self.largest * self.total + 2 * self.slots, room) + 2

    def is_within_its_errors(self) -> bool:
        """Check if exact uses are between kept uses and upper bound, and missed uses and floor within their bounds."""
        for rule, truth in self.truth.items():
            entry = self.entries.get(rule, Entry(0, self.without_entry(rule), 0))
            max_missed = self.bound() + threshold(self.draw(rule), self.sweeps)
            if not entry.uses <= truth <= entry.most or entry.missed > max_missed:
                return False
        return self.floor <= self.bound()
