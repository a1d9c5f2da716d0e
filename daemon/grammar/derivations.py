"""A pair's derivation as people see it: which rules it uses, and how they hang together."""

from hierogram.daemon.learning.kinds.kind import RuleUse
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.storage.records import PairRow, Settings


def derivation_of(row: PairRow, settings: Settings) -> list[RuleUse]:
    """The pair's present derivation, top-down in source order, the root's rule first; empty where it has none yet.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    return [] if row.current is None else kind_of(settings).show(row, settings)
