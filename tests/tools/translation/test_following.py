"""A translator that follows its store: new pairs immediately, resampled pairs at the next reload."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learner import withdraw_all
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import Store
from hierogram.tools.translation import resources
from hierogram.tools.translation.grammars import StoreGrammar, TranslationGrammar
from hierogram.tools.translation.options import TranslateOptions
from hierogram.tools.translation.resources import GrammarFollower, TranslationResources, load_resources
from hierogram.tools.translation.translating import Translator


def add(store: Store, folder: Path, line: str) -> None:
    path = folder / "new.bars"
    path.write_text(line + "\n")
    with PairFiles([str(path)]) as source:
        ingest(store, source)
    learn(store, sweeps=0)


def reload_grammar(store: Store, **options: Any) -> TranslationGrammar:
    with progress("read", "rules") as shown:
        return StoreGrammar(store, ExportOptions(max_scope=2, **options), shown).grammar


def assert_same(one: TranslationGrammar, other: TranslationGrammar) -> None:
    assert (one.source_words, one.target_words) == (other.source_words, other.target_words)
    for name, ours, theirs in zip(one.packed._fields, one.packed, other.packed, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


Features = dict[tuple[str, str], dict[str, float]]


def read_features(grammar: TranslationGrammar) -> Features:
    found = {}
    for rule in range(grammar.packed.rules):
        source = [grammar.source_words[k] if k >= 0 else "X" for k in grammar.packed.source_side(rule)]
        target = [grammar.target_words[k] if k >= 0 else f"X{-k}" for k in grammar.packed.target_side(rule)]
        found[" ".join(source), " ".join(target)] = dict(
            zip(grammar.features, grammar.packed.features[rule].tolist(), strict=True)
        )
    return found


def set_pause_factors(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    monkeypatch.setattr(resources, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(resources, "_PAUSE_FACTOR", times)
    monkeypatch.setattr(resources, "_SHORT_PAUSE_FACTOR", times)


def wait_for(follower: GrammarFollower, position: int) -> TranslationGrammar:
    until = time.monotonic() + 60
    while (newest := follower.newest())[1] != position:
        assert time.monotonic() < until
        time.sleep(0.01)
    return newest[0].grammar


def wait_for_word(follower: GrammarFollower, word: str) -> tuple[Translator, int]:
    until = time.monotonic() + 30
    while word not in (newest := follower.newest())[0].grammar.source_numbers:
        assert time.monotonic() < until
        time.sleep(0.01)
    return newest


@pytest.mark.slow
def test_a_followed_grammar_equals_a_reloaded_one(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pause_factors(monkeypatch, 0.0)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    assert_same(follower.newest()[0].grammar, reload_grammar(learned))
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    assert "zut" in wait_for(follower, learned.position()).source_numbers
    add(learned, tmp_path, "zut la maison ||| darn the house ||| 0-0 1-1 2-2")
    assert_same(wait_for(follower, learned.position()), reload_grammar(learned))
    ids = [row.id for row in learned.pairs() if row.source.startswith("zut")]
    assert withdraw_all(learned, ids, lambda _done: None) == 2
    followed = wait_for(follower, learned.position())
    assert_same(followed, reload_grammar(learned))
    assert "zut" not in followed.source_numbers


@pytest.mark.slow
def test_rules_of_new_pairs_are_added_at_once_with_their_features(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pause_factors(monkeypatch, 1e6)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    translator, first = follower.newest()
    before = read_features(translator.grammar)
    add(learned, tmp_path, "zut la maison ||| darn the house ||| 0-0 1-1 2-2")
    add(learned, tmp_path, "la zut ||| the shucks ||| 0-0 1-1")
    add(learned, tmp_path, "zap la ||| house the ||| 0-0 1-1")
    now = wait_for_word(follower, "zap")
    assert now[1] == first, "expected the position of the last full reload"
    grown = read_features(now[0].grammar)
    assert {rule: grown[rule] for rule in before} == before
    new = {rule: values for rule, values in grown.items() if rule not in before}
    assert new.keys() >= {("zut", "darn"), ("zut", "shucks"), ("zap", "house")}
    # Compare with a full reload without compositions.
    whole = read_features(reload_grammar(learned, min_expected=None))
    for rule, values in new.items():
        for name, value in values.items():
            if name.startswith("p_"):
                # Only these features differ, because they are smoothed with shares of sides from the last full reload.
                assert value == pytest.approx(whole[rule][name], abs=0.7), (rule, name)
            else:
                assert value == pytest.approx(whole[rule][name], rel=1e-12), (rule, name)
    assert new["zut", "darn"]["p_target_given_source"] < np.log(0.7), "zut has two translations"
    assert now[0].translate("zut").text in ("darn", "shucks")


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_an_older_reload_keeps_the_rules_of_newer_pairs(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pause_factors(monkeypatch, 0.0)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    _, first = follower.newest()
    begun, go_on = threading.Event(), threading.Event()
    read = TranslationResources.read_store_grammar

    def waits(self: TranslationResources, store: Store) -> StoreGrammar:
        found = read(self, store)
        begun.set()
        assert go_on.wait(60)
        return found

    monkeypatch.setattr(TranslationResources, "read_store_grammar", waits)
    learn(learned, sweeps=1)
    until = time.monotonic() + 60
    while not begun.is_set():
        assert time.monotonic() < until
        follower.newest()
    position = learned.position()
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    assert wait_for_word(follower, "zut")[1] == first
    set_pause_factors(monkeypatch, 1e6)
    go_on.set()
    assert "zut" in wait_for(follower, position).source_numbers


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_resampled_pairs_are_not_loaded_during_the_pause_after_a_reload(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pause_factors(monkeypatch, 1e6)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    _, first = follower.newest()
    learn(learned, sweeps=1)
    assert learned.position() != first
    until = time.monotonic() + 1
    while time.monotonic() < until:
        assert follower.newest()[1] == first
        time.sleep(0.05)
    monkeypatch.setattr(resources, "_MAX_NEW_PAIRS", 0)
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    assert "zut" in follower.newest()[0].grammar.source_numbers


@pytest.mark.database("sqlite")
def test_changes_that_cannot_be_added_wait_for_the_next_reload(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pause_factors(monkeypatch, 0.0)
    follower = GrammarFollower(learned, load_resources(TranslateOptions()))
    follower.newest()

    def fails(_self: StoreGrammar) -> bool:
        raise StoreError("the store is not available")

    monkeypatch.setattr(StoreGrammar, "add_new_pairs", fails)
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    assert "zut" in wait_for(follower, learned.position()).source_numbers
