"""Faults of charts and of randomized pruning, and the tests that must notice them."""

from tests.mutants.fault import Change, Fault

_BITEXTS = ("tests/samplers/charts/test_bitexts.py", "-k", "enumeration")
_SENTENCES = ("tests/samplers/charts/test_sentences.py", "-k", "cross or enumeration")
_STEP = ("tests/samplers/charts/test_pruning.py", "-k", "model_page")
_PRUNING = "tests/samplers/charts/test_pruning.py"
_AVERAGES = "tests/samplers/charts/test_averages.py"
_DOUBTS = ("tests/samplers/charts/test_doubts.py",)
_START = "tests/samplers/charts/test_start.py"
_SELECTIONS = ("tests/samplers/charts/test_pruning.py", "-k", "keep_their_size")

_TREES = ("tests/samplers/charts/test_tree_pruning.py", "-k", "converges")
_LEARNING = "tests/samplers/charts/test_learning.py"
_MISFITS = "tests/daemon/scoring/test_misfits.py"
_TREE_STEP = "selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1))\n        forest"

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
        "return PruningState(selected, np.array([values for values, _ in found])), [",
        "return PruningState(selected, np.where(selected, [values for values, _ in found], state.assigned)), [",
        _STEP,
    ),
    Fault(
        "the selection depends on the assignment",
        "charts/pruning/chain.py",
        "selected = next_selection(state.selected, of_selection)",
        "selected = next_selection(state.selected, of_selection) & state.assigned[0]",
        _STEP,
    ),
    Fault(
        "doubts depend on the assignment",
        "charts/pruning/chain.py",
        "doubtful_selection(self._doubts, self",
        "doubtful_selection(self._doubts + ~state.assigned[0], self",
        _STEP,
    ),
    Fault(
        "no mask is wide",
        "charts/pruning/chain.py",
        "plan % _WIDE == 0",
        "plan < 0",
        _STEP,
    ),
    Fault(
        "wide masks leave as few variables free as others",
        "charts/pruning/selection.py",
        "1.5 * variables / (branching + 1)",
        "1.0 * variables / (branching + 1)",
        (_PRUNING, "-k", "larger_rules"),
    ),
    Fault(
        "a remembered mask gives one derivation again and again",
        "charts/pruning/chain.py",
        "known.draws.pop()",
        "known.draws[-1]",
        (_PRUNING, "-k", "remembered"),
    ),
    Fault(
        "masks are remembered by their selection alone",
        "charts/pruning/chain.py",
        "mask = selected.tobytes(), (selected & assigned).tobytes()",
        "mask = selected.tobytes(), selected.tobytes()",
        _STEP,
    ),
    Fault(
        "derivations of one chart are drawn from one stream that begins anew",
        "charts/bitexts.py",
        "        number, random = draw(bitext.graph, inside, random, stack, edges)",
        "        number, _ = draw(bitext.graph, inside, random, stack, edges)",
        (_PRUNING, "-k", "is_drawn_has"),
    ),
    Fault(
        "both chains draw from one stream",
        "charts/pruning/chain.py",
        "(self._chains + 1) * plan + use",
        "(self._chains + 1) * plan + use * (use == self._chains)",
        (_PRUNING, "-k", "same_stream"),
    ),
    Fault(
        "a word receives from its partner what it sent that partner",
        "charts/pruning/doubts.py",
        "            sent[i, x] = before\n            before += pairs[i, x] * received[i, x]\n",
        "            before += pairs[i, x] * received[i, x]\n            sent[i, x] = before\n",
        _DOUBTS,
    ),
    Fault(
        "words are never alone in the model of doubts",
        "charts/pruning/doubts.py",
        "before = alone[i]",
        "before = 0.0",
        _DOUBTS,
    ),
    Fault(
        "a word that may do nothing else has an endless doubt",
        "charts/pruning/doubts.py",
        "1.0 / max(sent[i, x] + after, _SMALLEST)",
        "1.0 / (sent[i, x] + after)",
        (*_DOUBTS, "-k", "without_another_choice"),
    ),
    Fault(
        "a variable that was left out too soon is not taken in again",
        "charts/pruning/start.py",
        "positive[variable] = trials.total(positive) > 0",
        "positive[variable] = False",
        (_START, "-k", "taken_in_again"),
    ),
    Fault(
        "the second start is the last exchange",
        "charts/pruning/start.py",
        "if total > most:",
        "if total > 0:",
        (_START, "-k", "best_exchange or both_cases"),
    ),
    Fault(
        "what could be left out instead is in no doubt",
        "charts/pruning/start.py",
        "np.maximum(doubts[places], _LEFT_OUT / max(len(places), 1))",
        "doubts[places]",
        (_START, "-k", "in_doubt"),
    ),
    Fault(
        "variables that could not be left out instead are in doubt",
        "charts/pruning/start.py",
        "            if total > 0:\n",
        "            if total >= 0:\n",
        (_START, "-k", "in_doubt"),
    ),
    Fault(
        "only charts of starts are counted",
        "charts/pruning/start.py",
        "edges = [made for _, made in self._made.values()]",
        "edges: list[int] = []",
        (_START, "-k", "counted"),
    ),
    Fault(
        "variables are freed one as often as another",
        "charts/pruning/selection.py",
        "                left -= doubts[v]",
        "                left -= whole / 4",
        (_PRUNING, "-k", "freed_one_after"),
    ),
    Fault(
        "masks of one selection count as often as they came",
        "charts/pruning/averages.py",
        "np.exp(mask.log_total - whole) * mask.features",
        "mask.features / len(self.masks)",
        (_PRUNING, "-k", "of_one_selection"),
    ),
    Fault(
        "selections count as often as they came, whatever their masks keep",
        "charts/pruning/averages.py",
        "/ (1 - share) ** 2",
        "/ (1 - share) ** 0",
        (_AVERAGES, "-k", "leave_out"),
    ),
    Fault(
        "a selection's own derivations say how much its masks keep",
        "charts/pruning/averages.py",
        "if step.selection != best]",
        "if step.selection]",
        (_AVERAGES, "-k", "drawn_elsewhere"),
    ),
    Fault(
        "the first steps say how much masks keep, as all others do",
        "charts/pruning/averages.py",
        "steps[len(steps) // _FIRST :]",
        "steps",
        (_AVERAGES, "-k", "drawn_elsewhere"),
    ),
    Fault(
        "derivations are asked for all their values, and not for those that are fixed",
        "charts/pruning/averages.py",
        "(values & fixed).tobytes() in masks",
        "values.tobytes() in masks",
        (_AVERAGES, "-k", "drawn_elsewhere"),
    ),
    Fault(
        "errors are those of plain means, however much is kept",
        "charts/pruning/averages.py",
        "np.sqrt(kept * spread + (1 - kept) * chance)",
        "np.sqrt(chance)",
        (_AVERAGES, "-k", "leave_out"),
    ),
    Fault(
        "what masks keep is taken for the whole",
        "charts/pruning/totals.py",
        "most.log_total - float(np.log(most.share))",
        "most.log_total",
        ("tests/samplers/charts/test_totals.py", "-k", "over_their_share"),
    ),
    Fault(
        "as many variables are selected, however large the rules",
        "charts/pruning/selection.py",
        "round(branching * variables / (branching + 1))",
        "round(2 * variables / 3)",
        (_PRUNING, "-k", "larger_rules"),
    ),
    Fault(
        "one variable alone may be free",
        "charts/pruning/selection.py",
        "min(share, variables - 2)",
        "min(share, variables - 1)",
        (_PRUNING, "-k", "larger_rules"),
    ),
    Fault(
        "rules with words of their own say how charts grow",
        "charts/pairs.py",
        "    arity[of_rule[rules.source >= 0]] = 0\n",
        "",
        (_PRUNING, "-k", "say_how_charts_grow"),
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
        "self._masked(selected, assigned, ",
        "self._masked(state.selected, assigned, ",
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
    Fault(
        "a nonterminal of a rule is taken to have words where it may have none",
        "charts/reach.py",
        "at += least",
        "at += 1",
        ("tests/samplers/charts/test_reach.py",),
    ),
    # Trees that are parsed by masks.
    Fault(
        "spans that are not selected keep their values",
        "charts/pruning/trees.py",
        "return PruningState(selected, self._drawn(forest, key, 2 * plan)[None]), forest",
        "return PruningState(selected, np.where(selected, self._drawn(forest, key, 2 * plan), state.assigned)), forest",
        _TREES,
    ),
    Fault(
        "the selection of spans depends on their values",
        "charts/pruning/trees.py",
        _TREE_STEP,
        _TREE_STEP.replace("\n", " & state.assigned[0]\n"),
        _TREES,
    ),
    Fault(
        "the chart of a sentence is that of the selection before",
        "charts/pruning/trees.py",
        "self._fill(selected, state.assigned[0]), self._root)",
        "self._fill(state.selected, state.assigned[0]), self._root)",
        _TREES,
    ),
    Fault(
        "every mask's tree is drawn from one stream",
        "charts/pruning/trees.py",
        "self._drawn(forest, key, 2 * plan)",
        "self._drawn(forest, key, 1)",
        _TREES,
    ),
    Fault(
        "pruned spans are filled",
        "charts/chart.py",
        "            if not kept[cell]:\n                continue\n",
        "",
        ("tests/samplers/charts/test_tree_pruning.py", "-k", "masked_sums"),
    ),
    # Learning by soft counts.
    Fault(
        "soft counts of several masks are summed and not averaged",
        "charts/pruning/learning.py",
        "features.append(total / self._masks)",
        "features.append(total)",
        (_LEARNING, "-k", "long_run"),
    ),
    Fault(
        "each mask starts from the first derivation",
        "charts/pruning/learning.py",
        "self._states[number], [pruned] = kernel.step",
        "_, [pruned] = kernel.step",
        (_LEARNING, "-k", "long_run"),
    ),
    Fault(
        "rules of the last pair alone are counted",
        "charts/pruning/learning.py",
        "rules += found[n * m + n + m :]",
        "rules = found[n * m + n + m :]",
        (_LEARNING, "-k", "raises_the_likelihood"),
    ),
    Fault(
        "a chain's parts are those of its reverse",
        "charts/pruning/learning.py",
        "grammar.closure.T @ share @ grammar.closure.T",
        "grammar.closure @ share @ grammar.closure",
        (_LEARNING, "-k", "within_chains"),
    ),
    # Words that do not belong.
    Fault(
        "a sentence's own neighbours are counted",
        "daemon/scoring/contexts.py",
        "- (codes[:, None] == own).sum(axis=1)",
        "- 0 * (codes[:, None] == own).sum(axis=1)",
        (_MISFITS, "-k", "left_out"),
    ),
    Fault(
        "a source word is looked at as a target word",
        "daemon/scoring/misfits.py",
        "together = fit.together if side else fit.together.T",
        "together = fit.together if side else fit.together[::-1].T",
        (_MISFITS, "-k", "equations"),
    ),
    Fault(
        "links back are those of the other side's words",
        "daemon/scoring/misfits.py",
        "back = (together + others[:, None]) / (fit.links[side] + 1)",
        "back = (together + others[:, None]) / (fit.links[other][:, None] + 1)",
        (_MISFITS, "-k", "equations"),
    ),
    Fault(
        "a word's share is not that among the words of its side",
        "daemon/scoring/misfits.py",
        "back.sum(axis=1, keepdims=True)",
        "back.sum(axis=0, keepdims=True)",
        (_MISFITS, "-k", "equations"),
    ),
    Fault(
        "odds are those among the words that were shown",
        "daemon/scoring/misfits.py",
        "@ self._weights - self._prior",
        "@ self._weights",
        (_MISFITS, "-k", "taught"),
    ),
    Fault(
        "a short sentence has no word replaced",
        "daemon/scoring/misfits.py",
        "max(1, round(len(words) / 5))",
        "round(len(words) / 5)",
        (_MISFITS, "-k", "fifth"),
    ),
    Fault(
        "a word is replaced by itself",
        "daemon/scoring/misfits.py",
        "if word != spoiled[place]:",
        "if word >= 0:",
        (_MISFITS, "-k", "fifth or all_words"),
    ),
)
