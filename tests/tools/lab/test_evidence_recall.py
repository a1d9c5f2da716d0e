"""Recall of references' words by evidence: of words that are shown, and of none."""

from pathlib import Path

import pytest
from tests.tools.lab.programs import ran

import hierogram as hg
from hierogram.daemon.text.texts import TOKENS
from hierogram.tools.lab.evidence_recall import measure


def test_words_are_counted_once_and_without_case() -> None:
    sentences = [("a", "The the house ."), ("b", "A dog")]
    shown = {"a": ("the house cat cat", 20), "b": ("", 0)}
    assert measure(shown.__getitem__, TOKENS, sentences) == (pytest.approx(2 / 4), pytest.approx(2 / 3), 10)


def test_a_store_is_measured(tmp_path: Path) -> None:
    with hg.open(tmp_path / "s.db", create=True, languages=("fr", "en"), tokenize=True, seed=7) as store:
        store.add([("la maison", "the house"), ("la porte", "the door")] * 4)
        store.learn(4).run()
        url = store.url
    (tmp_path / "s").write_text("la maison\nle chat\n")
    (tmp_path / "t").write_text("the house\nthe cat\n")
    done = ran("evidence_recall", url, str(tmp_path / "s"), str(tmp_path / "t"), "--characters", "40")
    assert (done.exit_code, done.output.partition(",")[0]) == (0, "hierogram: recall 0.500"), done.output
