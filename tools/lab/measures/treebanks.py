"""Learn tree-substitution grammars without a store, and measure parsing."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from hierogram.daemon.learning.kinds.kind import ChainConfig, EmptyCounts, SweepRequest
from hierogram.daemon.learning.kinds.trees import TreeChain, load_trees
from hierogram.daemon.text.treebanks.reading import read_trees
from hierogram.daemon.text.treebanks.transformations import (
    Transformations,
    clean_tree,
    find_known_words,
    replace_unknown,
    transform_tree,
)
from hierogram.daemon.text.treebanks.trees import Tree, preorder, read_tree, with_words
from hierogram.samplers.counts.deltas import add_state, empty_deltas
from hierogram.samplers.counts.texts import render_fragments
from hierogram.samplers.forests.averages import empty_averages
from hierogram.samplers.forests.derivations import initial_state
from hierogram.samplers.grammar.schedules import Annealing
from hierogram.samplers.grammar.settings import BASES, JOINED, TREES, UNIFORM
from hierogram.storage.records.settings import Settings
from hierogram.tools.lab.measures.results import Corpus, Figures, time_call
from hierogram.tools.treebanks.approximation import approximate
from hierogram.tools.treebanks.grammars import Prior, TreeGrammar
from hierogram.tools.treebanks.parsing import Parser
from hierogram.tools.treebanks.requests import MER, MPD

_SWEEPS, _STEADY_SWEEPS = 60, 10
"""Number of sweeps of the measured chain, and of those at temperature 1."""
_MIN_WORDS, _MAX_WORDS, _MAX_SENTENCES = 38, 42, 15
"""Lengths and maximum number of the parsed sentences."""


def list_words(tree: Tree) -> list[str]:
    """Return the words of a tree in order."""
    return [node for node in preorder(tree) if isinstance(node, str)]


def sample_treebank(
    texts: Sequence[str],
    *,
    base: str = UNIFORM,
    seed: int = 1,
    annealing: Annealing | None = None,
    sweeps: int = 100,
    start: str = JOINED,
    report: Callable[[int, TreeChain], None] | None = None,
) -> TreeChain:
    """Learn a tree-substitution grammar from trees or packed forests in brackets, without a store.

    Runs the sweeps of `annealing`, then `sweeps` more sweeps. `report` receives the sweep number and the chain after
    each sweep. Raises `BracketError` and `ForestTooLargeError`.
    """
    schedule = annealing or Annealing()
    settings = Settings(grammar=TREES, base=base, seed=seed, annealing=schedule.sweeps, temperature=schedule.start)
    loaded = load_trees(texts, range(1, len(texts) + 1))
    chain = TreeChain(EmptyCounts(settings, (0, 0)), ChainConfig())
    state, averages = initial_state(seed, loaded.batch, start), empty_averages(loaded.batch)
    all_trees = np.ones(len(texts), np.bool_)
    chain.add_pairs(loaded, state, ~all_trees)
    run_sweep = chain.sweep(loaded)
    for number in range(1, schedule.sweeps + sweeps + 1):
        request = SweepRequest(np.full(len(texts), number, np.int64), all_trees, ~all_trees)
        state, _ = run_sweep(state, averages, request, lambda _: None)
        if report:
            report(number, chain)
    return chain


def prepare_trees(trees: Sequence[Tree], transformations: Transformations) -> list[Tree]:
    """Transform cleaned trees for learning, and replace their rare words by classes of unknown words."""
    counts = Counter(word for tree in trees for word in list_words(tree))
    vocabulary = find_known_words(counts, transformations.rare)
    known = (with_words(tree, replace_unknown(list_words(tree), vocabulary)) for tree in trees)
    return [transform_tree(tree, transformations) for tree in known]


class CountedFragment(NamedTuple):
    """Root label, fragment in bracket notation, and number of its uses."""

    label: str
    fragment: str
    uses: int


def count_fragments(chain: TreeChain) -> list[CountedFragment]:
    """Return the fragments in the current derivations, sorted by label and descending uses."""
    loaded, state = chain.loaded, chain.state
    assert state is not None
    deltas = add_state(empty_deltas(), loaded.batch, state.derivations, (1, 0, 0, 0), np.arange(loaded.batch.size))
    chosen = np.arange(deltas.entries)
    roots, texts, _ = render_fragments(deltas, chosen, loaded.labels, loaded.words)
    counted = map(CountedFragment, roots, texts, deltas.entry["count"][chosen].tolist())
    return sorted(counted, key=lambda fragment: (fragment.label, -fragment.uses, fragment.fragment))


def parse_fragments(chain: TreeChain) -> list[tuple[Tree, float]]:
    """Return the fragments in the current derivations as trees, with their numbers of uses."""
    return [(read_tree(counted.fragment, frontiers=True), float(counted.uses)) for counted in count_fragments(chain)]


def to_context_free(grammar: TreeGrammar) -> TreeGrammar:
    """Return the context-free grammar of all productions in the fragments, with their summed uses."""
    return TreeGrammar(
        [
            (Tree(label, tuple(child if lexical else Tree(child) for child in right)), count)
            for (label, right, lexical), count in grammar.productions().items()
        ]
    )


def measure_parsing(chain: TreeChain, trees: list[str], seed: int) -> Figures:
    """Measure the median processor seconds to parse a sentence of 38 to 42 words, by objective.

    The figures are None if no tree has this length.
    """
    fragments = parse_fragments(chain)
    priors = {label: Prior(*parameters) for label, *parameters in chain.labels()}
    grammar = approximate(TreeGrammar(fragments), Transformations().root, priors)
    parser = Parser(grammar, Transformations().root, 0, seed)
    sentences = [list_words(read_tree(text)) for text in trees]
    chosen = [words for words in sentences if _MIN_WORDS <= len(words) <= _MAX_WORDS][:_MAX_SENTENCES]
    rules = sum(map(len, grammar.rules))
    figures: Figures = {"sentences": len(chosen), "fragments": len(fragments), "chart_rules": rules}
    for objective in (MPD, MER):
        seconds = []
        for number, words in enumerate([*chosen[:1], *chosen]):
            seconds.append(time_call(partial(parser.parse, words, number, objective), time.process_time)[0])
        # Omit the first parse, which includes compilation. Its sentence is parsed twice.
        figures[f"{objective}_median_seconds"] = float(np.median(seconds[1:])) if chosen else None
    return figures


def measure_trees(corpus: Corpus) -> Figures:
    """Learn a grammar of `corpus.treebank` by an annealed chain, and measure parsing."""
    transformations = Transformations()
    clean = [clean_tree(tree, transformations) for tree in read_trees(str(corpus.treebank), corpus.pairs)]
    texts = [str(tree) for tree in prepare_trees(clean, transformations)]
    annealing = Annealing(_SWEEPS - _STEADY_SWEEPS)
    chain = sample_treebank(texts, base=BASES[-1], seed=corpus.seed, annealing=annealing, sweeps=_STEADY_SWEEPS)
    return {"trees": len(texts), "parsing": measure_parsing(chain, texts, corpus.seed)}
