"""Pairs of an invented language that are added to a store, and their alignment error."""

from tests.daemon.learning.alignment.languages import invented_corpus
from tests.daemon.learning.stores import fill
from tests.storage.building import NewPair

from hierogram.storage.store import Store

PAIRS = 300


def put(store: Store, first: int, last: int, given: bool = False) -> None:
    """Store the invented pairs `first` to `last - 1`, with their true alignment if `given`."""
    sources, targets, alignments = invented_corpus(PAIRS)
    fill(store, [
        NewPair(
            sources[k], targets[k], alignments[k] if given else None,
            len(sources[k].split()), len(targets[k].split()), k + 1, f"{k}",
        )
        for k in range(first, last)
    ])  # fmt: skip


def error_rate(store: Store, first: int, last: int) -> float:
    """Return the alignment error rate of the stored pairs `first` to `last - 1`: 1 - 2·correct / (predicted + true)."""
    truth = [set(line.split()) for line in invented_corpus(PAIRS)[2][first:last]]
    rows = store.pairs()[first:last]
    found = [set(row.alignment.split()) for row in rows]
    both = sum(len(a & b) for a, b in zip(truth, found, strict=True))
    return 1 - 2 * both / sum(len(a) + len(b) for a, b in zip(truth, found, strict=True))


def texts(store: Store) -> list[tuple[str, str, str]]:
    return [(row.alignment, row.state, row.aligned_by) for row in store.pairs()]
