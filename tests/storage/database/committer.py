"""A process to be killed at any instant: `committer.py URL commit` or `committer.py URL ingest`.

It commits for ever. Each commit gives all pairs the derivation «i», takes what «i - 1» counted away and adds
what «i» counts, so that at any time the counts can be told from the derivations. Or it ingests the same lines from
the first on, in chunks.
"""

import sys

from tests.storage.building import Delta, commit, delta, pair, pairs_of, update

from hierogram.storage.store import open_store

PAIRS = 200
RULES = 150


def counted(derivation: int, sign: int) -> list[Delta]:
    """What the derivation counts of all pairs: one rule that every derivation uses, and some of its own."""
    own = [delta(f"of{derivation} s{n} [X,1]", f"[X,1] t{n}", sign, sign) for n in range(RULES)]
    return [delta("shared", "rule", sign * (derivation + 1)), *own]


LINES = [pair(f"s{n} s{n % 10}", f"t{n % 100}", occurrence=0, line=n) for n in range(30_000)]
CHUNK = 150


def ingest(url: str) -> None:
    """Offers all lines, and says after each chunk how many of them are stored."""
    with open_store(url) as store:
        batch = store.begin_ingest("corpus", "lines", "bars")
        for start in range(0, len(LINES), CHUNK):
            store.add_pairs(batch, pairs_of(LINES[start : start + CHUNK]))
            print(start + CHUNK, flush=True)
        store.finish_ingest(batch)


def commit_for_ever(url: str) -> None:
    """Commits for ever, and says after each commit which it was."""
    with open_store(url) as store:
        current = store.pairs(limit=1)[0].current
        last = -1 if current is None else int(current)
        while True:
            deltas = counted(last + 1, 1)
            if last >= 0:
                deltas += counted(last, -1)
            commit(store, [update(n, b"%d" % (last + 1), sweep=last + 1) for n in range(1, PAIRS + 1)], deltas)
            last += 1
            print(last, flush=True)


if __name__ == "__main__":
    {"commit": commit_for_ever, "ingest": ingest}[sys.argv[2]](sys.argv[1])
