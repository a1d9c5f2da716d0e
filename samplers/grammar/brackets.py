"""Bracket notation of trees, forests and fragments: `(NP (DT the) (NN dog))`.

The token after an opening bracket is a label, and other tokens are words. In a fragment, a node without children, such
as `(NN)`, is a frontier nonterminal. The notation of a *packed forest* has two additions. If a node has several
expansions, each expansion is in a bracket `(| …)`. `#1=(NP …)` names a node, and `(#1)` refers to it:

    (S (| #1=(NP she) (VP (V saw) (NP her duck))) (| (#1) (VP (V saw) (S (NP her) (VP duck)))))

Words are not escaped: a word cannot contain a bracket, a space or a tab. A label cannot be `|` or `#` with a number.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hierogram.samplers.exceptions import BracketError, ForestTooLargeError
from hierogram.samplers.grammar.numbers import MAX_NODES, MAX_TREE

_TOKEN = re.compile(r"[ \t]*(?:#([0-9]+)=\(|([()])|([^ \t()]+))")
_REFERENCE = re.compile(r"#([0-9]+)\Z")
_EXPANSION = "|"


class TreeNode(NamedTuple):
    """Node of a tree or forest: label, half-open word span, and expansions, each a list of earlier nodes."""

    label: str
    start: int
    end: int
    edges: list[list[int]]


class Parse(NamedTuple):
    """Sentence with its tree or packed forest. Child nodes precede their parents, and the root is last."""

    words: list[str]
    nodes: list[TreeNode]


@dataclass(slots=True)
class _OpenBracket:
    """Bracket that is not closed yet. `edges` are the expansions written as `(| …)`."""

    label: str
    start: int
    name: str | None
    tails: list[int] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    end: int = -1


class _Reader:
    """Nodes read so far. `position` is the number of words before the next token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: list[str] = []
        self.nodes: list[TreeNode] = []
        self.node_by_name: dict[str, int] = {}
        self.opened: list[_OpenBracket] = []
        self.position = 0

    def error(self, problem: str, offset: int) -> BracketError:
        shown = self.text[max(0, offset - 20) : offset + 60]
        return BracketError(f"character {offset + 1}, {shown!r}: {problem}")

    def set_label(self, label: str, offset: int) -> None:
        self.opened[-1].label = label
        if label == _EXPANSION:
            if len(self.opened) < 2:
                raise self.error("unexpected expansion (| …) outside a node", offset)
            node = self.opened[-2]
            if node.label == _EXPANSION:
                raise self.error("unexpected expansion (| …) directly inside another expansion", offset)
            if node.tails or self.position != node.start:
                raise self.error("unexpected expansion (| …) beside words or other child nodes", offset)

    def add_word(self, word: str, offset: int) -> None:
        self.check_has_no_expansions(offset)
        if self.position == len(self.words):
            self.words.append(word)
        elif self.words[self.position] != word:
            raise self.error(
                f"expected the word {self.words[self.position]!r} as in another expansion, got {word!r}", offset
            )
        self.position += 1

    def check_has_no_expansions(self, offset: int) -> None:
        if self.opened[-1].edges:
            raise self.error("unexpected word or child node beside an expansion (| …)", offset)

    def add_reference(self, name: str, start: int, offset: int) -> None:
        if name not in self.node_by_name:
            raise self.error(f"node #{name} must be defined before it is used", offset)
        if not self.opened:
            raise self.error("expected a tree, got a reference", offset)
        number = self.node_by_name[name]
        if self.nodes[number].start != start:
            first = self.nodes[number].start
            raise self.error(f"node #{name} begins after {first} words, but is used after {start} words", offset)
        self.opened[-1].tails.append(number)
        self.check_has_no_expansions(offset)
        self.position = self.nodes[number].end

    def close_bracket(self, offset: int) -> None:
        """Close the innermost bracket, and add its node, expansion or reference."""
        done = self.opened.pop()
        reference = _REFERENCE.match(done.label)
        if reference and self.position == done.start:
            self.add_reference(reference.group(1), done.start, offset)
            return
        if reference:
            raise self.error(f"reference {done.label!r} cannot contain words or nodes: write ({done.label})", offset)
        if done.label == _EXPANSION:
            self.add_expansion(done.tails, offset)
            return
        if done.edges:
            self.position = done.end
        elif self.position == done.start:
            raise self.error(f"node {done.label!r} must contain a word", offset)
        self.nodes.append(TreeNode(done.label, done.start, self.position, done.edges or [done.tails]))
        if done.name is not None:
            self.node_by_name[done.name] = len(self.nodes) - 1
        if self.opened:
            self.opened[-1].tails.append(len(self.nodes) - 1)
            self.check_has_no_expansions(offset)

    def add_expansion(self, tails: list[int], offset: int) -> None:
        """Add an expansion to the innermost open node. All expansions of a node must cover the same words."""
        node = self.opened[-1]
        if self.position == node.start:
            raise self.error(f"each expansion of node {node.label!r} must contain a word", offset)
        if node.edges and self.position != node.end:
            raise self.error(f"all expansions of node {node.label!r} must cover the same words", offset)
        if tails in node.edges:
            raise self.error(f"all expansions of node {node.label!r} must be different", offset)
        node.end = self.position
        node.edges.append(tails)
        self.position = node.start


def read_parse(text: str) -> Parse:
    """Parse one tree or packed forest. Raises `BracketError` if the notation is invalid or text is empty."""
    reader = _Reader(text)
    position = 0
    end = len(text.rstrip(" \t"))
    label_due = False
    while position < end:
        match = _TOKEN.match(text, position)
        assert match is not None
        offset = match.start(match.lastindex or 0)
        name, bracket, token = match.groups()
        position = match.end()
        if label_due:
            if token is None:
                raise reader.error("expected a label after the opening bracket", offset)
            reader.set_label(token, offset)
            label_due = False
        elif bracket == "(" or name is not None:
            if reader.nodes and not reader.opened:
                raise reader.error("expected one tree, got a second one", offset)
            reader.opened.append(_OpenBracket("", reader.position, name))
            label_due = True
        elif not reader.opened:
            problem = "unexpected text outside the brackets" if token else "unexpected closing bracket"
            raise reader.error(problem, offset)
        elif bracket == ")":
            reader.close_bracket(offset)
        else:
            reader.add_word(token, offset)
    if reader.opened:
        raise reader.error(f"{len(reader.opened)} unclosed bracket{'s' * (len(reader.opened) > 1)}", end)
    if not reader.nodes:
        raise BracketError("expected a tree, got an empty text")
    return Parse(reader.words, reader.nodes)


def write_parse(parse: Parse) -> str:
    """Return a tree or packed forest in bracket notation. Inverse of `read_parse`."""
    uses = [0] * len(parse.nodes)
    for node in parse.nodes:
        for edge in node.edges:
            for tail in edge:
                uses[tail] += 1
    names: dict[int, int] = {}
    pieces: list[str] = []
    # Pending output, last item first: a string, the number of a node to write, or ~number of an open node to name.
    waiting: list[str | int] = [len(parse.nodes) - 1]
    opened: list[int] = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif item < 0:
            names[~item] = len(names) + 1
            pieces[opened.pop()] = f"#{names[~item]}="
        elif item in names:
            pieces.append(f"(#{names[item]})")
        else:
            if uses[item] > 1:
                opened.append(len(pieces))
                pieces.append("")
                waiting.append(~item)
            waiting.append(")")
            waiting += reversed(_expansions(parse, parse.nodes[item]))
            pieces.append(f"({parse.nodes[item].label}")
    return "".join(pieces)


def _words_and_children(parse: Parse, node: TreeNode, edge: list[int]) -> Iterator[str | int]:
    position = node.start
    for tail in edge:
        yield from parse.words[position : parse.nodes[tail].start]
        yield tail
        position = parse.nodes[tail].end
    yield from parse.words[position : node.end]


def _expansions(parse: Parse, node: TreeNode) -> list[str | int]:
    items: list[str | int] = []
    for edge in node.edges:
        if len(node.edges) > 1:
            items.append(f" ({_EXPANSION}")
        for child in _words_and_children(parse, node, edge):
            items += (f" {child}",) if isinstance(child, str) else (" ", child)
        if len(node.edges) > 1:
            items.append(")")
    return items


def check_size(parse: Parse) -> None:
    """Raise `ForestTooLargeError` if a forest, its largest tree or its sentence is too large to sample."""
    sizes: list[int] = []
    for node in parse.nodes:
        sizes.append(max(1 + sum(sizes[tail] for tail in edge) for edge in node.edges))
    if len(parse.nodes) > MAX_NODES or sizes[-1] > MAX_TREE or len(parse.words) > MAX_TREE:
        raise ForestTooLargeError(
            f"{len(parse.nodes)} nodes, {sizes[-1]} nodes in the largest tree, and {len(parse.words)} words, the "
            f"limits are {MAX_NODES}, {MAX_TREE} and {MAX_TREE}"
        )


def pack(parses: Sequence[Parse]) -> Parse:
    """Pack several trees of one sentence (an n-best list) into a forest.

    Merges nodes with the same label, span and height. The height is the number of nodes with the same span in the chain
    below. The forest contains all trees, and all trees that combine their expansions. Raises `BracketError` if
    sentences or root labels differ, or without trees.
    """
    if not parses:
        raise BracketError("expected at least one tree")
    words = parses[0].words
    Key = tuple[int, int, int, str]
    expansions: dict[Key, dict[tuple[Key, ...], None]] = {}
    roots: dict[Key, None] = {}
    for parse in parses:
        if parse.words != words:
            raise BracketError(
                f"all trees must have the same words, got {' '.join(words)!r} and {' '.join(parse.words)!r}"
            )
        keys: list[Key] = []
        heights: list[int] = []
        for node in parse.nodes:
            tails = [tail for edge in node.edges for tail in edge]
            same = [heights[t] for t in tails if parse.nodes[t][1:3] == node[1:3]]
            heights.append(1 + max(same, default=-1))
            keys.append((node.start, node.end, heights[-1], node.label))
            for edge in node.edges:
                expansions.setdefault(keys[-1], {})[tuple(keys[t] for t in edge)] = None
        # Give all roots the same height, to merge trees even if the unary chains at their roots differ in length.
        top = parse.nodes[-1]
        root = (0, len(words), 1 << 30, top.label)
        for edge in top.edges:
            expansions.setdefault(root, {})[tuple(keys[t] for t in edge)] = None
        roots[root] = None
    if len(roots) != 1:
        raise BracketError(f"all trees must have the same root label, got {', '.join(sorted(key[3] for key in roots))}")
    numbers: dict[Key, int] = {}
    nodes: list[TreeNode] = []
    waiting = list(roots)
    while waiting:
        key = waiting[-1]
        missing = [tail for edge in expansions[key] for tail in edge if tail not in numbers]
        waiting += reversed(missing)
        if missing:
            continue
        waiting.pop()
        if key not in numbers:
            numbers[key] = len(nodes)
            nodes.append(
                TreeNode(key[3], key[0], key[1], [[numbers[tail] for tail in edge] for edge in expansions[key]])
            )
    return Parse(words, nodes)


def productions(parse: Parse) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (node index, symbols) of each edge: node label, then child labels and NUL-prefixed words."""
    for number, node in enumerate(parse.nodes):
        for edge in node.edges:
            children = _words_and_children(parse, node, edge)
            symbols = ["\0" + child if isinstance(child, str) else parse.nodes[child].label for child in children]
            yield number, (node.label, *symbols)
