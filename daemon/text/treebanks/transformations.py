"""Transformations of trees before grammar learning, and the inverse of binarization and collapsing.

Rare words become classes of unknown words by their form. The Stanford and Berkeley parsers share these classes
(signature 5 of their English lexicons): letter case, with a separate class at the beginning of the sentence, digits,
hyphens, and ten endings. About fifty classes occur in a treebank.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.rejections import EMPTY_SIDE, MALFORMED_TREE, RejectionError
from hierogram.daemon.text.treebanks.trees import Node, Tree, rewrite_tree
from hierogram.storage.options import Option

UNKNOWN = "UNK"

_ENDINGS = ("ed", "ing", "ion", "er", "est", "ly", "ity", "y", "al")
_MIN_WITH_ENDING_LENGTH = 5
_MIN_PLURAL_LENGTH = 3


def word_or_class(word: str, position: int, known: Container[str]) -> str:
    """Return the word if it is known, else its class. `position` is its index in the sentence, from 0."""
    if word in known:
        return word
    capitals = sum(letter.isupper() or letter.istitle() for letter in word)
    lower = any(letter.islower() for letter in word)
    digit = any(letter.isdigit() for letter in word)
    dash = "-" in word
    name = UNKNOWN
    if word[0].isupper() or word[0].istitle():
        if position == 0 and capitals == 1:
            name += "-INITC"
            if word.lower() in known:
                name += "-KNOWNLC"
        else:
            name += "-CAPS"
    elif not word[0].isalpha() and capitals:
        name += "-CAPS"
    elif lower:
        name += "-LC"
    if digit:
        name += "-NUM"
    if dash:
        name += "-DASH"
    small = word.lower()
    if small.endswith("s") and len(small) >= _MIN_PLURAL_LENGTH:
        return name if small[-2] in "siu" else f"{name}-s"
    if dash or (digit and capitals) or len(small) < _MIN_WITH_ENDING_LENGTH:
        return name
    return next((f"{name}-{ending}" for ending in _ENDINGS if small.endswith(ending)), name)


def coarser_class(name: str) -> str | None:
    """Return the class without its last feature: `UNK-LC` for `UNK-LC-s`. None for `UNK`."""
    return name.rpartition("-")[0] or None


def replace_unknown(words: Sequence[str], known: Container[str]) -> list[str]:
    """Replace the unknown words of a sentence by their classes."""
    return [word_or_class(word, position, known) for position, word in enumerate(words)]


def find_known_words(counts: Mapping[str, int], rare: int) -> frozenset[str]:
    """Return the words whose count exceeds `rare`."""
    return frozenset(word for word, count in counts.items() if count > rare)


EMPTY_ELEMENT = "-NONE-"
"""Label of traces and other empty elements."""
INTERMEDIATE = "@"
"""First character of labels that binarization creates: `@NP` covers the remaining children of an NP."""
JOINT = "+"
"""Separator of the labels of a collapsed unary chain. A label of only plus signs is a tag."""

KEEP, COLLAPSE = "keep", "collapse"
_UNARY = {KEEP: "", COLLAPSE: "join their labels, as in `S+VP`"}


@dataclass(frozen=True, slots=True)
class Transformations:
    """Options for the transformation of trees. The defaults are common in the parsing literature.

    `unary` is `keep` to keep unary chains (X over a single X becomes one X), or `collapse` to merge them into joint
    labels (`S+VP`). `root` is the label above every tree. Words seen up to `rare` times become classes of unknown
    words. Raises `UsageError` if an option is invalid.
    """

    unary: Annotated[str, Option("Trees: treatment of unary chains", values=_UNARY)] = KEEP
    root: Annotated[str, Option("Trees: label added above every tree.", metavar="LABEL")] = "TOP"
    rare: Annotated[int, Option("Trees: replace words seen up to N times by classes of unknown words.", min=0)] = 1

    def __post_init__(self) -> None:
        if self.unary not in (KEEP, COLLAPSE):
            raise UsageError(f"unary must be {KEEP} or {COLLAPSE}, got {self.unary!r}")
        if not self.root or set(self.root) & set("() \t\r\n") or self.root.startswith(INTERMEDIATE):
            raise UsageError(f"root must be a label without brackets, spaces or a leading @, got {self.root!r}")
        if self.rare < 0:
            raise UsageError(f"rare must be >= 0, got {self.rare}")


def clean_tree(tree: Tree, transformations: Transformations) -> Tree:
    """Return the tree without empty elements, function tags and indices, under the root label.

    A node X with a node X as the only child is merged with this child. Raises `RejectionError` if no words remain, a
    label is missing or reserved, or a word is directly below the root.
    """

    def clean(label: str, children: list[Node]) -> list[Node]:
        if not label:
            return children
        if not children or label == EMPTY_ELEMENT:
            return []
        label = plain_label(label)
        check_label(label, transformations)
        if len(children) == 1 and isinstance(children[0], Tree) and children[0].label == label:
            return children
        return [Tree(label, tuple(children))]

    # Treebanks may omit the outermost label, as in `( (S …))`. The root label replaces it.
    inner = tree.children if tree.label in ("", transformations.root) else (tree,)
    cleaned = rewrite_tree(Tree("", inner), clean)
    if not cleaned:
        raise RejectionError(EMPTY_SIDE, "the tree has no words")
    reject_unlabeled(node for node in cleaned if isinstance(node, str))
    return Tree(transformations.root, tuple(cleaned))


def transform_tree(tree: Tree, transformations: Transformations) -> Tree:
    """Binarize a cleaned tree. If `unary` is `collapse`, first merge unary chains between root and tags."""

    def change(label: str, children: list[Node]) -> list[Node]:
        if transformations.unary == COLLAPSE and len(children) == 1 and label != transformations.root:
            [child] = children
            if isinstance(child, Tree) and not child.is_preterminal:
                return [Tree(f"{label}{JOINT}{child.label}", child.children)]
        while len(children) > 2:
            children[-2:] = [Tree(intermediate_label(label), tuple(children[-2:]))]
        return [Tree(label, tuple(children))]

    [transformed] = rewrite_tree(tree, change)
    assert isinstance(transformed, Tree)
    return transformed


def restore_tree(tree: Tree, transformations: Transformations) -> Tree:
    """Undo `transform_tree`: remove intermediate nodes, and split joint labels into unary chains."""

    def restore(label: str, children: list[Node]) -> list[Node]:
        if label.startswith(INTERMEDIATE):
            return children
        labels = label.split(JOINT) if transformations.unary == COLLAPSE and label.strip(JOINT) else [label]
        for name in reversed(labels):
            children = [Tree(name, tuple(children))]
        return children

    [restored] = rewrite_tree(tree, restore)
    assert isinstance(restored, Tree)
    return restored


def plain_label(label: str) -> str:
    """Return the label without function tags and indices: NP for `NP-SBJ-1`, `NP|ADVP`. Keeps `-LRB-`."""
    if label.startswith("-"):
        return label
    for mark in "-=|":
        label = label.partition(mark)[0] or label
    return label


def intermediate_label(label: str) -> str:
    """Return the label of the nodes that binarization adds below a node: `@NP` for `NP`, `@VP` for `S+VP`."""
    return f"{INTERMEDIATE}{label.rpartition(JOINT)[2] or label}"


def reject_unlabeled(unlabeled: Iterable[str]) -> None:
    """Raise `RejectionError` if there are any words directly below the root, given these words."""
    for word in unlabeled:
        problem = f"the word {word!r} is directly below the root: expected a label such as a part of speech"
        raise RejectionError(MALFORMED_TREE, problem)


def check_label(label: str, transformations: Transformations) -> None:
    """Raise `RejectionError` if a label of an input is missing, or reserved by the transformations."""
    if not label:
        raise RejectionError(MALFORMED_TREE, "a node inside the tree has no label")
    if label == "|" or (label.startswith("#") and label[1:].isdigit()):
        raise RejectionError(MALFORMED_TREE, f"label {label!r} is reserved by the notation of packed forests")
    if label.startswith(INTERMEDIATE):
        problem = f"label {label!r}: labels that begin with {INTERMEDIATE} are reserved for binarization"
        raise RejectionError(MALFORMED_TREE, problem)
    if transformations.unary == COLLAPSE and JOINT in label and label.strip(JOINT):
        raise RejectionError(MALFORMED_TREE, f"label {label!r}: {JOINT} is reserved for the labels of collapsed chains")
