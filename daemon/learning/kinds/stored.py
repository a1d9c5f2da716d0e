"""Kinds of grammar by name, and loading of stored pairs.

All stored derivations pass through `load_stored`, which validates the bytes, because kernels do not check indices or
the end of a derivation. A damaged byte raises an error that names the pair before a kernel runs.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds import itg, synchronous, trees
from hierogram.daemon.learning.kinds.kind import Averages, Kind, LoadedBatch, State, StoredSamples
from hierogram.samplers.exceptions import DerivationError, SamplerError
from hierogram.samplers.grammar.columns import Blobs, join_blobs, split_blobs
from hierogram.samplers.grammar.kinds import find_grammar_kind
from hierogram.storage.records.columns import RuleDeltas
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings

KINDS: dict[str, Kind] = {kind.name: kind for kind in (synchronous.KIND, trees.KIND, itg.KIND)}
"""All kinds. A new kind needs an entry here and in `hierogram.samplers.grammar.kinds.GRAMMAR_KINDS`."""


def find_kind(settings: Settings) -> Kind:
    """Return the kind of grammar of a store with these settings. Raises `SamplerError`."""
    return KINDS[find_grammar_kind(settings.grammar).kind]


UNREADABLE = (SamplerError, ValueError, TypeError, AttributeError, IndexError, OverflowError)
"""Errors raised if the bytes or texts of pairs, derivations or links are malformed."""
_MAX_NAMED_PAIRS = 5

DERIVATION, LINKS, ALIGNMENT, TEXTS = "derivation", "links", "alignment", "texts"
"""Parts of a pair that can be damaged: derivation or averages, links of the aligner, alignment, and
texts. Only the texts cannot be recomputed.
"""


class Damage(NamedTuple):
    """Damaged pair, with the reason why it cannot be read and the damaged part."""

    pair_id: int
    reason: str
    part: str = DERIVATION

    def __str__(self) -> str:
        return f"pair {self.pair_id}: {self.reason}"


class DamagedPairsError(DerivationError):
    """Raised if stored pairs are damaged. `damaged` lists them by id."""

    def __init__(self, damaged: Sequence[Damage]) -> None:
        self.damaged = tuple(damaged)
        more = f" and {len(damaged) - _MAX_NAMED_PAIRS} more" if len(damaged) > _MAX_NAMED_PAIRS else ""
        named = "; ".join(map(str, damaged[:_MAX_NAMED_PAIRS]))
        super().__init__(f"{named}{more}: damaged in the store: run `hierogram repair`")

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, because workers send this error."""
        return DamagedPairsError, (self.damaged,)


class ValidatedPairs(NamedTuple):
    """Pairs in memory with their validated derivations and averages.

    `stored` bool[pairs] marks the pairs with a stored derivation. Other pairs have an initial state. `records` are the
    averages as bytes. `averages` are the averages for the sampler, or None if they were not requested.
    """

    loaded: LoadedBatch
    state: State
    records: Blobs
    stored: NDArray[np.bool_]
    averages: Averages | None

    def rules(self) -> RuleDeltas:
        """Return the rules of the pairs' derivations and averages, with their counts."""
        return self.loaded.rule_deltas(None, StoredSamples(self.loaded.trees(self.state), self.records))


def load_stored(rows: Sequence[PairRow], settings: Settings, *, averages: bool = False) -> ValidatedPairs:
    """Load pairs with their derivations and averages. Pairs without a derivation get an initial state.

    With `averages`, averages are read for sampling. Otherwise, they are only validated. Raises
    `DamagedPairsError` if a pair cannot be read, and the errors of `Kind.load` if the pairs cannot form a batch.
    """
    try:
        return _load(rows, settings, averages=averages)
    except UNREADABLE:
        damaged = find_damage(rows, settings)
        if not damaged:
            raise
        raise DamagedPairsError(damaged) from None


def load_undamaged(rows: Sequence[PairRow], settings: Settings) -> tuple[list[PairRow], ValidatedPairs]:
    """Load the undamaged pairs. Returns their rows and the loaded pairs."""
    try:
        return list(rows), load_stored(rows, settings)
    except DamagedPairsError as error:
        damaged_ids = {damage.pair_id for damage in error.damaged}
    undamaged = [row for row in rows if row.id not in damaged_ids]
    return undamaged, load_stored(undamaged, settings)


def find_damage(rows: Sequence[PairRow], settings: Settings) -> list[Damage]:
    """Return the damaged pairs, sorted by id."""
    derived = [row for row in rows if row.current is not None or not row.is_intact()]
    others = [row for row in rows if row.current is None and row.is_intact()]
    return sorted(_find(derived, settings, True) + _find(others, settings, False))


def _load(rows: Sequence[PairRow], settings: Settings, *, averages: bool) -> ValidatedPairs:
    if altered := [k for k, row in enumerate(rows) if not row.is_intact()]:
        message = f"the derivation and averages of pair {rows[altered[0]].id} do not match their checksum"
        raise DerivationError(message, altered, "derivation and averages do not match their checksum")
    kind = find_kind(settings)
    loaded = kind.load(rows, settings)
    stored = np.array([row.current is not None for row in rows], np.bool_)
    states = [row.current or b"" for row in rows]
    if not stored.all():
        initial_states = split_blobs(loaded.encode(kind.draw_initial_state(loaded, settings, ~stored, None)))
        states = [
            initial if row.current is None else row.current for row, initial in zip(rows, initial_states, strict=True)
        ]
    state = loaded.decode(join_blobs(states))
    records = join_blobs([row.averages or b"" for row in rows])
    if averages:
        return ValidatedPairs(loaded, state, records, stored, loaded.read_averages(records))
    loaded.check_averages(records)
    return ValidatedPairs(loaded, state, records, stored, None)


def _find(rows: Sequence[PairRow], settings: Settings, derivations: bool) -> list[Damage]:
    if not rows:
        return []
    try:
        if derivations:
            _load(rows, settings, averages=False)
        else:
            find_kind(settings).load(rows, settings)
        return []
    except UNREADABLE as error:
        if isinstance(error, DerivationError) and error.pairs:
            damaged_indices = set(error.pairs)
            undamaged = [row for k, row in enumerate(rows) if k not in damaged_indices]
            damaged = [Damage(rows[k].id, f"its derivation cannot be read: {error.reason}") for k in error.pairs]
            return damaged + _find(undamaged, settings, derivations)
        if len(rows) == 1:
            part = _unreadable_part(rows[0], settings)
            subject = "it" if part == TEXTS else f"its {part}"
            reason = str(error).removeprefix(f"pair {rows[0].id}: ")
            return [Damage(rows[0].id, f"{subject} cannot be read: {reason}", part)]
    middle = len(rows) // 2
    return _find(rows[:middle], settings, derivations) + _find(rows[middle:], settings, derivations)


def _unreadable_part(row: PairRow, settings: Settings) -> str:
    for part, candidate in ((DERIVATION, row), (ALIGNMENT, row._replace(alignment=""))):
        with suppress(*UNREADABLE):
            find_kind(settings).load([candidate], settings)
            return part
    return TEXTS
