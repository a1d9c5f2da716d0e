"""Scores of pairs: a pair's own contribution is excluded, every pair has a score, and the command prints them."""

import dataclasses
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update
from tests.daemon.conftest import LINES, QUICK, Run, create_learned_store
from tests.daemon.learning.stores import fill, some_pairs
from tests.storage.rows import rule_rows

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.library.store import GrammarStore
from hierogram.samplers.charts.dense import PairPiece
from hierogram.samplers.grammar.settings import DIRICHLET, PITMAN_YOR
from hierogram.samplers.scores.scorer import choose_cut
from hierogram.storage.records.pairs import PairRow, PairScore
from hierogram.storage.schema.tables import rules
from hierogram.storage.store import Store, open_store
from hierogram.tools.scores import learned_counts
from hierogram.tools.scores.learned_counts import LearnedCounts, iterate_rows
from hierogram.tools.scores.library import score_texts
from hierogram.tools.scores.scoring import MAX_WORDS, Scorer, doubt, make_baseline


@pytest.fixture
def known(learned: Store) -> LearnedCounts:
    return LearnedCounts(learned, lambda *_: None)


def score_of_text(scorer: Scorer, source: list[str], target: list[str]) -> PairScore:
    [found] = scorer.score([(source, target)])
    return found


def test_a_pair_does_not_support_itself(learned: Store, known: LearnedCounts) -> None:
    scorer = Scorer(known)
    rows = list(iterate_rows(learned))
    for row, (own, _) in zip(rows, scorer.score_stored(rows), strict=True):
        as_text = score_of_text(scorer, row.source.split(" "), row.target.split(" "))
        assert own.tokens == as_text.tokens == len(row.source.split()) + len(row.target.split())
        assert own.evidence < as_text.evidence
        assert own.unseen >= as_text.unseen - 1e-9


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("model", [PITMAN_YOR, DIRICHLET])
def test_a_store_without_the_pair_gives_the_same_scores(
    learned: Store, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All contributions of a pair are excluded: uses and their totals by length, words, links, neighbors, rates."""
    settings = dataclasses.replace(learned.settings(), model=model)
    monkeypatch.setattr(Store, "settings", lambda _: settings)
    leave_out(learned, [row.id for row in list(iterate_rows(learned))[:4]])


@pytest.mark.slow
@pytest.mark.parametrize("model", [PITMAN_YOR, DIRICHLET])
@pytest.mark.database("sqlite")
def test_ten_of_sixty_pairs_are_scored_without_their_own_counts(model: str, tmp_path: Path) -> None:
    """In such a small store a pair has a large share of all uses, words, and unlinked words."""
    url = f"sqlite:///{tmp_path / 'sixty.db'}"
    create_learned_store(url, sixty(tmp_path), dataclasses.replace(QUICK, model=model))
    with open_store(url) as store:
        assert store.count_pairs() == 60
        leave_out(store, range(1, 61, 6))


def sixty(folder: Path) -> Path:
    """Write sixty pairs of 2 to 13 source words. Some words occur in only one pair, and some have no link."""
    random = np.random.default_rng(1)
    lines = []
    for number in range(60):
        source, target, links = [], [], []
        for _ in range(random.integers(1, 5)):
            noun, adjective = (int(chosen) for chosen in random.integers(0, 8, 2))
            i, x = len(source), len(target)
            source += [f"n{noun}", f"a{adjective}"]
            target += [f"A{adjective}", f"N{noun}"]
            links += [f"{i}-{x + 1}", f"{i + 1}-{x}"]
            if random.random() < 0.4:
                source.append("de")
        if number % 7 == 0:
            source.append(f"seul{number}")
            target += [f"alone{number}", "now"]
            links.append(f"{len(source) - 1}-{len(target) - 2}")
        lines.append(f"{' '.join(source)} ||| {' '.join(target)} ||| {' '.join(links)}\n")
    path = folder / "sixty.bars"
    path.write_text("".join(lines))
    return path


def leave_out(learned: Store, pairs: Iterable[int]) -> None:
    """Withdraw these pairs one by one, and check that each has the same score when it is scored as new text."""
    for pair in pairs:
        [row] = learned.pairs(pair - 1, 1)
        scorer = Scorer(LearnedCounts(learned, lambda *_: None))
        [(own, derivation)] = scorer.score_stored([row])
        assert derivation is not None
        GrammarStore(learned).withdraw([row.id])
        without = Scorer(LearnedCounts(learned, lambda *_: None))
        # The classifiers of misfit words and the baseline are learned from all pairs.
        without._classifiers, without._baseline = scorer._classifiers, scorer._baseline
        found = score_of_text(without, row.source.split(" "), row.target.split(" "))
        links = [(link.source, link.target) for link in own.links]
        assert links == [(link.source, link.target) for link in found.links]
        for name in ("log_probability", "evidence", "unseen", "doubt"):
            assert getattr(found, name) == pytest.approx(getattr(own, name), abs=1e-9), name
        for name in ("source_misfit", "target_misfit"):
            mine, theirs = getattr(own, name), getattr(found, name)
            assert mine == theirs or mine.log_odds == pytest.approx(theirs.log_odds, abs=1e-6)


def test_a_pair_with_an_unreadable_derivation_has_a_score(learned: Store, known: LearnedCounts) -> None:
    rows = list(iterate_rows(learned))
    scorer = Scorer(known)
    broken = [*rows[:2], rows[2]._replace(current=b"\xff"), *rows[3:]]
    sound = scorer.score_stored(rows)
    for k, ((score, derivation), (sound_score, _)) in enumerate(zip(scorer.score_stored(broken), sound, strict=True)):
        assert (derivation is None) == (k == 2)
        assert (score == sound_score) == (k != 2)
    assert scorer.derivation_log_probabilities(rows) == [derivation for _, derivation in sound]


def test_the_baseline_is_computed_from_stored_pairs(known: LearnedCounts) -> None:
    scorer = Scorer(known)
    scores = [score for score, _ in scorer.score_stored(known.examples)]
    assert len(scores) < 200
    assert scorer._baseline == make_baseline([s.evidence for s in scores], [s.log_probability for s in scores])
    assert scorer._baseline.evidence != scorer._baseline.log_probability
    for score, row in zip(scores, known.examples, strict=True):
        sides = row.source.split(" "), row.target.split(" ")
        assert score.doubt == doubt(scorer._baseline, score.evidence, score.log_probability, *sides)


@pytest.mark.parametrize("model", [PITMAN_YOR, DIRICHLET])
def test_a_derivation_has_the_mean_weight_of_its_rules_under_the_other_pairs(
    learned: Store, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(learned.settings(), model=model)
    monkeypatch.setattr(Store, "settings", lambda _: settings)
    known, rows = LearnedCounts(learned, lambda *_: None), list(iterate_rows(learned))
    found = Scorer(known).derivation_log_probabilities(rows)
    expected = [mean_weight(known, row) for row in rows]
    assert found == pytest.approx(expected, rel=1e-9)
    assert min(expected) < max(expected) < 0


def mean_weight(known: LearnedCounts, row: PairRow) -> float:
    """Return the mean of ln p(r | other pairs) over the uses of a pair's derivation, from the definition."""
    rules, pairs = known.rules, known.load_pairs([row])
    own = Counter(dict(zip(pairs.rule.tolist(), pairs.rule_uses.tolist(), strict=True)))
    discount = 0.0 if rules.pooled else rules.discount

    def weight(rule: int) -> float:
        count = int(rules.uses[rule]) - own[rule]
        length = int(rules.lengths[rule])
        others = [
            int(uses) - own[other]
            for other, uses in enumerate(rules.uses)
            if rules.pooled or int(rules.lengths[other]) == length
        ]
        prior = 1.0 if rules.pooled else math.exp(-2.0) * 2.0**length / math.factorial(length)
        kept = count - discount * count**discount if count else 0.0
        return prior * kept / (sum(others) + rules.strength)

    new = 1.0 - sum(weight(rule) for rule in np.flatnonzero(rules.usable))
    rarest = new / (int(rules.uses.sum()) - own.total())
    logs = sum(times * math.log(max(weight(rule), rarest)) for rule, times in own.items())
    return logs / own.total()


def test_only_rules_of_up_to_scope_three_are_used(learned: Store) -> None:
    """Rules of larger scope are not used, because they match more than O(n³) places on a side."""
    before = int(LearnedCounts(learned, lambda *_: None).rules.usable.sum())
    with learned.snapshot() as snapshot:
        one, two, *_ = [rule for rule in rule_rows(snapshot) if rule.count > 0 and rule.scope < 3]
    for rule, scope, usable in ((one, 3, before), (two, 4, before - 1)):
        with learned.engine.begin() as connection:
            connection.execute(update(rules).where(rules.c.id == rule.id).values(scope=scope))
        assert int(LearnedCounts(learned, lambda *_: None).rules.usable.sum()) == usable


def test_translations_have_more_evidence_than_mismatched_pairs(known: LearnedCounts) -> None:
    scorer = Scorer(known)
    right = score_of_text(scorer, ["elle", "voit", "la", "porte"], ["she", "sees", "the", "door"])
    wrong = score_of_text(scorer, ["elle", "voit", "la", "porte"], ["a", "green", "house"])
    assert right.evidence > wrong.evidence
    assert right.doubt < wrong.doubt
    assert {(link.source, link.target) for link in right.links} >= {(2, 2), (3, 3)}


def test_different_numbers_and_copies_are_doubtful(known: LearnedCounts) -> None:
    scorer = Scorer(known)
    same = score_of_text(scorer, ["la", "maison", "17"], ["the", "house", "17"])
    other = score_of_text(scorer, ["la", "maison", "17"], ["the", "house", "71"])
    assert other.doubt == pytest.approx(same.doubt + 4)
    copied = score_of_text(scorer, ["la", "maison"], ["la", "maison"])
    assert copied.doubt > score_of_text(scorer, ["la", "maison"], ["xx", "yy"]).doubt + 3.9


def test_every_pair_has_a_score_or_a_reason(known: LearnedCounts) -> None:
    scorer = Scorer(known)
    unknown = score_of_text(scorer, ["zzz"], ["yyy", "xxx"])
    assert math.isfinite(unknown.log_probability)
    assert unknown.unseen == pytest.approx(1)
    assert unknown.exact
    lines = [
        (["la", "maison", "zzz"] * 40, ["the", "house"] * 50),
        (["la"] * 300, ["the"] * 300),
        (["la"], ["the", "house"] * 150),
        (["la", "maison"] * 150, ["x"]),
        (["l'", "a", "m", "a", "i", "s", "o", "n"], ["<b>", "the", "</b>"]),
    ]
    scores = [score_of_text(scorer, *line) for line in lines]
    assert all(math.isfinite(score.log_probability) and 0 <= score.unseen <= 1 for score in scores)
    assert [score.exact for score in scores] == [False, False, True, True, True]
    results = score_texts(
        scorer, [(7, [], ["a"]), (8, ["la"], ["the"]), (9, ["la"] * (MAX_WORDS + 1), ["the"]), (10, ["la"], [])]
    )
    assert [(number, score is None, problem) for number, _, _, score, problem in results] == [
        (7, True, "a side is empty"),
        (8, False, None),
        (9, True, "a side exceeds 1,000 words"),
        (10, True, "a side is empty"),
    ]


def test_scoring_in_a_batch_equals_scoring_one_by_one(learned: Store, known: LearnedCounts) -> None:
    scorer = Scorer(known)
    rows = list(iterate_rows(learned))
    together = scorer.score_stored(rows * 3)
    assert together == [scorer.score_stored([row])[0] for row in rows] * 3


def test_long_pairs_are_cut_where_no_likely_link_is_broken() -> None:
    likely = np.array([(k, k) for k in range(40)], np.int32)
    i, x = choose_cut(PairPiece(0, 40, 0, 40), likely, len(likely))
    assert i == x
    assert 15 < i < 25
    parted = np.array([(k, 39 - k) for k in range(40)], np.int32)
    assert choose_cut(PairPiece(0, 40, 0, 40), parted, len(parted)) != (20, 20)


def test_the_score_of_a_cut_pair_is_a_lower_bound(known: LearnedCounts, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = ["il", "ne", "voit", "pas", "la", "maison", "verte"], ["he", "does", "not", "see", "the", "green", "house"]
    whole = score_of_text(Scorer(known), *sides)
    assert (whole.pieces, whole.exact) == (1, True)
    monkeypatch.setattr("hierogram.tools.scores.scoring.EXACT_WORD_PAIRS", 16)
    scorer = Scorer(known)
    cut = score_of_text(scorer, *sides)
    assert cut.pieces > 1
    assert not cut.exact
    # Derivations across the cut are excluded.
    assert whole.log_probability - 5 < cut.log_probability < whole.log_probability
    assert cut.tokens == whole.tokens


def test_the_command_scores_stored_pairs(hierogram: Run, learned_url: str) -> None:
    rows = [json.loads(line) for line in hierogram("--store", learned_url, "score", "--json").out.splitlines()]
    assert [one["pair"] for one in rows] == list(range(1, len(LINES) + 1))
    limit = sorted(one["evidence"] for one in rows)[3]
    table = hierogram("--store", learned_url, "score", "--below", str(limit))
    assert table.code == 0
    assert len(table.out.splitlines()) == 4
    assert f"3 pairs of {len(LINES)}" in table.err
    one = hierogram("--store", learned_url, "score", "--pair", "2", "--json")
    assert json.loads(one.out) == rows[1]
    assert "pair 99 not found" in hierogram("--store", learned_url, "score", "--pair", "99").err


def test_the_command_scores_files(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    (tmp_path / "a.fr").write_text("la maison\n\nla porte\n")
    (tmp_path / "a.en").write_text("the house\nthe\nthe door\n")
    ran = hierogram("--store", learned_url, "score", "a.fr", "a.en", "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 1
    assert [one["line"] for one in rows] == [1, 2, 3]
    assert rows[1]["problem"] == "a side is empty"
    rest = hierogram("--store", learned_url, "score", "a.fr", "a.en", "--json", "--after", "2")
    assert [json.loads(line) for line in rest.out.splitlines()] == rows[2:]
    assert rows[0]["links"]
    (tmp_path / "b.en").write_text("the house\n")
    assert hierogram("--store", learned_url, "score", "a.fr", "b.en").code == 3
    assert hierogram("--store", learned_url, "score", "a.fr").code == 2


def test_the_documented_score_commands_run(hierogram: Run, learned_url: str) -> None:
    document = (Path(__file__).parents[3] / "docs" / "scores.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", document, re.DOTALL)
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "hierogram"
        assert hierogram("--store", learned_url, *arguments).code == 0


def test_the_command_stores_and_prints_scores(hierogram: Run, learned_url: str) -> None:
    made = hierogram("--store", learned_url, "score", "--json", "--keep")
    kept = hierogram("--store", learned_url, "score", "--json", "--kept")
    assert made.code == kept.code == 0
    for one, two in zip(made.out.splitlines(), kept.out.splitlines(), strict=True):
        before, after = json.loads(one), json.loads(two)
        for link in before["links"]:
            link["probability"] = round(link["probability"], 3)
        assert after == before
    assert len(made.out.splitlines()) == len(LINES)
    later = hierogram("--store", learned_url, "score", "--json", "--kept", "--after", "4")
    assert later.out.splitlines() == kept.out.splitlines()[4:]
    most = sorted(json.loads(line)["doubt"] for line in made.out.splitlines())[-2]
    assert len(hierogram("--store", learned_url, "score", "--kept", "--doubt", str(most)).out.splitlines()) == 3
    limit = sorted(json.loads(line)["evidence"] for line in made.out.splitlines())[2]
    assert len(hierogram("--store", learned_url, "score", "--kept", "--below", str(limit)).out.splitlines()) == 3
    one_pair = hierogram("--store", learned_url, "score", "--kept", "--pair", "2", "--json")
    assert json.loads(one_pair.out)["pair"] == 2
    assert hierogram("--store", learned_url, "score", "--kept", "--pair", "99").code == 3
    assert hierogram("--store", learned_url, "score", "--kept", "--keep").code == 2
    assert hierogram("--store", learned_url, "score", "a", "b", "--keep").code == 2


def test_pairs_with_a_misfit_word_are_reported(hierogram: Run, learned_url: str) -> None:
    every = [json.loads(line) for line in hierogram("--store", learned_url, "score", "--json").out.splitlines()]
    worst = [max(one["source_misfit"]["log_odds"], one["target_misfit"]["log_odds"]) for one in every]
    limit = sorted(worst)[-3]
    output = hierogram("--store", learned_url, "score", "--json", "--misfit", str(limit)).out.splitlines()
    assert {json.loads(line)["pair"] for line in output} == {
        one["pair"] for one, odds in zip(every, worst, strict=True) if odds >= limit
    }
    table = hierogram("--store", learned_url, "score", "--misfit", str(limit)).out
    first = json.loads(output[0])
    word = first["target"].split()[first["target_misfit"]["position"]]
    assert f"{word} {first['target_misfit']['log_odds']:.1f}" in table


@pytest.mark.database("sqlite")
def test_examples_are_drawn_uniformly_from_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_counts, "_MAX_EXAMPLES", 100)
    with open_store(f"sqlite:///{tmp_path / 's.db'}", create=True, settings=QUICK) as store:
        fill(store, some_pairs(400))
        learn(store, sweeps=1)
        drawn = [row.id for row in LearnedCounts(store, lambda *_: None).examples]
    assert len(set(drawn)) == 100
    # 17 is four standard deviations of the number of pairs from the first half.
    assert sum(number <= 200 for number in drawn) == pytest.approx(50, abs=17)
