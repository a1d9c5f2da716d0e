"""Trees and tree fragments in bracket notation: `(S (NP (PRP it)) (VP (VBZ works)))`.

A fragment may also have frontier nonterminals, which are labels without children: `(NP (DT the) (NN))`. No function is
recursive, so deeply nested brackets cannot overflow the stack.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hierogram.daemon.text.rejections import MALFORMED_TREE, RejectionError

_BRACKETS_AND_WORDS = re.compile(r"[()]|[^() \t\r\n]+")

ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
"""Treebank notation of tokens that are brackets."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Node of a tree: a label, with trees and words as children. A frontier nonterminal has no children."""

    label: str
    children: tuple["Node", ...] = ()

    @property
    def is_preterminal(self) -> bool:
        """True if the only child is a word."""
        return len(self.children) == 1 and isinstance(self.children[0], str)

    def __str__(self) -> str:
        pieces: list[str] = []
        stack: list[Node | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                pieces.append(")")
            elif isinstance(node, str):
                pieces += (" ", node)
            else:
                pieces += (" (" if pieces else "(", node.label)
                stack.append(None)
                stack.extend(reversed(node.children))
        return "".join(pieces)


Node = Tree | str
"""Inner node of a tree, or word."""


def preorder(tree: Tree) -> Iterator[Node]:
    """Yield the nodes and words of the tree, parents first, from left to right."""
    stack: list[Node] = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Tree):
            stack.extend(reversed(node.children))


def with_words(tree: Tree, words: Iterable[str]) -> Tree:
    """Return the tree with its words replaced by as many other words, from left to right."""
    [replaced] = rewrite_tree(tree, lambda label, children: [Tree(label, tuple(children))], iter(words))
    assert isinstance(replaced, Tree)
    return replaced


def rewrite_tree(
    tree: Tree, rewrite: Callable[[str, list[Node]], list[Node]], words: Iterator[str] | None = None
) -> list[Node]:
    """Rewrite nodes bottom-up, given label and rewritten children. `words` replace the tree's words."""
    done: list[list[Node]] = [[]]
    stack: list[tuple[Node, bool]] = [(tree, False)]
    while stack:
        node, closing = stack.pop()
        if isinstance(node, str):
            done[-1].append(node if words is None else next(words))
        elif closing:
            children = done.pop()
            done[-1] += rewrite(node.label, children)
        else:
            done.append([])
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return done[0]


def read_tree(text: str, frontiers: bool = False) -> Tree:
    """Parse a tree. Labels may be missing, and with `frontiers` also children. Raises `RejectionError`."""
    open_nodes: list[tuple[str, list[Node]]] = []
    root: Tree | None = None
    label_follows = False
    for match in _BRACKETS_AND_WORDS.finditer(text):
        piece = match.group()
        if root is not None:
            raise RejectionError(MALFORMED_TREE, f"{piece!r} at offset {match.start()} follows the end of the tree")
        if piece == "(":
            open_nodes.append(("", []))
            label_follows = True
            continue
        if not open_nodes:
            raise RejectionError(MALFORMED_TREE, f"{piece!r} at offset {match.start()} precedes the first bracket")
        if piece == ")":
            label, children = open_nodes.pop()
            if not children and not (frontiers and label):
                raise RejectionError(MALFORMED_TREE, f"({label}) at offset {match.start()} has no children")
            node = Tree(label, tuple(children))
            if open_nodes:
                open_nodes[-1][1].append(node)
            else:
                root = node
        elif label_follows:
            open_nodes[-1] = piece, open_nodes[-1][1]
        else:
            open_nodes[-1][1].append(piece)
        label_follows = False
    if open_nodes:
        opened = next((label for label, _ in reversed(open_nodes) if label), "")
        unclosed = f"{len(open_nodes)} unclosed bracket{'s' * (len(open_nodes) > 1)}"
        raise RejectionError(MALFORMED_TREE, f"{unclosed}, the last is ({opened}")
    if root is None:
        raise RejectionError(MALFORMED_TREE, "no brackets found")
    return root
