"""The symbols of rules as whole numbers: how the sides of many rules lie in one array of int32.

A terminal is its word's number, 0 or more. A nonterminal is -(number + LABEL_STEP * label), numbers counted from 1 in
source order. Where nodes have labels, a fragment's expansion of a label is written between two symbols: OPEN_LABEL -
2 * label opens it, one less closes it.
"""

OPEN_LABEL = -(1 << 30)
LABEL_STEP = 1 << 16
