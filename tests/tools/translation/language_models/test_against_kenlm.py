"""Probabilities and states agree with KenLM on the same ARPA files."""

from pathlib import Path
from random import Random

import kenlm
import pytest
from tests.reference.language_models.backoff import random_model
from tests.samplers.language_models.models import walk
from tests.tools.translation.language_models.arpa_files import IRSTLM, KENLM, SRILM, Quiet, format_arpa

from hierogram.samplers.language_models.model import EMPTY
from hierogram.tools.translation.language_models import ModelWithVocabulary, read_arpa

NAMES = ["<unk>", "<s>", "</s>", *(f"w{k}" for k in range(3, 60))]


def opened(path: Path) -> tuple[kenlm.Model, ModelWithVocabulary]:
    return kenlm.Model(str(path)), read_arpa(str(path), Quiet())


def compare(theirs: kenlm.Model, ours: ModelWithVocabulary, words: list[str], begin: bool) -> int:
    """Check that both models give the same scores to words. Returns the number of additional states of KenLM."""
    numbers = ours.vocabulary.numbers(words)
    log10, states = walk(ours.model, numbers, ours.model.begin if begin else EMPTY)
    state, seen = kenlm.State(), {}
    (theirs.BeginSentenceWrite if begin else theirs.NullContextWrite)(state)
    for k, word in enumerate(words):
        after = kenlm.State()
        assert theirs.BaseScore(state, word, after) == pytest.approx(log10[k], abs=1e-5)
        assert seen.setdefault(after, states[k]) == states[k]
        state = after
    assert len(seen) >= 4
    return len(seen) - len(set(seen.values()))


@pytest.mark.parametrize("text", [KENLM, SRILM, IRSTLM])
def test_files_of_three_programs_are_scored_like_kenlm(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.arpa"
    path.write_text(text)
    theirs, ours = opened(path)
    random = Random(1)
    words = [random.choice(["la", "maison", "chat", "</s>", "<unk>"]) for _ in range(2_000)]
    # An unknown word missing from the file changes KenLM's state, although nothing depends on it.
    more = text == SRILM
    assert compare(theirs, ours, words, begin=True) == compare(theirs, ours, words, begin=False) == more


@pytest.mark.parametrize(("order", "children"), [(2, 12), (3, 8), (4, 4), (5, 3)])
def test_random_models_score_words_like_kenlm(tmp_path: Path, order: int, children: float) -> None:
    random = Random(order)
    model = random_model(random, order, len(NAMES), children=children)
    path = tmp_path / "model.arpa"
    path.write_text(format_arpa(model, NAMES, random))
    theirs, ours = opened(path)
    # Whole n-grams of the model in sequence give long matches, and some words are unknown to the model.
    grams = random.choices(list(model.log10), k=12_000)
    words = [NAMES[w] if random.random() < 0.98 else "new" for gram in grams for w in gram]
    assert compare(theirs, ours, words[:30_000], begin=bool(order % 2)) == 0
