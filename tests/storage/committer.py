"""A process that commits for ever, to be killed at any instant: `committer.py URL`.

Each commit gives all pairs the derivation «i», takes what «i - 1» counted away and adds what «i» counts, so that
at any time the counts can be told from the derivations.
"""

import sys

from tests.storage.building import delta, update

from hierogram.storage.records import RuleDelta
from hierogram.storage.store import open_store

PAIRS = 200
RULES = 150


def counted(derivation: int, sign: int) -> list[RuleDelta]:
    """What the derivation counts of all pairs: one rule that every derivation uses, and some of its own."""
    own = [delta(f"of{derivation} s{n} [X,1]", f"[X,1] t{n}", sign, sign) for n in range(RULES)]
    return [delta("shared", "rule", sign * (derivation + 1)), *own]


def main(url: str) -> None:
    with open_store(url) as store:
        current = store.pairs(limit=1)[0].current
        last = -1 if current is None else int(current)
        while True:
            deltas = counted(last + 1, 1)
            if last >= 0:
                deltas += counted(last, -1)
            store.commit([update(n, b"%d" % (last + 1), sweep=last + 1) for n in range(1, PAIRS + 1)], deltas)
            last += 1
            print(last, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
