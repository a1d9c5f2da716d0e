"""Kinds of grammar by name. A new kind needs an entry here and in `hierogram.samplers.grammar.kinds.NOTATIONS`."""

from collections.abc import Sequence

from hierogram.daemon.learning.kinds import itg, synchronous, trees
from hierogram.daemon.learning.kinds.kind import Drawn, Kind
from hierogram.samplers.grammar.columns import join_blobs
from hierogram.samplers.grammar.kinds import notation_of
from hierogram.storage.records import PairRow, Settings
from hierogram.storage.records.columns import RuleDeltas

KINDS: dict[str, Kind] = {kind.name: kind for kind in (synchronous.KIND, trees.KIND, itg.KIND)}


def kind_of(settings: Settings) -> Kind:
    """Return the kind of grammar of a store with these settings. Raises `UnknownKindError`."""
    return KINDS[notation_of(settings.grammar).kind]


def count_rules_of(rows: Sequence[PairRow], settings: Settings) -> RuleDeltas:
    """Return the rules of the pairs' derivations and averages, counted from zero."""
    loaded = kind_of(settings).load(rows, settings)
    present = loaded.trees(loaded.decode(join_blobs([row.current or b"" for row in rows])))
    records = join_blobs([row.averages or b"" for row in rows])
    return loaded.rule_deltas(None, Drawn(present, records), settings)
