"""Faults of charts and of randomized pruning, and the tests that must notice them."""

from tests.mutants.fault import Change, Fault

_BITEXTS = ("tests/samplers/charts/test_bitexts.py", "-k", "enumeration")
_SENTENCES = ("tests/samplers/charts/test_sentences.py", "-k", "cross or enumeration")
_STEP = ("tests/samplers/charts/test_pruning.py", "-k", "model_page")
_SELECTIONS = ("tests/samplers/charts/test_pruning.py", "-k", "keep_their_size")

_ALL_BISPANS = Change(
    "charts/pairs.py",
    "cells.covered[i, x] + (1 if fixed[i, x] > 0 else 0)",
    "cells.covered[i, x]",
)
"""Bispans are not left out by the mask: rules that emit words apart are seen only where they are checked."""

CHART_FAULTS = (
    Fault(
        "spans without a word in common are pruned",
        "charts/pruning/masks.py",
        "if (i < start and start < j and j < end) or",
        "if (i < start and j < end) or",
        _SENTENCES,
    ),
    Fault(
        "a positive pair of words is not required",
        "charts/pruning/masks.py",
        "np.where(assigned[selected], 1, -1)",
        "np.where(assigned[selected], 0, -1)",
        _STEP,
    ),
    Fault(
        "rules of words and nonterminals may emit a positive pair's words apart",
        "charts/bitexts.py",
        "    if not _agrees(task.mask, cells, segments, number, targets):",
        "    if segments.arity[number] == 0 and not _agrees(task.mask, cells, segments, number, targets):",
        _BITEXTS,
    ),
    Fault(
        "unselected variables keep their values",
        "charts/pruning/chain.py",
        "return PruningState(selected, self.system.assignment(drawn)), pruned",
        "return PruningState(selected, np.where(selected, self.system.assignment(drawn), state.assigned)), pruned",
        _STEP,
    ),
    Fault(
        "the selection depends on the assignment",
        "charts/pruning/chain.py",
        "selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1))",
        "selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1)) & state.assigned",
        _STEP,
    ),
    Fault(
        "half of the selected variables stay, whatever their number",
        "charts/pruning/selection.py",
        "int(selected.sum()) - int(following.sum())",
        "int(selected.sum()) // 2",
        _SELECTIONS,
    ),
    Fault(
        "words that are emitted alone are not masked",
        "charts/bitexts.py",
        "    if not _agrees(task.mask, cells, segments, number, targets):",
        "    if targets * segments.emitted[number] > 0 and not _agrees(task.mask, cells, segments, number, targets):",
        _BITEXTS,
        (_ALL_BISPANS,),
    ),
    Fault(
        "soft counts are those of the mask before",
        "charts/pruning/chain.py",
        "        graph = self.system.build(selected, state.assigned)\n        scores: Scores",
        "        graph = self.system.build(state.selected, state.assigned)\n        scores: Scores",
        _STEP,
    ),
    Fault(
        "a bispan may hold one word of a positive pair",
        "charts/pairs.py",
        "divided = divided or inside < covered[n, x]",
        "divided = divided or inside < 0",
        ("tests/samplers/charts/test_bitexts.py", "-k", "items_of_a_mask"),
    ),
    Fault(
        "outside sums leave out what is above",
        "charts/hypergraph.py",
        "product = above * graph.weight[e]",
        "product = (above > 0.0) * graph.weight[e]",
        _BITEXTS,
    ),
)
