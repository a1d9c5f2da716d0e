"""Faults of refined nonterminals: labels of phrases, rules with them, decoding with them, classes of words; sub-labels
of trees.
"""

from tests.mutants.fault import Fault

_FORESTS = ("tests/samplers/forests/test_forest_kernel.py", "-k", "labels")
_RULES = ("tests/samplers/counts/test_rule_identity.py", "-k", "refined")
_DECODING = ("tests/samplers/decoding/test_decoding.py", "-k", "with_labels")
_CLASSES = ("tests/samplers/language_models/test_classes.py",)
_FORMATS = ("tests/daemon/exports/test_formats.py", "-k", "cdec or moses or glue")
_FILES = ("tests/tools/translation/test_rule_files.py", "-k", "all_formats and (cdec or moses)")

_DIVIDED = ("tests/samplers/trees/test_tree_sampler.py", "-k", "draw_sub_labels")
_STORED = ("tests/daemon/learning/test_tree_learning.py", "-k", "goes_on and sqlite and 2")

LABEL_FAULTS = (
    # Phrases and rules.
    Fault(
        "the class of a phrase's last word does not count",
        "forests/forest.py",
        "different * left + right",
        "different * left",
        _FORESTS,
    ),
    Fault(
        "a phrase's last word is that behind it",
        "forests/forest.py",
        'np.int64(node["target_end"]) - 1]]',
        'np.int64(node["target_end"]) - 2]]',
        _FORESTS,
    ),
    Fault(
        "labels of phrases stand around them, as in trees",
        "forests/fragments.py",
        'bracketed = here["bracketed"]',
        'bracketed = here["label"]',
        _RULES,
    ),
    Fault(
        "rules are not told apart by labels on the source side",
        "forests/fragments.py",
        "        source_hash += np.uint64(is_cut * label) * LABEL\n",
        "",
        _RULES,
    ),
    Fault(
        "rules are not told apart by labels on the target side",
        "forests/fragments.py",
        ' + np.uint64(is_cut * np.int64(node[t]["label"])) * LABEL',
        "",
        _RULES,
    ),
    Fault(
        "rules have no label",
        "counts/deltas.py",
        "deltas.labels[entry] = label_of(v, view)",
        "deltas.labels[entry] = 0",
        _RULES,
    ),
    Fault(
        "labels are not written",
        "counts/texts.py",
        "if number >= LABEL_STEP:",
        "if number < 0:",
        _RULES,
    ),
    Fault(
        "keys of rules do not know labels",
        "grammar/keys.py",
        " + symbol // LABEL_STEP * int(LABEL)",
        "",
        _RULES,
    ),
    # Sub-labels of trees.
    Fault(
        "sub-labels of children cost nothing",
        "trees/models.py",
        "np.log(heads) - np.log(expansions.choices())",
        "np.log(heads)",
        _DIVIDED,
    ),
    Fault(
        "the fragment below a sub-label does not see that above it",
        "trees/sampler.py",
        "total += log_mass(_count_of(lower, table) + same, ",
        "total += log_mass(_count_of(lower, table), ",
        _DIVIDED,
    ),
    Fault(
        "the label above a sub-label is not counted as drawn before it",
        "trees/sampler.py",
        'by_length[lower.label]["tokens"]) + (1 if upper.label == lower.label else 0)\n        total +=',
        'by_length[lower.label]["tokens"])\n        total +=',
        _DIVIDED,
    ),
    Fault(
        "fragments above a node keep its last sub-label",
        "trees/sampler.py",
        "at.space.parent[x])\n        sum_up(x, at)\n\n\n@njit_inline\ndef _count_around",
        "at.space.parent[x])\n\n\n@njit_inline\ndef _count_around",
        _DIVIDED,
    ),
    Fault(
        "an expansion is drawn with the first sub-label",
        "trees/sampler.py",
        "sub_label = present % sub_labels",
        "sub_label = 0",
        _DIVIDED,
    ),
    Fault(
        "frontiers of expected fragments have the first sub-label",
        "forests/averages.py",
        '2 * (np.int64(view.edge[x]) & np.int64(view.node[x]["split"])) + 1',
        "1",
        _STORED,
    ),
    # Classes.
    Fault(
        "classes are not weighed by their sizes",
        "language_models/classes.py",
        "return gain - 2.0 * (",
        "return gain - 1.0 * (",
        _CLASSES,
    ),
    Fault(
        "a word after itself is forgotten",
        "language_models/classes.py",
        "before[c] + after[c] + twice]",
        "before[c] + after[c]]",
        _CLASSES,
    ),
    Fault(
        "a word that moved is counted in its old class",
        "language_models/classes.py",
        "_add_word(word, best, 1, followers",
        "_add_word(word, now, 1, followers",
        _CLASSES,
    ),
    Fault(
        "classes keep their first numbers",
        "language_models/classes.py",
        "return ranks[classes]",
        "return classes",
        _CLASSES,
    ),
    Fault(
        "all words of a class are as likely",
        "language_models/classes.py",
        "found[k] += own + log10[place]",
        "found[k] += own",
        _CLASSES,
    ),
    Fault(
        "a text's end is not scored by classes",
        "language_models/classes.py",
        "found[k] += score(model, state, END)[0]",
        "found[k] += 0.0",
        _CLASSES,
    ),
    # Decoding.
    Fault(
        "any phrase fills a nonterminal with a label",
        "decoding/grammar.py",
        "return GAP - np.int64(grammar.symbol[node - 1])",
        "return np.int64(0)",
        _DECODING,
    ),
    Fault(
        "rules of the next label are taken, too",
        "decoding/grammar.py",
        "_first_from(grammar.label, low, end, label + 1)",
        "_first_from(grammar.label, low, end, label + 2)",
        _DECODING,
    ),
    Fault(
        "rules are ranked among all labels",
        "decoding/grammar.py",
        " * MOST_LABELS + grammar.label",
        " * MOST_LABELS",
        _DECODING,
    ),
    Fault(
        "rules of a source side are not sorted by label",
        "decoding/grammar.py",
        "np.lexsort((columns.label[order], node))",
        "np.lexsort((-columns.label[order], node))",
        _DECODING,
    ),
    Fault(
        "only one of several nonterminals is tried at a place",
        "decoding/filling.py",
        "        frame.child += 1\n",
        "        frame.child = last\n",
        _DECODING,
    ),
    Fault(
        "a rule begins with one of several nonterminals",
        "decoding/filling.py",
        "for child in range(first, last):",
        "for child in range(first, min(first + 1, last)):",
        _DECODING,
    ),
    Fault(
        "glue takes phrases without a label",
        "decoding/filling.py",
        "        for label in range(task.labels):\n            cell",
        "        for label in range(1):\n            cell",
        _DECODING,
    ),
    Fault(
        "cells of several labels are one",
        "decoding/chart.py",
        ") * task.labels + label\n",
        ") * task.labels\n",
        _DECODING,
    ),
    # Files.
    Fault(
        "the left-hand side is X",
        "daemon/exports/formats/format.py",
        "ELSE '[X' || label || ']' END",
        "ELSE '[X]' END",
        _FORMATS,
    ),
    Fault(
        "nonterminals with a label have no link",
        "daemon/exports/formats/format.py",
        "list_position({side}, '[X,' || k || ']')",
        "list_position(string_split(source, ' '), '[X,' || k || ']')",
        _FORMATS,
    ),
    Fault(
        "glue rules are there for one label",
        "daemon/exports/formats/decoders.py",
        "others = left_hand_sides(labels)[1:]",
        "others = left_hand_sides(1)[1:]",
        _FORMATS,
    ),
    Fault(
        "the label of a linked nonterminal is lost",
        "tools/translation/rule_files.py",
        "-(NO_NUMBER_OF_ITS_OWN + GAP_STEP * self._label(match[1]))",
        "-NO_NUMBER_OF_ITS_OWN",
        _FILES,
    ),
    Fault(
        "the left-hand side is not read",
        "decoding/reading.py",
        "rules.label[rule] = left",
        "rules.label[rule] = 0",
        _FILES,
    ),
)
