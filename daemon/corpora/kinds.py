"""What a store takes, by its kind of grammar."""

from hierogram.daemon.exceptions import WrongKindError
from hierogram.samplers.grammar.kinds import PAIRS, PARSES, notation_of
from hierogram.storage.store import Store

_HOW = {
    PAIRS: "offer pairs (`hierogram ingest`), or make another store for trees (`hierogram init --grammar trees`)",
    PARSES: "offer trees (`hierogram ingest --trees`, or a file in the spool), or make another store for pairs",
}


def check_takes(store: Store, offered: str) -> None:
    """Raises `WrongKindError` where the store's kind of grammar takes something else."""
    notation = notation_of(store.settings().grammar)
    if notation.takes != offered:
        raise WrongKindError(f"{store.url}: {notation.cannot(f'take {offered}')}: {_HOW[notation.takes]}")
