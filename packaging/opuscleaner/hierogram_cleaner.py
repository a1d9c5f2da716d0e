"""Filter for OpusCleaner that removes doubtful pairs: python hierogram_cleaner.py STORE DOUBT."""

import sys
from collections import deque

import hierogram as hg

store, limit = hg.open(sys.argv[1]), float(sys.argv[2])
lines = deque()


def sides():
    """Yield both sides of each line of standard input."""
    for line in sys.stdin:
        lines.append(line)
        source, _, target = line.rstrip("\n").partition("\t")
        yield source, target


for scored in hg.score(store, sides()):
    line = lines.popleft()
    if scored.score is None:
        print(f"line {scored.number}: {scored.problem}", file=sys.stderr)
    elif scored.score.doubt < limit:
        sys.stdout.write(line)
