"""Faults in charts and randomized pruning, and the tests that must notice them."""

from tests.mutants.fault import Change, Fault

_BITEXTS = ("tests/samplers/charts/test_pair_graphs.py", "-k", "masked_charts")
_STEP = ("tests/samplers/charts/test_pruning.py", "-k", "documented_algorithm")
_PRUNING = "tests/samplers/charts/test_pruning.py"
_AVERAGES = "tests/samplers/charts/test_averages.py"
_DOUBTS = ("tests/samplers/charts/test_doubts.py",)
_START = "tests/samplers/charts/test_start.py"
_LEARNING = "tests/tools/lab/papers/pruning/test_learning.py"
_MISFITS = "tests/tools/scores/test_misfits.py"
_LEXICON = ("tests/samplers/scores/test_lexicon.py",)

_ALL_BISPANS = Change(
    "charts/pairs.py",
    "table.covered[i, x] + (1 if mask[i, x] > 0 else 0)",
    "table.covered[i, x]",
)
"""The mask excludes no bispan: rules that emit separate words are only rejected by later checks."""

CHART_FAULTS = (
    Fault(
        "a positive pair of words is not required",
        "charts/pruning/pair_charts.py",
        "np.where(assigned[selected], 1, -1)",
        "np.where(assigned[selected], 0, -1)",
        _STEP,
    ),
    Fault(
        "rules of words and nonterminals may emit the words of a positive pair separately",
        "charts/pair_graphs.py",
        "    if not _agrees(task.mask, table, segments, segment, targets):",
        "    if segments.arity[segment] == 0 and not _agrees(task.mask, table, segments, segment, targets):",
        _BITEXTS,
    ),
    Fault(
        "unselected variables keep their values",
        "charts/pruning/chain.py",
        "return np.array([values for values, _ in found]), [",
        "return np.where(selected, [values for values, _ in found], state), [",
        _STEP,
    ),
    Fault(
        "the selection depends on the assignment",
        "charts/pruning/chain.py",
        "selected = self.select(key, plan)",
        "selected = self.select(key, plan) & state[0]",
        _STEP,
    ),
    Fault(
        "the most doubtful variables are freed at all wide steps",
        "charts/pruning/chain.py",
        "if plan != _WIDE:",
        "if plan % _WIDE:",
        (_PRUNING, "-k", "first_wide_step"),
    ),
    Fault(
        "no step is wide",
        "charts/pruning/chain.py",
        "if plan % _WIDE:",
        "if plan > 0:",
        (_PRUNING, "-k", "wide_steps"),
    ),
    Fault(
        "wide steps free as few variables as others",
        "charts/pruning/chain.py",
        "1.5 * variables / (branching + 1)",
        "1.0 * variables / (branching + 1)",
        (_PRUNING, "-k", "wide_steps"),
    ),
    Fault(
        "every eighth step frees most variables, instead of steps 8, 16, 32 and so on",
        "charts/pruning/chain.py",
        "plan >= _WIDEST and plan.bit_count() == 1",
        "plan % _WIDEST == 0",
        (_PRUNING, "-k", "wide_steps"),
    ),
    Fault(
        "a mask may select nothing",
        "charts/pruning/chain.py",
        "min(free, variables - 1)",
        "free",
        (_PRUNING, "-k", "wide_steps"),
    ),
    Fault(
        "the number of free variables ignores the doubts",
        "charts/pruning/chain.py",
        "max(least, min(ceil(variables / 2), doubtful))",
        "least",
        (_PRUNING, "-k", "follows_the_doubts"),
    ),
    Fault(
        "links known to be absent are emitted in the model of doubts",
        "charts/pruning/pair_charts.py",
        "pairs[i[without], x[without]] = 0",
        "pairs[i[without], x[without]] *= 1",
        (*_DOUBTS, "-k", "absent_links"),
    ),
    Fault(
        "variables that are never preferred are not in doubt",
        "charts/pruning/chain.py",
        "chart.doubts(~start)",
        "chart.doubts(chart.preferred_links() & ~start)",
        (_START, "-k", "negative_in_both_starts"),
    ),
    Fault(
        "the model of doubts ignores what the first start omits",
        "charts/pruning/chain.py",
        "for start in (positive, other):",
        "for start in (other,):",
        (_START, "-k", "include_the_doubts or no_doubts or largest_doubt"),
    ),
    Fault(
        "a remembered mask always gives the same derivation",
        "charts/pruning/chain.py",
        "unused.pop()",
        "unused[-1]",
        (_PRUNING, "-k", "remembered"),
    ),
    Fault(
        "masks are cached by selection only",
        "charts/pruning/chain.py",
        "mask = selected.tobytes(), (selected & assigned).tobytes()",
        "mask = selected.tobytes(), selected.tobytes()",
        _STEP,
    ),
    Fault(
        "derivations of one chart are drawn from a restarted stream",
        "charts/pair_graphs.py",
        "        number, stream_state = draw(pair_graph.graph, inside, stream_state, stack, edges)",
        "        number, _ = draw(pair_graph.graph, inside, stream_state, stack, edges)",
        (_PRUNING, "-k", "drawn_derivations_follow"),
    ),
    Fault(
        "both chains draw from one stream",
        "charts/pruning/chain.py",
        "(self.chains + 1) * plan + number",
        "(self.chains + 1) * plan + number * (number == self.chains)",
        (_PRUNING, "-k", "random_stream"),
    ),
    Fault(
        "a word receives its own message from its partner",
        "charts/pruning/pair_charts.py",
        "            sent[i, x] = before\n            before += pairs[i, x] * received[i, x]\n",
        "            before += pairs[i, x] * received[i, x]\n            sent[i, x] = before\n",
        _DOUBTS,
    ),
    Fault(
        "words are never alone in the model of doubts",
        "charts/pruning/pair_charts.py",
        "before = nulls[i]",
        "before = 0.0",
        _DOUBTS,
    ),
    Fault(
        "a word without another choice has infinite doubt",
        "charts/pruning/pair_charts.py",
        "1.0 / max(sent[i, x] + after, _SMALLEST)",
        "1.0 / (sent[i, x] + after)",
        (*_DOUBTS, "-k", "without_another_choice"),
    ),
    Fault(
        "a variable excluded too early is not added back",
        "charts/pruning/chain.py",
        "positive[variable] = total > 0",
        "positive[variable] = False",
        (_START, "-k", "added_back"),
    ),
    Fault(
        "the second start is the last exchange",
        "charts/pruning/chain.py",
        "if total > most:",
        "if total > 0:",
        (_START, "-k", "best_variable or may_be_equal"),
    ),
    Fault(
        "all variables are freed equally often",
        "charts/pruning/chain.py",
        "                threshold -= doubts[v]",
        "                threshold -= total / 4",
        (_PRUNING, "-k", "without_replacement"),
    ),
    Fault(
        "masks of one selection are weighted by frequency",
        "charts/pruning/chain.py",
        "np.exp(mask.log_total - log_total) * mask.features",
        "mask.features / len(self.masks)",
        (_PRUNING, "-k", "all_masks_of_a"),
    ),
    Fault(
        "selections are weighted by frequency, not by coverage",
        "charts/pruning/chain.py",
        "/ (1 - share) ** 2",
        "/ (1 - share) ** 0",
        (_AVERAGES, "-k", "share_they_omit"),
    ),
    Fault(
        "coverage is estimated from a selection's own derivations",
        "charts/pruning/chain.py",
        "if step.selection != best]",
        "if step.selection]",
        (_AVERAGES, "-k", "other_selections"),
    ),
    Fault(
        "coverage estimates include the first steps",
        "charts/pruning/chain.py",
        "steps[len(steps) // _BURN_IN_DIVISOR :]",
        "steps",
        (_AVERAGES, "-k", "other_selections"),
    ),
    Fault(
        "derivations are compared in all values instead of only fixed values",
        "charts/pruning/chain.py",
        "(values & selected).tobytes() in masks",
        "values.tobytes() in masks",
        (_AVERAGES, "-k", "other_selections"),
    ),
    Fault(
        "the number of selected variables ignores the size of rules",
        "charts/pruning/chain.py",
        "round(branching * variables / (branching + 1))",
        "round(2 * variables / 3)",
        (_PRUNING, "-k", "larger_rules"),
    ),
    Fault(
        "a single variable may be free",
        "charts/pruning/chain.py",
        "min(share, variables - 2)",
        "min(share, variables - 1)",
        (_PRUNING, "-k", "larger_rules"),
    ),
    Fault(
        "words emitted alone are not masked",
        "charts/pair_graphs.py",
        "    if not _agrees(task.mask, table, segments, segment, targets):",
        "    if targets * segments.emitted[segment] and not _agrees(task.mask, table, segments, segment, targets):",
        _BITEXTS,
        (_ALL_BISPANS,),
    ),
    Fault(
        "soft counts come from the previous mask",
        "charts/pruning/chain.py",
        "self._masked(selected, assigned, ",
        "self._masked(self.select(key, plan - 1), assigned, ",
        _STEP,
    ),
    Fault(
        "a bispan may contain one word of a positive pair",
        "charts/pairs.py",
        "divided = divided or inside < covered[n, x]",
        "divided = divided or inside < 0",
        ("tests/samplers/charts/test_pair_graphs.py", "-k", "whole_positive_pairs"),
    ),
    Fault(
        "outside sums omit the rules above",
        "charts/hypergraph.py",
        "product = above * graph.weight[e]",
        "product = (above > 0.0) * graph.weight[e]",
        _BITEXTS,
    ),
    # Learning with soft counts.
    Fault(
        "soft counts of several masks are summed instead of averaged",
        "tools/lab/papers/pruning/learning.py",
        "features.append(total / self._masks)",
        "features.append(total)",
        (_LEARNING, "-k", "soft_counts_of_many"),
    ),
    Fault(
        "each mask starts from the first derivation",
        "tools/lab/papers/pruning/learning.py",
        "self._states[number], [pruned] = kernel.step",
        "_, [pruned] = kernel.step",
        (_LEARNING, "-k", "soft_counts_of_many"),
    ),
    Fault(
        "only rules of the last pair are counted",
        "tools/lab/papers/pruning/learning.py",
        "rules += feature[n * m + n + m :]",
        "rules = feature[n * m + n + m :]",
        (_LEARNING, "-k", "raises_the_likelihood"),
    ),
    # Misfit words.
    Fault(
        "links of a source word are counted as links of a target word",
        "scores/lexicon.py",
        "return facts.link_counts[other, word] if side == 1 else facts.link_counts[word, other]",
        "return facts.link_counts[other, word] if side == 1 else facts.link_counts[0, other]",
        _LEXICON,
    ),
    Fault(
        "reverse probabilities are divided by the links of the other side's words",
        "scores/lexicon.py",
        "            backward = (linked + opposite_unigram[k]) / (facts.links[side, j, 0] + 1)",
        "            backward = (linked + opposite_unigram[k]) / (facts.links[1 - side, k, 0] + 1)",
        _LEXICON,
    ),
    Fault(
        "a word's share is not relative to the words of its side",
        "scores/lexicon.py",
        "            share += backward / facts.scratch[k]",
        "            share += backward",
        _LEXICON,
    ),
    Fault(
        "misfit odds are not corrected for the share of replaced training words",
        "scores/scorer.py",
        "weights[EXPANDED - 1] - classifiers.prior[side]",
        "weights[EXPANDED - 1]",
        (_MISFITS, "-k", "separates_kept"),
    ),
    Fault(
        "a short sentence has no word replaced",
        "tools/scores/scoring.py",
        "max(1, round(len(words) / 5))",
        "round(len(words) / 5)",
        (_MISFITS, "-k", "fifth"),
    ),
    Fault(
        "a word is replaced by itself",
        "tools/scores/scoring.py",
        "if word != corrupted[position]:",
        "if word >= 0:",
        (_MISFITS, "-k", "fifth or all_words_are_the_same"),
    ),
)
