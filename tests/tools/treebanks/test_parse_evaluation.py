"""Bracketing scores by EVALB's conventions, compared with manual counts."""

from pathlib import Path

import pytest

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.treebanks.trees import read_tree
from hierogram.tools.treebanks.evaluation import collect_brackets, evaluate
from hierogram.tools.treebanks.library import evaluate_trees

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN rain))))) (. .)))"
"""Seven brackets: S 0-7, NP 0-2, VP 2-7, NP 3-7, NP 3-5, PP 5-7, NP 6-7."""


def score(gold: str, found: str):
    return evaluate([read_tree(gold)], [read_tree(found)])["all"]


def test_equal_trees_have_perfect_scores() -> None:
    result = score(GOLD, GOLD)
    assert (result.precision, result.recall, result.f1, result.exact, result.tagging) == (1, 1, 1, 1, 1)


def test_a_wrong_attachment_loses_one_bracket() -> None:
    flat = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT a) (NN dog)) (PP (IN in) (NP (NN rain)))) (. .)))"
    result = score(GOLD, flat)
    assert result.exact == 0
    assert result.recall == pytest.approx(6 / 7)
    assert result.precision == 1
    assert result.f1 == pytest.approx(12 / 13)


def test_labels_of_brackets_count_but_tags_of_words_do_not() -> None:
    other = GOLD.replace("(PP (IN in)", "(ADJP (RB in)")
    result = score(GOLD, other)
    assert result.precision == pytest.approx(6 / 7)
    # The tags of seven words count, without the full stop.
    assert result.tagging == pytest.approx(6 / 7)


def test_punctuation_is_ignored() -> None:
    """`(NP a ,)` and `(NP a) ,` have the same bracket. A bracket with only punctuation does not count."""
    gold = "(TOP (S (NP (NN a) (, ,)) (PRN (, ,)) (VP (VB b)) (. .)))"
    found = "(TOP (S (NP (NN a)) (, ,) (, ,) (VP (VB b) (. .))))"
    result = score(gold, found)
    assert (result.precision, result.recall, result.f1, result.exact) == (1, 1, 1, 1)
    quotes = "(TOP (S (`` ``) (NP (NN a)) ('' '') (: :) (-LRB- -LRB-) (VP (VB b))))"
    brackets = collect_brackets(read_tree(quotes))
    counted = [False, True, False, False, True, True]
    assert brackets.spans_among(counted) == {("S", 0, 3): 1, ("NP", 0, 1): 1, ("VP", 2, 3): 1}


def test_a_wrong_punctuation_tag_does_not_shift_words() -> None:
    gold = "(TOP (S (NP (NN a)) (NN -) (VP (VB b)) (. .)))"
    found = "(TOP (S (NP (NN a)) (: -) (VP (VB b)) (NN .)))"
    result = score(gold, found)
    assert (result.precision, result.recall, result.f1) == (1, 1, 1)
    assert result.tagging == pytest.approx(2 / 3)


def test_traces_and_functional_tags_are_ignored_and_advp_equals_prt() -> None:
    gold = "( (S (NP-SBJ-1 (NN a)) (VP (VB b) (NP=2 (-NONE- *-1)) (PRT (RP up)))))"
    found = "(TOP (S (NP (NN a)) (VP (VB b) (ADVP (RB up)))))"
    result = score(gold, found)
    assert (result.precision, result.recall, result.f1, result.exact) == (1, 1, 1, 1)
    assert len(collect_brackets(read_tree(gold)).words) == 3


def test_repeated_brackets_match_once_each() -> None:
    result = score("(TOP (S (NP (NP (NN a))) (VP (VB b))))", "(TOP (S (NP (NN a)) (VP (VP (VP (VB b))))))")
    assert (result.precision, result.recall) == (pytest.approx(3 / 5), pytest.approx(3 / 4))


def test_rates_cover_all_sentences_and_short_ones_separately() -> None:
    long = "(TOP (S (NP " + "(NN a) " * 40 + ") (VP (VB b)) (, ,)))"
    wrong = "(TOP (S (X " + "(NN a) " * 40 + ") (Y (VB b)) (, ,)))"
    result = evaluate([read_tree(GOLD), read_tree(long)], [read_tree(GOLD), read_tree(wrong)])
    assert result["all"].sentences == 2
    assert result["all"].precision == pytest.approx(8 / 10)
    assert result["all"].exact == 0.5
    assert result["up_to_cutoff"].sentences == 1
    assert result["up_to_cutoff"].f1 == 1


def test_a_tree_without_brackets_has_an_f1_of_0() -> None:
    result = score(GOLD, "(TOP (DT the) (NN cat) (VBD saw) (DT a) (NN dog) (IN in) (NN rain) (. .))")
    assert (result.precision, result.recall, result.f1) == (1, 0, 0)


def test_trees_of_different_sentences_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sentence 1"):
        score(GOLD, "(TOP (S (NN a)))")
    (tmp_path / "parses").write_text(f"{GOLD}\n")
    (tmp_path / "gold").write_text(f"{GOLD}\n{GOLD}\n")
    with pytest.raises(InputError, match=r"parses has 1 trees, but .*gold has 2"):
        evaluate_trees(tmp_path / "parses", tmp_path / "gold")
