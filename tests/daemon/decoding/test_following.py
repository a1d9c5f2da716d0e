"""A translator that follows its store: new pairs at once, what is only sampled again after a rest."""

import time
from pathlib import Path

import numpy as np
import pytest

from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.reading import Input
from hierogram.daemon.decoding import opening
from hierogram.daemon.decoding.grammars import TranslationGrammar, stored_grammar
from hierogram.daemon.decoding.opening import Follower, equip
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.residents import withdraw_all
from hierogram.daemon.progress import progress
from hierogram.storage.store import Store


def add(store: Store, folder: Path, line: str) -> None:
    path = folder / "new.bars"
    path.write_text(line + "\n")
    with Input([str(path)]) as source:
        ingest(store, source)
    learn(store, sweeps=0)


def read_anew(store: Store) -> TranslationGrammar:
    with progress("read", "rules") as shown:
        return stored_grammar(store, ExportOptions(max_scope=2), 2, shown)[0]


def assert_same(one: TranslationGrammar, other: TranslationGrammar) -> None:
    assert (one.source_words, one.target_words) == (other.source_words, other.target_words)
    for name, ours, theirs in zip(one.packed._fields, one.packed, other.packed, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def wait_for(follower: Follower, position: int) -> TranslationGrammar:
    until = time.monotonic() + 60
    while (newest := follower.now())[1] != position:
        assert time.monotonic() < until
        time.sleep(0.01)
    return newest[0].grammar


def test_what_is_followed_is_what_is_read_anew(learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LOOK_SECONDS", 0.0)
    follower = Follower(learned, equip(TranslateOptions()))
    assert_same(follower.now()[0].grammar, read_anew(learned))
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    assert "zut" in wait_for(follower, learned.position()).source_numbers
    add(learned, tmp_path, "zut la maison ||| darn the house ||| 0-0 1-1 2-2")
    assert_same(wait_for(follower, learned.position()), read_anew(learned))
    ids = [row.id for row in learned.pairs() if row.source.startswith("zut")]
    assert withdraw_all(learned, ids, lambda _done: None) == 2
    followed = wait_for(follower, learned.position())
    assert_same(followed, read_anew(learned))
    assert "zut" not in followed.source_numbers


@pytest.mark.database("sqlite")
def test_new_pairs_do_not_wait_for_the_rest_of_what_is_sampled_again(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(opening, "_REST_RESAMPLED", 1e6)
    follower = Follower(learned, equip(TranslateOptions()))
    _, first = follower.now()
    learn(learned, sweeps=1)
    assert learned.position() != first
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert follower.now()[1] == first
        time.sleep(0.05)
    add(learned, tmp_path, "zut ||| darn ||| 0-0")
    assert "zut" in wait_for(follower, learned.position()).source_numbers
