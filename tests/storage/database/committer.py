"""A process that tests kill at any moment: `committer.py URL commit` or `committer.py URL ingest`.

With `commit` it commits forever. Each commit gives all pairs the derivation «i», subtracts the counts of «i - 1» and
adds the counts of «i», so that the correct counts follow from the derivations at any time. With `ingest` it ingests the
same lines from the beginning, in chunks.
"""

import sys

from tests.storage.building import Delta, commit, delta, make_pairs, pair, update

from hierogram.storage.store import open_store

PAIRS = 200
RULES = 150


def derivation_deltas(derivation: int, sign: int) -> list[Delta]:
    """Return deltas that add (sign 1) or subtract (-1) the counts of a derivation: a shared rule and its own rules."""
    own = [delta(f"of{derivation} s{n} [X,1]", f"[X,1] t{n}", sign, sign) for n in range(RULES)]
    return [delta("shared", "rule", sign * (derivation + 1)), *own]


LINES = [pair(f"s{n} s{n % 10}", f"t{n % 100}", occurrence=0, line=n) for n in range(30_000)]
CHUNK = 150


def ingest(url: str) -> None:
    """Ingest all lines and print the number of lines read so far after each chunk."""
    with open_store(url) as store:
        batch = store.begin_ingest("corpus", "lines", "bars")
        for start in range(0, len(LINES), CHUNK):
            store.add_pairs(batch, make_pairs(LINES[start : start + CHUNK]))
            print(start + CHUNK, flush=True)
        store.finish_ingest(batch)


def commit_forever(url: str) -> None:
    """Commit forever and print the number of the derivation after each commit."""
    with open_store(url) as store:
        current = store.pairs(limit=1)[0].current
        last = -1 if current is None else int(current)
        while True:
            deltas = derivation_deltas(last + 1, 1)
            if last >= 0:
                deltas += derivation_deltas(last, -1)
            commit(store, [update(n, b"%d" % (last + 1), sweep=last + 1) for n in range(1, PAIRS + 1)], deltas)
            last += 1
            print(last, flush=True)


if __name__ == "__main__":
    {"commit": commit_forever, "ingest": ingest}[sys.argv[2]](sys.argv[1])
