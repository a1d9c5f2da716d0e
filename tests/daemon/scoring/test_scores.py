"""Scores of pairs: what a pair has added to the store is taken out, every pair has one, and the command tells them."""

import json
import math
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import LINES, Run

from hierogram.daemon.scoring import scoring
from hierogram.daemon.scoring.learned import Learned, rows_of
from hierogram.daemon.scoring.numbers import RuleNumbers
from hierogram.daemon.scoring.options import ScoreOptions
from hierogram.daemon.scoring.scoring import Scorer, _cut, _Piece
from hierogram.storage.store import Store

OPTIONS = ScoreOptions()


@pytest.fixture
def known(learned: Store) -> Learned:
    return Learned(learned, lambda *_: None)


def test_a_pair_does_not_vouch_for_itself(learned: Store, known: Learned) -> None:
    scorer = Scorer(known, OPTIONS)
    for row in rows_of(learned):
        own = scorer.score_stored(row)
        as_text = scorer.score(row.source.split(" "), row.target.split(" "), row.id)
        assert own.tokens == as_text.tokens == len(row.source.split()) + len(row.target.split())
        assert own.evidence < as_text.evidence
        assert own.unseen >= as_text.unseen - 1e-9


def test_what_is_taken_out_is_all_that_the_pair_added(learned: Store, known: Learned) -> None:
    """The pairs' own uses, words and links add up to what the store has."""
    rows = list(rows_of(learned))
    from hierogram.daemon.scoring.learned import Own

    owns = [
        Own.of(row, (known.number(0, row.source.split()), known.number(1, row.target.split())), known) for row in rows
    ]
    numbers = {texts: known.rules.number.get(texts) for own in owns for texts in own.rules}
    assert sorted(rule for rule in numbers.values() if rule >= 0) == list(range(len(known.rules.uses)))
    for texts, rule in numbers.items():
        if rule >= 0:
            assert sum(own.rules[texts] for own in owns) == known.rules.uses[rule]
    for link, times in known.links.items():
        assert sum(own.links[link] for own in owns) == times
    for side in (0, 1):
        for word, times in enumerate(known.word_counts[side].tolist()):
            assert sum(own.words[side][word] for own in owns) == times
            assert sum(own.linked[side][word] for own in owns) == known.linked_counts[side][word]


def test_translations_have_more_evidence_than_pairs_that_do_not_belong_together(known: Learned) -> None:
    scorer = Scorer(known, OPTIONS)
    right = scorer.score(["elle", "voit", "la", "porte"], ["she", "sees", "the", "door"], 1)
    wrong = scorer.score(["elle", "voit", "la", "porte"], ["a", "green", "house"], 1)
    assert right.evidence > wrong.evidence
    assert {(link.source, link.target) for link in right.links} >= {(2, 2), (3, 3)}


def test_every_pair_has_a_score(known: Learned) -> None:
    scorer = Scorer(known, OPTIONS)
    unknown = scorer.score(["zzz"], ["yyy", "xxx"], 1)
    assert math.isfinite(unknown.log_probability)
    assert unknown.unseen == pytest.approx(1)
    assert unknown.exact
    long = scorer.score(["la", "maison", "zzz"] * 40, ["the", "house"] * 50, 1)
    assert math.isfinite(long.log_probability)
    assert long.pieces > 1


def test_masks_give_the_exact_score(known: Learned) -> None:
    sides = ["il", "ne", "voit", "pas", "la", "maison", "verte"], ["he", "does", "not", "see", "the", "green", "house"]
    exact = Scorer(known, ScoreOptions(exact=2_500)).score(*sides, 1)
    pruned = Scorer(known, ScoreOptions(exact=0, masks=400)).score(*sides, 1)
    assert exact.exact
    assert not pruned.exact
    assert exact.log_probability_error == 0
    assert pruned.log_probability_error is not None
    # Of what is never drawn, no error is seen.
    assert abs(pruned.log_probability - exact.log_probability) < 4 * pruned.log_probability_error + 0.001
    assert pruned.unseen == pytest.approx(exact.unseen, abs=0.02)


def test_rules_are_found_by_their_sides() -> None:
    rules = [(f"a{k}", f"b{k % 7}") for k in range(200)]
    numbers = RuleNumbers(rules)
    assert len(numbers) == 200
    assert [numbers.get(rule) for rule in rules] == list(range(200))
    assert numbers.get(("a0", "b1")) == numbers.get(("b0", "a0")) == RuleNumbers([]).get(("a", "b")) == -1


def test_long_pairs_are_cut_where_no_likely_link_is_parted() -> None:
    likely = np.array([(k, k) for k in range(40)], np.int32)
    second, first = _cut(_Piece(0, 40, 0, 40), likely)
    assert (first.i, first.x, second.j, second.y) == (0, 0, 40, 40)
    assert (first.j, first.y) == (second.i, second.x)
    assert first.j == first.y
    assert 15 < first.j < 25


def test_a_pair_with_too_large_a_chart_is_cut(known: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = ["il", "ne", "voit", "pas", "la", "maison", "verte"], ["he", "does", "not", "see", "the", "green", "house"]
    scorer = Scorer(known, ScoreOptions())
    whole = scorer.score(*sides, 1)
    assert whole.pieces == 1
    monkeypatch.setattr(scoring, "_MOST_EDGES", 100)
    cut = scorer.score(*sides, 1)
    assert cut.pieces > 1
    # Derivations across the cut are left out.
    assert whole.log_probability - 5 < cut.log_probability < whole.log_probability
    assert cut.tokens == whole.tokens


def test_the_command_scores_stored_pairs(hierogram: Run, learned_url: str) -> None:
    told = [json.loads(line) for line in hierogram("--store", learned_url, "score", "--json").out.splitlines()]
    assert [one["pair"] for one in told] == list(range(1, len(LINES) + 1))
    limit = sorted(one["evidence"] for one in told)[3]
    table = hierogram("--store", learned_url, "score", "--below", str(limit))
    assert table.code == 0
    assert len(table.out.splitlines()) == 4
    assert f"3 pairs of {len(LINES)}" in table.err
    one = hierogram("--store", learned_url, "score", "--pair", "2", "--json")
    assert json.loads(one.out) == told[1]
    assert "no pair 99" in hierogram("--store", learned_url, "score", "--pair", "99").err


def test_the_command_scores_files(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    (tmp_path / "a.fr").write_text("la maison\n\nla porte\n")
    (tmp_path / "a.en").write_text("the house\nthe\nthe door\n")
    ran = hierogram("--store", learned_url, "score", "a.fr", "a.en", "--json")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 1
    assert [one["line"] for one in told] == [1, 2, 3]
    assert told[1]["problem"] == "a side is empty"
    assert told[0]["links"]
    (tmp_path / "b.en").write_text("the house\n")
    assert hierogram("--store", learned_url, "score", "a.fr", "b.en").code == 3
    assert hierogram("--store", learned_url, "score", "a.fr").code == 2


def test_the_examples_of_the_document_run(hierogram: Run, learned_url: str) -> None:
    document = (Path(__file__).parents[3] / "docs" / "scores.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", document, re.DOTALL)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "hierogram"
        assert hierogram("--store", learned_url, *arguments).code == 0
