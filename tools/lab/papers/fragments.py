"""Tables 2 and 3 and Figure 4 of [CGB09]: fragments of a tree-substitution grammar, and their sizes.

hierogram --store sqlite:///trees.db export --format fragments -o trees.fragments
python -m hierogram.tools.lab.papers.fragments trees.fragments --figure fragments.png
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hierogram.daemon.cli.common import print_table
from hierogram.daemon.text.treebanks.trees import Tree, preorder
from hierogram.tools.lab.measures.results import save_figure
from hierogram.tools.lab.measures.treebanks import list_words
from hierogram.tools.treebanks.grammars import read_grammar

_FORMS = (
    "be am is are was were been being 's 're 'm have has had having 've 'd do does did will would shall should can "
    "could may might must 'll"
)
AUXILIARIES = set(_FORMS.split())
"""Auxiliary verbs. Table 3 omits fragments that contain them."""
_LAST_BIN = 9
"""Last bin of the histograms. It also counts all larger sizes."""

FragmentUses = Sequence[tuple[Tree, float]]
"""Fragments with their uses."""


class Size(NamedTuple):
    """Size of a fragment: height in productions, nodes, words, and frontier nonterminals."""

    height: int
    nodes: int
    words: int
    frontiers: int


def fragment_size(fragment: Tree) -> Size:
    """Return the size of a fragment. Words do not count as nodes."""
    nodes = [node for node in preorder(fragment) if isinstance(node, Tree)]
    heights: dict[int, int] = {}
    for node in reversed(nodes):
        below = [heights[id(child)] for child in node.children if isinstance(child, Tree)]
        heights[id(node)] = 1 + max(below, default=0) if node.children else 0
    frontiers = sum(not node.children for node in nodes)
    return Size(heights[id(fragment)], len(nodes), len(list_words(fragment)), frontiers)


def most_frequent(
    fragments: FragmentUses, labels: Iterable[str], number: int, lexical: bool = False
) -> dict[str, FragmentUses]:
    """Return up to `number` fragments of each root label by descending uses.

    If `lexical` is True, omit fragments without words and fragments with auxiliary verbs.
    """
    if lexical:
        word_sets = [{word.lower() for word in list_words(fragment)} for fragment, _ in fragments]
        fragments = [
            item for item, words in zip(fragments, word_sets, strict=True) if words and not words & AUXILIARIES
        ]
    ranked = sorted(fragments, key=lambda item: (-item[1], str(item[0])))
    return {label: [item for item in ranked if item[0].label == label][:number] for label in labels}


def histograms(fragments: FragmentUses) -> dict[str, Counter[int]]:
    """Count distinct fragments of several productions by each field of `Size`. The last bin is 9 or more."""
    sizes = [size for size in (fragment_size(fragment) for fragment, _ in fragments) if size.height > 1]
    return {
        name: Counter(min(value, _LAST_BIN) for value in column)
        for name, column in zip(Size._fields, zip(*sizes, strict=True) if sizes else ((),) * 4, strict=True)
    }


def draw(histograms_by_label: dict[str, Counter[int]], path: Path) -> None:
    """Draw the histograms side by side, as PNG."""
    with save_figure(path, 1, len(histograms_by_label), size=(11, 3.2), sharey=True) as panels:
        for panel, (name, counts) in zip(panels, histograms_by_label.items(), strict=True):
            panel.bar(range(_LAST_BIN + 1), [counts[value] for value in range(_LAST_BIN + 1)])
            panel.set_xlabel(f"{name} ({_LAST_BIN}: or more)")
        panels[0].set_ylabel("fragments")


def main(
    grammar: Annotated[str, typer.Argument(metavar="FRAGMENTS", help="Lines like `(NP (DT the) (NN)) ||| 17`.")],
    number: Annotated[int, typer.Option(min=1, help="Number of fragments for each root label.")] = 15,
    figure: Annotated[Path | None, typer.Option(help="PNG file of Figure 4.")] = None,
) -> None:
    """Print the most frequent fragments, with and without words, and the distribution of sizes."""
    fragments = read_grammar(grammar).fragments
    _print_fragments("Table 2", most_frequent(fragments, ("NP", "PP", "VP"), number))
    _print_fragments("Table 3", most_frequent(fragments, ("NP", "VP"), number, lexical=True))
    by_label = histograms(fragments)
    several = sum(by_label["height"].values())
    print(f"{len(fragments) - several:,} fragments of one production, {several:,} fragments of several productions")
    columns = [*map(str, range(_LAST_BIN)), f"{_LAST_BIN} or more"]
    cells = [[name, *(f"{counts[value]:,}" for value in range(_LAST_BIN + 1))] for name, counts in by_label.items()]
    print_table(["Figure 4: fragments by size", *columns], cells, numeric=range(1, len(columns) + 1))
    if figure is not None:
        draw(by_label, figure)


def _print_fragments(title: str, by_label: dict[str, FragmentUses]) -> None:
    for label, counted in by_label.items():
        print_table(
            [f"{title}, {label}", "uses"], [[str(fragment), f"{uses:,.1f}"] for fragment, uses in counted], numeric=(1,)
        )
        print()


if __name__ == "__main__":
    typer.run(main)
