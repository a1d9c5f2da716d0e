"""Measure the savings of masks under ideal conditions: all links are correct and monotone.

python -m hierogram.tools.lab.papers.pruning.ceilings
"""

from typing import Annotated

import numpy as np
import typer

from hierogram.samplers.charts.hypergraph import StreamKey
from hierogram.samplers.charts.pairs import PairWords
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.tools.lab.papers.pruning.pairs import GRAMMARS, MAX_EDGES, branching, build_whole, itg_edges
from hierogram.tools.lab.papers.pruning.single_chain import first_selection

_SHARES = (1.0, 0.9, 0.8, 0.7)
_SELECTIONS = 10


def ceiling(grammar: str, words: int, share: float) -> tuple[int, float]:
    """Return edges of the whole chart of a pair of `words` words per side, and mean edges of masks.

    `share` of the words are linked, and each link is a variable.
    """
    make, empty_sides = GRAMMARS[grammar]
    side, weights = np.zeros(words, np.int32), np.ones(words)
    pair = PairWords(side, side, np.ones((words, words)), weights, weights, weights, weights)
    random = np.random.default_rng(0)
    number = round(share * words)
    edges = []
    for key in range(_SELECTIONS):
        linked = np.sort(random.permutation(words)[:number]).astype(np.int32)
        chart = PairChart(make(), pair, np.stack([linked, linked], axis=1), empty_sides, MAX_EDGES)
        selected = first_selection(number, branching(make()), StreamKey(key, 1, 1))
        edges.append(chart.build(selected, np.ones(number, np.bool_)).edges)
    whole = itg_edges(words, words) if grammar == "itg" else build_whole(chart).edges
    return whole, float(np.mean(edges))


def main(
    itg: Annotated[str, typer.Option(help="Words per side for the ITG: numbers separated by commas.")] = "11,20,30",
    mixed: Annotated[str, typer.Option(help="Words per side for mixed rules: numbers separated by commas.")] = "8,11",
) -> None:
    """Print the edges of whole charts, and their ratio to the mean edges of masks."""
    print("grammar", "words", "edges", *(f"edges/mask edges, {share:.0%} linked" for share in _SHARES), sep="\t")
    for grammar, sizes in (("itg", itg), ("mixed", mixed)):
        for words in map(int, sizes.split(",")):
            ceilings = [ceiling(grammar, words, share) for share in _SHARES]
            factors = (f"{whole / mask:.0f}" for whole, mask in ceilings)
            print(grammar, words, ceilings[0][0], *factors, sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
