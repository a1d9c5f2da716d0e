"""Trees in brackets are read, transformed and restored, and invalid trees are reported with their place."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.treebanks.reading import read_trees, tree_texts
from hierogram.daemon.text.treebanks.transformations import (
    COLLAPSE,
    Transformations,
    clean_tree,
    coarser_class,
    find_known_words,
    plain_label,
    replace_unknown,
    restore_tree,
    transform_tree,
    word_or_class,
)
from hierogram.daemon.text.treebanks.trees import Tree, preorder, read_tree

LABELS = st.sampled_from(["S", "NP", "VP", "PP", "-LRB-", "PRP$", "NP-SBJ-1", "S=2"])
WORDS = st.text(st.characters(exclude_characters="() \t\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=5)


def grow(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.builds(lambda label, below: Tree(label, tuple(below)), LABELS, st.lists(children, min_size=1, max_size=5))


def list_words(tree: Tree) -> list[str]:
    return [node for node in preorder(tree) if isinstance(node, str)]


TREES = st.recursive(st.builds(lambda label, word: Tree(label, (word,)), LABELS, WORDS), grow, max_leaves=12)


@given(TREES)
def test_a_tree_survives_a_round_trip(tree: Tree) -> None:
    assert read_tree(str(tree)) == tree


@given(TREES)
def test_trees_are_read_like_nltk_reads_them(tree: Tree) -> None:
    # nltk is imported here because it takes a second to load.
    import nltk

    def same(ours: Tree | str, theirs: object) -> bool:
        if isinstance(ours, str):
            return ours == theirs
        assert isinstance(theirs, nltk.Tree)
        below = zip(ours.children, theirs, strict=True)
        return ours.label == theirs.label() and all(same(*children) for children in below)

    text = str(tree)
    # nltk splits at every Unicode space, this reader only at spaces that separate tokens. This reader also undoes
    # escapes.
    if not any((letter.isspace() and letter != " ") or letter == "\\" for letter in text):
        assert same(tree, nltk.Tree.fromstring(text))


@given(st.text("()SNab- ", max_size=30))
def test_any_text_is_a_tree_or_an_error(text: str) -> None:
    try:
        tree = read_tree(text)
    except RejectionError:
        return
    assert read_tree(str(tree)) == tree
    assert list_words(tree)


def test_depth_of_trees_is_unlimited() -> None:
    deep = read_tree("(A " * 20_000 + "a" + ")" * 20_000)
    assert sum(1 for _ in preorder(deep)) == 20_001
    assert str(clean_tree(deep, Transformations())) == "(TOP (A a))"


def test_a_fragment_may_end_in_labels() -> None:
    fragment = read_tree("(NP (DT the) (NN))", frontiers=True)
    assert fragment.children[1] == Tree("NN")
    assert str(fragment) == "(NP (DT the) (NN))"
    for text in ("(NP (DT the) (NN))", "(NP ())", "()"):
        with pytest.raises(RejectionError, match="has no children"):
            read_tree(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP a) (VP b)", "1 unclosed bracket, the last is (S"),
        ("(S a))", "')' at offset 5 follows the end"),
        ("S (NP a)", "'S' at offset 0 precedes the first bracket"),
        ("  ", "no brackets found"),
        ("(S (NP ) b)", "(NP) at offset 7 has no children"),
    ],
)
def test_invalid_brackets_are_explained(text: str, message: str) -> None:
    with pytest.raises(RejectionError) as rejection:
        read_tree(text)
    assert message in str(rejection.value)


def test_trees_may_be_on_one_line_or_several() -> None:
    lines = [b"( (S (NP a)", b"     (VP b)) )", b"", b"(S (NP", b"(S c)", b"junk", b"(S d)"]
    texts = [(text.line, text.content) for text in tree_texts([lines[:3], lines[3:]])]
    assert texts == [
        (1, b"( (S (NP a)\n     (VP b)) )"),
        (4, b"(S (NP"),
        (5, b"(S c)"),
        (6, b"junk"),
        (7, b"(S d)"),
    ]


def test_a_malformed_tree_of_a_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text("( (S (NP a)\n   (VP b)))\n(S (NP c)\n")
    assert [str(tree) for tree in read_trees(str(path), limit=1)] == ["( (S (NP a) (VP b)))"]
    with pytest.raises(InputError, match=r"trees.mrg, line 3: 1 unclosed bracket"):
        read_trees(str(path))


def test_functions_traces_and_repeated_labels_are_removed() -> None:
    tree = read_tree(
        "( (S (NP-SBJ-1 (NP=2 (PRP They))) (VP (VBP want) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB go))))) (. .)))"
    )
    transformations = Transformations()
    plain = clean_tree(tree, transformations)
    assert str(plain) == "(TOP (S (NP (PRP They)) (VP (VBP want) (S (VP (TO to) (VP (VB go))))) (. .)))"
    binary = transform_tree(plain, transformations)
    assert str(binary).startswith("(TOP (S (NP (PRP They)) (@S (VP (VBP want) (S")
    assert restore_tree(binary, transformations) == plain


def test_unary_chains_become_joint_labels() -> None:
    transformations = Transformations(unary=COLLAPSE)
    plain = clean_tree(read_tree("(S (VP (VB go) (ADVP (RB on)) (. .)))"), transformations)
    joint = transform_tree(plain, transformations)
    assert str(joint) == "(TOP (S+VP (VB go) (@VP (ADVP (RB on)) (. .))))"
    assert restore_tree(joint, transformations) == plain


@given(TREES, st.sampled_from(["keep", COLLAPSE]))
def test_transformations_can_be_undone(tree: Tree, unary: str) -> None:
    transformations = Transformations(unary=unary)
    plain = clean_tree(tree, transformations)
    changed = transform_tree(plain, transformations)
    assert restore_tree(changed, transformations) == plain
    assert list_words(changed) == list_words(tree)
    assert all(len(node.children) <= 2 for node in preorder(changed) if isinstance(node, Tree))


def test_trees_that_cannot_be_transformed_are_rejected() -> None:
    transformations = Transformations()
    for text, reason in (
        ("(S (NP (-NONE- *)))", "empty-side"),
        ("(S (@NP a))", "malformed-tree"),
        ("( a)", "malformed-tree"),
        ("(S ( a))", "malformed-tree"),
        ("(S (| a))", "malformed-tree"),
        ("(S (#1 a))", "malformed-tree"),
    ):
        with pytest.raises(RejectionError) as rejection:
            clean_tree(read_tree(text), transformations)
        assert rejection.value.reason == reason
    with pytest.raises(RejectionError, match="the word 'b' is directly below the root"):
        clean_tree(read_tree("(TOP (N a) b)"), transformations)
    with pytest.raises(RejectionError, match="collapsed chains"):
        clean_tree(read_tree("(S+VP a)"), Transformations(unary=COLLAPSE))


@pytest.mark.parametrize("bad", [{"unary": "no"}, {"root": "@A"}, {"root": ""}, {"rare": -1}])
def test_invalid_transformations_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Transformations(**bad)


def test_function_tags_of_labels_are_removed() -> None:
    labels = ["NP-SBJ-1", "NP=2", "-LRB-", "-NONE-", "PRP$", "ADVP|PRT", "=", "NP"]
    assert [plain_label(label) for label in labels] == ["NP", "NP", "-LRB-", "-NONE-", "PRP$", "ADVP", "=", "NP"]


@pytest.mark.parametrize(
    ("word", "position", "expected"),
    [
        ("striatum", 3, "UNK-LC"),
        ("mice", 0, "UNK-LC"),
        ("Striatal", 0, "UNK-INITC-KNOWNLC-al"),
        ("Morphology", 0, "UNK-INITC-y"),
        ("Morphology", 1, "UNK-CAPS-y"),
        ("DNA", 0, "UNK-CAPS"),
        ("p53", 2, "UNK-LC-NUM"),
        ("129Sv", 2, "UNK-CAPS-NUM"),
        ("37", 2, "UNK-NUM"),
        ("genes", 2, "UNK-LC-s"),
        ("loss", 2, "UNK-LC"),
        ("stained", 2, "UNK-LC-ed"),
        ("red", 2, "UNK-LC"),
        ("wild-typed", 2, "UNK-LC-DASH"),
        ("knock-outs", 2, "UNK-LC-DASH-s"),
        ("%", 2, "UNK"),
    ],
)
def test_unknown_words_are_classed_by_their_form(word: str, position: int, expected: str) -> None:
    assert word_or_class(word, position, {"striatal"}) == expected


def test_classes_become_coarser_up_to_the_coarsest() -> None:
    found: str | None = "UNK-LC-DASH-s"
    chain = []
    while found:
        chain.append(found)
        found = coarser_class(found)
    assert chain == ["UNK-LC-DASH-s", "UNK-LC-DASH", "UNK-LC", "UNK"]


def test_rare_words_become_classes() -> None:
    trees = [read_tree("(S (A the) (B cats) (C sleeping))"), read_tree("(S (A the) (B cats) (C Sleep))")]
    counts = Counter(word for tree in trees for word in list_words(tree))
    known = find_known_words(counts, rare=1)
    assert known == {"the", "cats"}
    assert replace_unknown(list_words(trees[0]), known) == ["the", "cats", "UNK-LC-ing"]
    assert replace_unknown(list_words(trees[1]), known) == ["the", "cats", "UNK-CAPS"]
    assert {"the", "cats"} <= find_known_words(counts, rare=0)
    assert find_known_words(counts, rare=5) == set()
