"""Recover the ten rules of Figure 3 of [CGB09] from 50 trees of their grammar.

python -m hierogram.tools.lab.papers.ten_rules
"""

from random import Random
from typing import Annotated

import typer

from hierogram.daemon.cli.common import plural
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import UNIFORM
from hierogram.tools.lab.measures.treebanks import count_fragments, sample_treebank

RULES = {
    "(S (A))",
    "(S (B))",
    *(f"({head} ({below}) ({below}))" for head in "AB" for below in "AB"),
    *(f"({head} ({below} {head.lower()}) ({below} {head.lower()}))" for head in "AB" for below in "AB"),
}
"""Rules of the grammar, equally probable for each label.

S expands to A or B. Both children of A or B have the same label. If the children expand to words, the words agree with
the grandparent. No context-free grammar represents this.
"""

_MAX_WORDS = 200
_TEMPERATURE = 3.0
"""Initial temperature of annealing, as in the paper."""


def _tree(random: Random, label: str) -> str:
    """Return a random tree of the grammar below `label`. Raises `RecursionError` if it is too deep."""
    below = random.choice("AB")
    if random.random() < 0.5:
        return f"({label} {_tree(random, below)} {_tree(random, below)})"
    return f"({label} ({below} {label.lower()}) ({below} {label.lower()}))"


def treebank(seed: int, trees: int = 50) -> list[str]:
    """Return random trees of up to 200 words. Larger trees are drawn again."""
    random = Random(seed)
    texts: list[str] = []
    while len(texts) < trees:
        try:
            text = f"(S {_tree(random, random.choice('AB'))})"
        except RecursionError:
            continue
        if text.count(" a)") + text.count(" b)") <= _MAX_WORDS:
            texts.append(text)
    return texts


def learn_fragments(seed: int, sweeps: int) -> dict[str, int]:
    """Run an annealed chain over random trees. Returns the final fragments and their uses."""
    annealing = Annealing(sweeps, _TEMPERATURE)
    chain = sample_treebank(treebank(seed), base=UNIFORM, seed=seed, annealing=annealing, sweeps=0)
    return {fragment.fragment: fragment.uses for fragment in count_fragments(chain)}


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds of trees and chains, starting at 1.")] = 10,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps while the temperature falls from 3 to 1.")] = 2000,
) -> None:
    """Learn from 50 trees for each seed, and print the numbers of recovered rules and of other fragments."""
    exact = 0
    for seed in range(1, seeds + 1):
        counts = learn_fragments(seed, sweeps)
        exact += set(counts) == RULES
        others = plural(len(set(counts) - RULES), "other fragment")
        print(f"seed {seed}: {plural(len(set(counts) & RULES), 'rule')} of 10, {others}")
    print(f"{exact} of {plural(seeds, 'seed')} end in exactly the ten rules; uses and fragments of the last seed:")
    for fragment, uses in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(uses, fragment, "" if fragment in RULES else "(not of the grammar)", sep="\t")


if __name__ == "__main__":
    typer.run(main)
