"""The kinds of grammar by name. A new one is an entry here and one in `hierogram.samplers.grammar.kinds.NOTATIONS`."""

from hierogram.daemon.learning.kinds.itg import Itg
from hierogram.daemon.learning.kinds.kind import Kind
from hierogram.daemon.learning.kinds.synchronous import Synchronous
from hierogram.daemon.learning.kinds.trees import Trees
from hierogram.samplers.grammar.kinds import notation_of
from hierogram.storage.records import Settings

_ALL: tuple[Kind, ...] = (Synchronous(), Trees(), Itg())
KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}


def kind_of(settings: Settings) -> Kind:
    """The kind of grammar of a store with these settings; raises `UnknownKindError`."""
    return KINDS[notation_of(settings.grammar).kind]
