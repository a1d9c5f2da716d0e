"""Packed forests of one sentence: reading, packing of n-best lists, transformations.

Each expansion of a forest is transformed like a tree. Nodes with the same label, words and expansions are merged. The
transformed forest contains the same trees as if each tree of the forest were transformed on its own.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from hierogram.daemon.text import rejections
from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.treebanks.transformations import (
    COLLAPSE,
    EMPTY_ELEMENT,
    Transformations,
    check_label,
    intermediate_label,
    plain_label,
    reject_unlabeled,
)
from hierogram.daemon.text.treebanks.trees import Tree
from hierogram.daemon.text.validation import decode_text
from hierogram.samplers.exceptions import BracketError
from hierogram.samplers.grammar.brackets import Parse, TreeNode, pack, read_parse

_FOREST_NOTATION = re.compile(rb"\(\s*\|[\s()]|#[0-9]+=\(|\(\s*#[0-9]+\s*\)")


def is_forest(content: bytes) -> bool:
    """Check if a text contains notation of packed forests: `(| …)`, `#1=(…)` or `(#1)`."""
    return _FOREST_NOTATION.search(content) is not None


def read_forest(content: bytes) -> Parse:
    """Parse a packed forest from one or more lines. Raises `RejectionError` if it is malformed."""
    return _parse(decode_text(content, "the tree").replace("\n", " ").replace("\r", " "))


def pack_trees(trees: Sequence[Tree]) -> Parse:
    """Pack transformed trees of a sentence. Raises `RejectionError` if their words differ."""
    parses = [_parse(str(tree)) for tree in trees]
    for number, parse in enumerate(parses, 1):
        for position, (word, other_word) in enumerate(zip_longest(parses[0].words, parse.words), 1):
            if word != other_word:
                first, other = ("missing" if text is None else repr(text) for text in (word, other_word))
                difference = f"word {position} is {other}, but {first} in tree 1"
                problem = f"tree {number} of the list has a different sentence: {difference}"
                raise RejectionError(rejections.DIFFERENT_WORDS, problem)
    return pack(parses) if len(parses) > 1 else parses[0]


def _parse(text: str) -> Parse:
    try:
        return read_parse(text)
    except BracketError as error:
        raise RejectionError(rejections.MALFORMED_TREE, str(error)) from error


class _Builder:
    """Bottom-up builder of a forest. Equal nodes are merged."""

    def __init__(self) -> None:
        self.nodes: list[TreeNode] = []
        self._numbers: dict[tuple[str, int, int, frozenset[tuple[int, ...]]], int] = {}

    def node(self, label: str, start: int, end: int, edges: Iterable[Iterable[int]]) -> int:
        distinct = list(dict.fromkeys(tuple(edge) for edge in edges))
        number = self._numbers.setdefault((label, start, end, frozenset(distinct)), len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(TreeNode(label, start, end, [list(edge) for edge in distinct]))
        return number

    def parse(self, words: list[str], root: int) -> Parse:
        used = {root}
        for number in range(root, -1, -1):
            if number in used:
                used.update(tail for edge in self.nodes[number].edges for tail in edge)
        index = {number: k for k, number in enumerate(sorted(used))}
        nodes = [self.nodes[number] for number in index]
        return Parse(words, [n._replace(edges=[[index[tail] for tail in edge] for edge in n.edges]) for n in nodes])


def clean_forest(forest: Parse, transformations: Transformations) -> Parse:
    """Apply `clean_tree` to a forest. Raises `RejectionError`, also if `unary` is `COLLAPSE`."""
    if transformations.unary == COLLAPSE:
        problem = "the option `--unary collapse` of this store does not support forests"
        raise RejectionError(rejections.FOREST_OPTION, f"{problem}: use a store with `--unary keep`")
    empty = _empty_words(forest)
    position = [0]
    for number in range(len(forest.words)):
        position.append(position[-1] + (number not in empty))
    if not position[-1]:
        raise RejectionError(rejections.EMPTY_SIDE, "the forest has no words")
    builder = _Builder()
    numbers: list[int] = []
    for node in forest.nodes:
        start, end = position[node.start], position[node.end]
        if start == end:
            numbers.append(-1)
            continue
        label = plain_label(node.label)
        check_label(label, transformations)
        edges: list[list[int]] = []
        for edge in node.edges:
            tails = [numbers[tail] for tail in edge if numbers[tail] >= 0]
            only = builder.nodes[tails[0]] if len(tails) == 1 else None
            if only is not None and only[:3] == (label, start, end):
                edges += only.edges
            else:
                edges.append(tails)
        numbers.append(builder.node(label, start, end, edges))
    root = numbers[-1]
    if builder.nodes[root].label != transformations.root:
        root = builder.node(transformations.root, 0, position[-1], [[root]])
    words = [word for number, word in enumerate(forest.words) if number not in empty]
    for edge in builder.nodes[root].edges:
        covered = {k for tail in edge for k in range(builder.nodes[tail].start, builder.nodes[tail].end)}
        reject_unlabeled(word for k, word in enumerate(words) if k not in covered)
    return builder.parse(words, root)


def _empty_words(forest: Parse) -> set[int]:
    """Return the positions of empty elements. Raises `RejectionError` if one is a word in some trees."""
    empty: set[int] = set()
    covered: set[int] = set()
    reached = {len(forest.nodes) - 1}
    for number in range(len(forest.nodes) - 1, -1, -1):
        node = forest.nodes[number]
        if number not in reached:
            continue
        if node.label == EMPTY_ELEMENT:
            empty.update(range(node.start, node.end))
            continue
        for edge in node.edges:
            reached.update(edge)
            words = set(range(node.start, node.end))
            covered |= words.difference(*(range(forest.nodes[tail].start, forest.nodes[tail].end) for tail in edge))
    for ambiguous in sorted(empty & covered):
        problem = f"word {ambiguous + 1}, {forest.words[ambiguous]!r}, is an empty element in some expansions only"
        raise RejectionError(rejections.MALFORMED_TREE, problem)
    return empty


def transform_forest(forest: Parse) -> Parse:
    """Binarize each tree of a cleaned forest as `transform_tree` does."""
    builder = _Builder()
    numbers: list[int] = []
    for node in forest.nodes:
        edges = []
        for edge in node.edges:
            # List start position and node of each child. Words have no node, but count as children for binarization.
            children: list[tuple[int, int | None]] = []
            position = node.start
            for tail in edge:
                children += [(word, None) for word in range(position, forest.nodes[tail].start)]
                children.append((forest.nodes[tail].start, numbers[tail]))
                position = forest.nodes[tail].end
            children += [(word, None) for word in range(position, node.end)]
            while len(children) > 2:
                last_two = [number for _, number in children[-2:] if number is not None]
                start = children[-2][0]
                children[-2:] = [(start, builder.node(intermediate_label(node.label), start, node.end, [last_two]))]
            edges.append([number for _, number in children if number is not None])
        numbers.append(builder.node(node.label, node.start, node.end, edges))
    return builder.parse(forest.words, numbers[-1])
