"""Scores of pairs: what a pair has added to the store is taken out, every pair has one, and the command tells them."""

import json
import math
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update
from tests.daemon.conftest import LINES, Run

from hierogram.daemon.scoring import scoring
from hierogram.daemon.scoring.learned import Learned, Own, RuleNumbers, Sides, rows_of
from hierogram.daemon.scoring.lexicon import Lexicon
from hierogram.daemon.scoring.misfits import Contexts
from hierogram.daemon.scoring.records import ScoreOptions
from hierogram.daemon.scoring.scoring import Scorer, _cut, _usable
from hierogram.storage.records import PairRow
from hierogram.storage.schema.tables import rules
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


def others_of(learned: Store, row: PairRow) -> list[PairRow]:
    return [other for other in rows_of(learned) if other.id != row.id]


def own_of(known: Learned, row: PairRow) -> tuple[Sides, Own]:
    sides = known.number(0, row.source.split()), known.number(1, row.target.split())
    return sides, Own.of(row, sides, known)


def test_rules_have_the_probabilities_that_the_other_pairs_give_them(learned: Store, known: Learned) -> None:
    """From docs/model.md: (n_r - d n_r^d) Poisson(l) / (n_l + strength), n of the other pairs' derivations alone.

    What new rules have is the rest: 1 less the kept mass of all rules, whose own uses are not taken out.
    """
    settings = known.settings
    discount = settings.discount
    assert 0 < discount < 1
    with learned.snapshot() as snapshot:
        lengths = {(rule.source, rule.target): rule.length for rule in snapshot.iterate_all_rule_rows()}

    def kept(times: int) -> float:
        return times - discount * times**discount if times else 0.0

    def factor(length: int, tokens: Counter[int]) -> float:
        poisson = settings.rate**length * math.exp(-settings.rate) / math.factorial(length)
        return poisson / (tokens[length] + settings.strength)

    scorer = Scorer(known, OPTIONS)
    everywhere = Counter(use for row in rows_of(learned) for use in known.rules_of(row).elements())
    for row in rows_of(learned):
        sides, own = own_of(known, row)
        uses = Counter(use for other in others_of(learned, row) for use in known.rules_of(other).elements())
        tokens: Counter[int] = Counter()
        for use, times in uses.items():
            tokens[lengths[use]] += times
        chosen, weights, new = scorer._weights(sides, own)
        found = dict(zip(chosen.tolist(), weights.tolist(), strict=True))
        expected = {
            known.rules.number.get(use): kept(uses[use]) * factor(lengths[use], tokens)
            for use in uses
            if known.rules.number.get(use) in _usable(known.rules, sides)
        }
        assert found == pytest.approx({rule: weight for rule, weight in expected.items() if weight > 0})
        total = sum(kept(times) * factor(lengths[use], tokens) for use, times in everywhere.items())
        assert new == pytest.approx(1 - total)


def test_words_and_links_are_those_of_the_other_pairs(learned: Store, known: Learned) -> None:
    """Counted once more from the other pairs' texts and links, by words and not by numbers."""
    lexicon = Lexicon(known)
    everyone = list(rows_of(learned))
    for row in everyone:
        others = others_of(learned, row)
        sides, own = own_of(known, row)
        alone = lexicon.alone(sides, own)
        nulls = lexicon.nulls(sides, alone, own)
        texts = row.source.split(), row.target.split()
        for side in (0, 1):
            words = Counter(word for other in others for word in (other.source, other.target)[side].split())
            size = len({word for pair in everyone for word in (pair.source, pair.target)[side].split()})
            links: Counter[tuple[str, str]] = Counter()
            free: Counter[str] = Counter()
            for other in others:
                told = other.source.split(), other.target.split()
                ends = [(int(i), int(j)) for i, j in (link.split("-") for link in other.alignment.split())]
                links.update((told[side][end[side]], told[1 - side][end[1 - side]]) for end in ends)
                linked = {end[side] for end in ends}
                free.update(word for k, word in enumerate(told[side]) if k not in linked)
            places = [len((pair.source, pair.target)[side].split()) for pair in everyone]
            bound = sum(len({link.split("-")[side] for link in pair.alignment.split()}) for pair in everyone)
            rate = 1 - bound / sum(places)
            totals, partners = lexicon._links(side, sides[side], own)
            for k, word in enumerate(texts[side]):
                p = (words[word] + 0.5) / (words.total() + 0.5 * (size + 1))
                assert alone[side][k] == pytest.approx(p)
                assert nulls[side][k] == pytest.approx(p * (free[word] + rate) / (words[word] + 1) / max(rate, 1e-6))
                with_word = {link: times for link, times in links.items() if link[0] == word}
                assert (totals[k], partners[k]) == (sum(with_word.values()), len(with_word))
        seen = lexicon.linked(sides, own)
        assert seen == pytest.approx(np.array([[links[e, f] for e in texts[1]] for f in texts[0]]))


def test_neighbours_are_those_of_the_other_pairs(learned: Store, known: Learned) -> None:
    rows = list(rows_of(learned))
    for row in rows:
        sides, own = own_of(known, row)
        alone = Lexicon(known).alone(sides, own)
        for side in (0, 1):
            others = [own_of(known, other)[0][side] for other in rows if other.id != row.id]
            first = np.cumsum([0, *map(len, others)])
            without = Contexts(np.concatenate(others).astype(np.int32), first, len(known.words[side]))
            expected = without.fit(sides[side], [], alone[side])
            assert known.contexts[side].fit(sides[side], own.sides[side], alone[side]) == pytest.approx(expected)


def test_rules_of_scope_three_are_used(learned: Store) -> None:
    """And larger ones are not: they would take more than O(n³) places on a side."""
    with learned.snapshot() as snapshot:
        one, two, *_ = [rule for rule in snapshot.iterate_all_rule_rows() if rule.count > 0]
    with learned.engine.begin() as connection:
        for rule, scope in ((one, 3), (two, 4)):
            connection.execute(update(rules).where(rules.c.id == rule.id).values(scope=scope))
    known = Learned(learned, lambda *_: None)
    assert known.rules.number.get((one.source, one.target)) >= 0
    assert known.rules.number.get((two.source, two.target)) == -1


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
    assert [numbers.get(rule) for rule in rules] == list(range(200))
    assert numbers.get(("a0", "b1")) == numbers.get(("b0", "a0")) == RuleNumbers([]).get(("a", "b")) == -1


def test_long_pairs_are_cut_where_no_likely_link_is_parted() -> None:
    likely = np.array([(k, k) for k in range(40)], np.int32)
    (i, j, x, y), first = _cut((0, 40, 0, 40), likely)
    assert (j, y) == (40, 40)
    assert first == (0, i, 0, x)
    assert i == x
    assert 15 < i < 25


def test_a_pair_with_too_large_a_chart_is_cut(known: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = ["il", "ne", "voit", "pas", "la", "maison", "verte"], ["he", "does", "not", "see", "the", "green", "house"]
    scorer = Scorer(known, ScoreOptions())
    whole = scorer.score(*sides, 1)
    assert whole.pieces == 1
    monkeypatch.setattr(scoring, "_MOST_EDGES", 100)
    cut = scorer.score(*sides, 1)
    assert cut.pieces > 1
    # Pieces are joined by rules that put two nonterminals side by side, one less than there are pieces.
    parts: list[tuple[int, int, int, int]] = []
    pieces_of = scorer._estimates

    def noting(*arguments: Any) -> Any:
        pieces, found = pieces_of(*arguments)
        parts.extend(pieces)
        return pieces, found

    monkeypatch.setattr(scorer, "_estimates", noting)
    cut = scorer.score(*sides, 1)
    chosen, weights, new = scorer._weights((known.number(0, sides[0]), known.number(1, sides[1])), Own.nothing())
    side_by_side = known.rules.number.get(("[X,1] [X,2]", "[X,1] [X,2]"))
    straight = 0.25 * new + (weights[chosen == side_by_side].sum() if side_by_side >= 0 else 0.0)
    alone = [Scorer(known, ScoreOptions()).score(sides[0][i:j], sides[1][x:y], 1) for i, j, x, y in list(parts)]
    assert all(one.pieces == 1 for one in alone)
    expected = sum(one.log_probability * one.tokens for one in alone) + (cut.pieces - 1) * math.log(straight)
    assert cut.log_probability * cut.tokens == pytest.approx(expected)
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


def test_the_command_keeps_scores_and_tells_them(hierogram: Run, learned_url: str) -> None:
    made = hierogram("--store", learned_url, "score", "--json", "--keep")
    kept = hierogram("--store", learned_url, "score", "--json", "--kept")
    assert made.code == kept.code == 0
    for one, two in zip(made.out.splitlines(), kept.out.splitlines(), strict=True):
        before, after = json.loads(one), json.loads(two)
        for link in before["links"]:
            link["probability"] = round(link["probability"], 3)
        assert after == before
    assert len(made.out.splitlines()) == len(LINES)
    limit = sorted(json.loads(line)["evidence"] for line in made.out.splitlines())[2]
    assert len(hierogram("--store", learned_url, "score", "--kept", "--below", str(limit)).out.splitlines()) == 3
    one_pair = hierogram("--store", learned_url, "score", "--kept", "--pair", "2", "--json")
    assert json.loads(one_pair.out)["pair"] == 2
    assert hierogram("--store", learned_url, "score", "--kept", "--pair", "99").code == 3
    assert hierogram("--store", learned_url, "score", "--kept", "--keep").code == 2
    assert hierogram("--store", learned_url, "score", "a", "b", "--keep").code == 2


def test_pairs_with_a_word_that_does_not_belong_are_told(hierogram: Run, learned_url: str) -> None:
    every = [json.loads(line) for line in hierogram("--store", learned_url, "score", "--json").out.splitlines()]
    worst = [max(one["source_misfit"]["odds"], one["target_misfit"]["odds"]) for one in every]
    limit = sorted(worst)[-3]
    told = hierogram("--store", learned_url, "score", "--json", "--misfit", str(limit)).out.splitlines()
    assert {json.loads(line)["pair"] for line in told} == {
        one["pair"] for one, odds in zip(every, worst, strict=True) if odds >= limit
    }
    table = hierogram("--store", learned_url, "score", "--misfit", str(limit)).out
    first = json.loads(told[0])
    word = first["target"].split()[first["target_misfit"]["position"]]
    assert f"{word} {first['target_misfit']['odds']:.1f}" in table
