"""Sweeps over a treebank: cut decisions a second on one core."""

import time

import numpy as np

from hierogram.daemon.tree_batches import load_trees
from hierogram.daemon.tree_chains import TreeChain
from hierogram.daemon.treebanks.reading import read_trees
from hierogram.daemon.treebanks.transformations import Transformations, cleaned, transformed
from hierogram.daemon.treebanks.unknown_words import vocabulary_of
from hierogram.samplers.schedule import Annealing
from hierogram.samplers.tree_sweeps import init_trees
from hierogram.tools.measures.results import Corpus, Figures

_SWEEPS = 60
_STEADY = 10


def training_texts(path: str, trees: int | None = None) -> list[str]:
    """The (first) trees of a treebank in brackets, transformed as grammars are learned from them by default."""
    how = Transformations()
    clean = [cleaned(tree, how) for tree in read_trees(path, trees)]
    vocabulary = vocabulary_of(clean, how.rare)
    return [str(transformed(vocabulary.in_tree(tree), how)) for tree in clean]


def measure_trees(corpus: Corpus) -> Figures:
    """A chain annealed from whole trees: decisions a second in its first sweep, in its last ones, and over all."""
    texts = training_texts(corpus.extra["treebank"], corpus.pairs)
    figures: Figures = {"trees": len(texts)}
    for base in ("uniform", "pcfg"):
        loaded = load_trees(texts, range(1, len(texts) + 1))
        warm = load_trees(texts[:2], [1, 2])
        TreeChain(warm, init_trees(corpus.seed, warm.trees), base, corpus.seed).sweep(1, np.ones(2, int), np.ones(2))
        chain = TreeChain(loaded, init_trees(corpus.seed, loaded.trees), base, corpus.seed)
        annealing = Annealing(_SWEEPS - _STEADY)
        before = chain.log_likelihood()
        decisions: list[int] = []
        seconds: list[float] = []
        processor: list[float] = []
        for number in range(1, _SWEEPS + 1):
            own = np.full(len(texts), number, np.int64)
            started, used = time.perf_counter(), time.process_time()
            info = chain.sweep(number, own, annealing.temperatures(own))
            seconds.append(time.perf_counter() - started)
            processor.append(time.process_time() - used)
            decisions.append(info.cuts_sampled)
        figures[base] = {
            "nodes": loaded.batch.forests.nodes,
            "cut_decisions_per_sweep": decisions[-1],
            "first_sweep_decisions_per_second": decisions[0] / seconds[0],
            "last_sweeps_decisions_per_second": sum(decisions[-_STEADY:]) / sum(seconds[-_STEADY:]),
            "decisions_per_second": sum(decisions) / sum(seconds),
            "decisions_per_processor_second": sum(decisions) / sum(processor),
            "fragments": chain.table.rule_types,
            "log_likelihood_before": before,
            "log_likelihood_after": chain.log_likelihood(),
        }
    return figures
