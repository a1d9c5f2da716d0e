"""New keys for all rules, where two of them have one key under the present salt."""

from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.grammar.keys import signed
from hierogram.storage.store import Store


def rekey(store: Store) -> None:
    """Give every rule a new key under the next salt that keeps the stored rules apart."""
    with store.snapshot() as snapshot:
        rules = [(row.id, row.source, row.target) for row in snapshot.iterate_all_rule_rows()]
    settings = store.settings()
    key = kind_of(settings).key
    salt = settings.key_salt
    keys: dict[tuple[int, int], int] = {}
    while len(keys) < len(rules) or salt == settings.key_salt:
        salt += 1
        keys = {key(source, target, salt): number for number, source, target in rules}
    store.rekey(salt, ((number, signed(high), signed(low)) for (high, low), number in keys.items()))
