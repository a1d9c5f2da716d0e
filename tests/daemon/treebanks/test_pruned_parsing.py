"""Parsing by randomized pruning: the trees are those of whole charts."""

from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.treebanks.approximation import approximate
from hierogram.daemon.treebanks.grammars import TreeGrammar, context_free
from hierogram.daemon.treebanks.parsing import Parser, Pruning
from hierogram.daemon.treebanks.requests import MPD
from hierogram.daemon.treebanks.trees import read_tree

ATTACHED = """
(S (NP (PRP he)) (VP (V hears) (NP))) ||| 3
(S (NP) (VP)) ||| 5
(NP (PRP he)) ||| 4
(NP (NP) (PP)) ||| 0.7
(NP (N birds)) ||| 3
(NP (N)) ||| 2
(VP (V) (NP)) ||| 3
(VP (VP) (PP)) ||| 3
(VP (VP (V hears) (NP)) (PP (P near) (NP))) ||| 2
(PP (P near) (NP)) ||| 4
(V hears) ||| 2
(P near) ||| 1
(N birds) ||| 2
(N trees) ||| 3
(TOP (S)) ||| 9
"""
"""What stands near what is ambiguous."""
SENTENCE = ["he", "hears", "birds", "near", "trees"]


def grammar_of(text: str) -> TreeGrammar:
    rows = [line.split(" ||| ") for line in text.strip().splitlines()]
    return TreeGrammar([(read_tree(tree, frontiers=True), float(count)) for tree, count in rows])


@pytest.mark.parametrize("method", ["mer", MPD])
def test_randomized_pruning_finds_the_trees_of_whole_charts(method: str) -> None:
    grammar = grammar_of(ATTACHED)
    known = approximate(grammar, smoothed=True)
    cheap = approximate(context_free(grammar), smoothed=False)
    whole = Parser(known, draws=0)
    pruned = Parser(known, draws=0, pruning=Pruning(300, cheap))
    longer = [*SENTENCE, "near", "birds"]
    for number, words in enumerate((SENTENCE, longer, [*longer, "near", "trees"])):
        exact, found = (parser.parse(words, number, (method,)) for parser in (whole, pruned))
        assert str(found.trees[method]) == str(exact.trees[method])
        if method == "mer":
            assert found.log_probability <= exact.log_probability + 1e-9


def test_what_randomized_pruning_cannot_do_is_refused() -> None:
    grammar = grammar_of(ATTACHED)
    known, pruning = approximate(grammar), Pruning(10, approximate(context_free(grammar), smoothed=False))
    with pytest.raises(UsageError, match="--prune is for mer and mpd"):
        Parser(known, draws=0, pruning=pruning).parse(SENTENCE, 0, ("mpp",))
    with pytest.raises(UsageError, match="without --draws"):
        Parser(known, draws=10, pruning=pruning)


def test_a_sentence_without_a_parse_gets_a_flat_tree_with_masks_too() -> None:
    grammar = grammar_of("(TOP (A) (B)) ||| 1\n(A the) ||| 3\n(B dog) ||| 1")
    pruning = Pruning(3, approximate(context_free(grammar), smoothed=False))
    parser = Parser(approximate(grammar), draws=0, pruning=pruning)
    for words in (["dog", "the"], ["the", "dog", "the"]):
        assert not parser.parse(words, 0).found
    assert str(parser.parse(["the", "dog"], 0).trees["mer"]) == "(TOP (A the) (B dog))"


def test_the_command_parses_with_masks(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text(ATTACHED)
    (tmp_path / "text").write_text(" ".join(SENTENCE) + "\n\nhe hears trees\n")
    whole = hierogram("parse", str(tmp_path / "grammar"), str(tmp_path / "text"))
    pruned = hierogram("parse", str(tmp_path / "grammar"), str(tmp_path / "text"), "--prune", "200")
    assert (pruned.code, pruned.out) == (0, whole.out)
    assert hierogram(
        "parse", str(tmp_path / "grammar"), str(tmp_path / "text"), "--prune", "2", "--method", "mpp"
    ).code == 2  # fmt: skip
