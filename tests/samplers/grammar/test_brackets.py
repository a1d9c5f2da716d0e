"""Bracket notation of trees, packed forests and fragments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samplers.grammar.unpacking import unpack_trees

from hierogram.samplers.exceptions import BracketError, ForestTooLargeError
from hierogram.samplers.grammar.brackets import TreeNode, check_size, pack, productions, read_parse, write_parse
from hierogram.samplers.grammar.numbers import MAX_TREE

LABELS = st.sampled_from(["S", "NP", "@NP", "PRP$", "-LRB-", "''", "#", "A|B"])
WORDS = st.text(st.characters(exclude_characters="() \t\r\n\0", exclude_categories=["Cs"]), min_size=1, max_size=4) | (
    st.sampled_from(["|", "\\", "#1", "#12=", "[X,1]", "the", "\u00a0"])
)


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> str:
    items = []
    for _ in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            items.append(draw(trees(depth - 1)))
        else:
            items.append(draw(WORDS))
    return f"({draw(LABELS)} {' '.join(items)})"


@given(WORDS)
def test_words_are_kept_unchanged(word: str) -> None:
    assert read_parse(f"(X {word} (Y {word}))").words == [word, word]


@given(trees())
def test_trees_survive_a_round_trip(text: str) -> None:
    parse = read_parse(text)
    assert write_parse(parse) == text
    assert parse.nodes[-1].start == 0
    assert parse.nodes[-1].end == len(parse.words)
    assert all(tail < number for number, node in enumerate(parse.nodes) for edge in node.edges for tail in edge)


FOREST = (
    "(S (| #1=(NP she) (VP (V saw) (NP her duck)))"
    " (| (#1) (VP (V saw) (S #2=(NP her) (VP duck))))"
    " (| (#1) (V saw) (#2) duck))"
)


def test_a_packed_forest_is_read_and_written() -> None:
    parse = read_parse(FOREST)
    assert parse.words == ["she", "saw", "her", "duck"]
    assert unpack_trees(parse) == {
        "(S (NP she) (VP (V saw) (NP her duck)))",
        "(S (NP she) (VP (V saw) (S (NP her) (VP duck))))",
        "(S (NP she) (V saw) (NP her) duck)",
    }
    assert write_parse(parse) == FOREST
    assert parse.nodes[-1] == TreeNode("S", 0, 4, [[0, 3], [0, 8], [0, 9, 5]])
    assert (8, ("VP", "V", "S")) in set(productions(parse))
    assert (10, ("S", "NP", "V", "NP", "\0duck")) in set(productions(parse))


def test_an_n_best_list_is_packed_into_a_forest_with_all_its_trees() -> None:
    texts = [
        "(S (NP (N a)) (VP (V b) (NP (N c))))",
        "(S (NP (D a)) (VP (V b) (NP (N c))))",
        "(S (NP (N a)) (VP (V b) (NP (NP (N c)))))",
    ]
    packed = pack([read_parse(text) for text in texts])
    found = unpack_trees(packed)
    assert set(texts) < found
    # Subtrees of different trees are combined.
    assert "(S (NP (D a)) (VP (V b) (NP (NP (N c)))))" in found
    assert unpack_trees(read_parse(write_parse(packed))) == found
    assert len(packed.nodes) < sum(len(read_parse(text).nodes) for text in texts)


@given(st.lists(trees(), min_size=1, max_size=1))
def test_a_single_tree_is_packed_unchanged(texts: list[str]) -> None:
    assert unpack_trees(pack([read_parse(text) for text in texts])) == set(texts)


def test_the_depth_of_trees_is_unlimited() -> None:
    chain = "(A (B " * 3000 + "a" + "))" * 3000
    packed = pack([read_parse(f"(S {chain})"), read_parse("(S a)")])
    assert len(packed.nodes) == 6001
    assert write_parse(packed) == f"(S (| {chain}) (| a))"


def test_oversized_trees_are_rejected() -> None:
    check_size(read_parse(f"(S {'a ' * MAX_TREE})"))
    with pytest.raises(ForestTooLargeError, match="32768 words"):
        check_size(read_parse(f"(S {'a ' * (MAX_TREE + 1)})"))
    with pytest.raises(ForestTooLargeError, match="32768 nodes"):
        check_size(read_parse("(S " * (MAX_TREE + 1) + "a" + ")" * (MAX_TREE + 1)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "expected a tree, got an empty text"),
        ("word", "outside"),
        ("(S a", "1 unclosed bracket"),
        ("(S a))", "unexpected closing bracket"),
        ("(S a) (S b)", "expected one tree, got a second one"),
        ("(S a) b", "outside"),
        ("(S)", "character 3, .*: node 'S' must contain a word"),
        ("(S (NP) a)", "node 'NP' must contain a word"),
        ("( (S a))", "expected a label after the opening bracket"),
        ("()", "expected a label after the opening bracket"),
        ("(S (| a) (| b))", "expected the word 'a' as in another expansion"),
        ("(S (| (A a) b) (| (A a)))", "must cover the same words"),
        ("(S (| (A a)) (| (A a) b))", "must cover the same words"),
        ("(S (| a) (| a))", "all expansions of node 'S' must be different"),
        ("(S (|) (| a))", "each expansion of node 'S' must contain a word"),
        ("(S (| a) b)", "child node beside"),
        ("(S (| a) (B a))", "child node beside"),
        ("(S a (| b))", "beside words or other child nodes"),
        ("(S (| (| a)))", "directly inside another expansion"),
        ("(| a)", "outside a node"),
        ("(S (#1) a)", "must be defined before"),
        ("(S #1=(A a) (#1))", "begins after 0 words, but is used after 1 words"),
        ("(S (#1 a))", "reference '#1' cannot contain words or nodes"),
        ("(#1)", "must be defined before"),
    ],
)
def test_invalid_trees_are_rejected(text: str, what: str) -> None:
    with pytest.raises(BracketError, match=what):
        read_parse(text)


def test_trees_that_do_not_fit_one_forest_are_rejected() -> None:
    with pytest.raises(BracketError, match="must have the same words, got 'a' and 'b'"):
        pack([read_parse("(S a)"), read_parse("(S b)")])
    with pytest.raises(BracketError, match="must have the same root label, got S, T"):
        pack([read_parse("(S a)"), read_parse("(T a)")])
    with pytest.raises(BracketError, match="expected at least one tree"):
        pack([])
