"""Kinds of grammar by name. A new kind needs an entry here and in `hierogram.samplers.grammar.kinds.NOTATIONS`."""

from hierogram.daemon.learning.kinds import itg, synchronous, trees
from hierogram.daemon.learning.kinds.kind import Kind
from hierogram.samplers.grammar.kinds import find_notation
from hierogram.storage.records import Settings

KINDS: dict[str, Kind] = {kind.name: kind for kind in (synchronous.KIND, trees.KIND, itg.KIND)}


def find_kind(settings: Settings) -> Kind:
    """Return the kind of grammar of a store with these settings. Raises `SamplerError`."""
    return KINDS[find_notation(settings.grammar).kind]
