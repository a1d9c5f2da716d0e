"""Estimated models compared with modified Kneser-Ney smoothing from its definition."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.reference.language_models.kneser_ney import KneserNey
from tests.tools.translation.language_models.arpa_files import Quiet

from hierogram.daemon.exceptions import InputError
from hierogram.samplers.language_models.model import END, iterate_ngrams, score
from hierogram.tools.translation import estimation
from hierogram.tools.translation.estimation import (
    FALLBACK,
    EstimationReport,
    build_model,
    estimate_discounts,
)
from hierogram.tools.translation.language_models import ModelWithVocabulary, open_language_model, read_arpa
from hierogram.tools.translation.options import EstimationOptions


def random_text(random: Random, sentences: int, words: int) -> list[list[str]]:
    """Return sentences with an uneven distribution of word pairs, so that all adjusted counts occur."""
    vocabulary = [f"w{k}" for k in range(words)]
    text = []
    for _ in range(sentences):
        sentence, last = [], 0
        for _ in range(random.randint(1, 9)):
            last = (last * 3 + min(int(random.paretovariate(0.8)), words)) % words
            sentence.append(vocabulary[last])
        text.append(sentence)
    return text


def estimate_model(folder: Path, text: list[list[str]], **options) -> tuple[ModelWithVocabulary, EstimationReport]:
    path = folder / "text"
    path.write_text("".join(" ".join(sentence) + "\n" for sentence in text))
    model = folder / "model"
    report = build_model([str(path)], [model], EstimationOptions(**options), Quiet())
    return open_language_model(str(model), Quiet()), report


def probability(named: ModelWithVocabulary, context: tuple[str, ...], word: str) -> float:
    """Return the log10 probability of a word after a context."""
    state = 0
    for number in named.vocabulary.numbers([*context]):
        _, state = score(named.model, state, number)
    return score(named.model, state, named.vocabulary.numbers([word])[0])[0]


def list_contexts(text: list[list[str]], order: int) -> list[tuple[str, ...]]:
    """Return all contexts of fewer than `order` words that occur."""
    around = [("<s>", *sentence) for sentence in text]
    return sorted({c[k - n : k] for c in around for k in range(1, len(c) + 1) for n in range(min(order, k + 1))})


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_probabilities_follow_the_definition_of_kneser_ney_smoothing(tmp_path: Path, order: int) -> None:
    random = Random(order)
    text = random_text(random, 300, 25)
    named, report = estimate_model(tmp_path, text, order=order)
    reference = KneserNey(text, order)
    assert report.ngrams == [
        sum(1 for gram in reference.counts if len(gram) == n) + (2 if n == 1 else 0) for n in range(1, order + 1)
    ]
    assert report.without_discounts == [n for n in reference.discounts if reference.discounts[n] == FALLBACK]
    assert report[:2] == (len(text), sum(map(len, text)))
    known = list_contexts(text, order)
    contexts = [*random.sample(known, min(60, len(known))), ("w1", "w1", "w7"), ("w2", "new")]
    for context in contexts:
        total = 0.0
        for word in sorted(reference.words):
            found = probability(named, context, word)
            expected = reference.probability(tuple("<unk>" if w == "new" else w for w in context), word)
            assert found == pytest.approx(np.log10(expected), abs=1e-6)
            total += 10**found
        assert total == pytest.approx(1, abs=1e-5)


def test_little_memory_and_small_batches_give_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = random_text(Random(7), 400, 30)
    named, _ = estimate_model(tmp_path, text, order=3)
    monkeypatch.setattr(estimation, "_WORDS_PER_READ", 17)
    again, _ = estimate_model(tmp_path, text, order=3, memory=100)
    for one, other in zip(iterate_ngrams(named.model), iterate_ngrams(again.model), strict=True):
        for column, expected in zip(one, other, strict=True):
            assert np.array_equal(column, expected)


def test_words_outside_the_vocabulary_are_unknown(tmp_path: Path) -> None:
    text = random_text(Random(8), 200, 40)
    frequent = Counter(word for sentence in text for word in sentence)
    first = {word: k for k, word in reversed(list(enumerate(w for s in text for w in s)))}
    kept = set(sorted(frequent, key=lambda word: (-frequent[word], first[word]))[:12])
    replaced = [[word if word in kept else "<unk>" for word in sentence] for sentence in text]
    named, report = estimate_model(tmp_path, text, order=2, max_words=12)
    assert len(named.vocabulary) == 15
    assert report.unknown == sum(word == "<unk>" for sentence in replaced for word in sentence)
    reference = KneserNey(replaced, 2)
    for word in [*kept, "<unk>", "</s>"]:
        for context in [(), ("<unk>",), ("<s>",), (replaced[0][0],)]:
            expected = reference.probability(context, word)
            assert probability(named, context, word) == pytest.approx(np.log10(expected), abs=1e-6)
    seldom, _ = estimate_model(tmp_path, text, order=2, min_word_count=5)
    assert {seldom.vocabulary.word(k) for k in range(3, len(seldom.vocabulary))} == {
        word for word, number in frequent.items() if number >= 5
    }


def test_files_in_both_formats_contain_the_same_model(tmp_path: Path) -> None:
    text = random_text(Random(9), 100, 10)
    paths = [tmp_path / name for name in ("one", "two")]
    for path, part in zip(paths, (text[:40], text[40:]), strict=True):
        path.write_text("\n".join("  ".join(sentence) + "\t\r" for sentence in part) + "\n\n\n")
    outputs = [tmp_path / "model.arpa.gz", tmp_path / "model.lm"]
    report = build_model([str(path) for path in paths], outputs, EstimationOptions(), Quiet())
    assert report.sentences == 100
    arpa, binary = read_arpa(str(outputs[0]), Quiet()), open_language_model(str(outputs[1]), Quiet())
    expected, _ = estimate_model(tmp_path, text)
    for sentence in text[:20]:
        for named in (arpa, binary):
            assert probability(named, (*sentence[:-1],), sentence[-1]) == pytest.approx(
                probability(expected, (*sentence[:-1],), sentence[-1]), abs=1e-7
            )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model", "model.arpa.gz", "model.lm", "one", "text", "two",
    ]  # fmt: skip


def test_a_text_that_is_too_small_gets_fallback_discounts() -> None:
    assert estimate_discounts([10, 5, 0, 1]) == (FALLBACK, False)
    # The discount of count 2 would be 2 - 3 · 0.9 · 30 / 5, which is below 0.
    assert estimate_discounts([90, 5, 30, 1]) == (FALLBACK, False)
    found, estimated = estimate_discounts([100, 40, 20, 10])
    assert estimated
    scale = 100 / 180
    assert found == pytest.approx((1 - 2 * scale * 0.4, 2 - 3 * scale * 0.5, 3 - 4 * scale * 0.5))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "no sentences found"),
        (b"\n \n\t\n", "no sentences found"),
        (b"la maison\n\nle <s> chat\n", "line 3: the text must not contain <s> or </s>"),
        (b"la maison\n\xff\nla\n", "line 2: not UTF-8"),
        (b"la\n" * 100_000 + b"ma\xc3", "line 100001: not UTF-8"),
    ],
)
def test_invalid_texts_are_refused_with_the_reason(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "text"
    path.write_bytes(text)
    with pytest.raises(InputError, match=reason):
        build_model([str(path)], [tmp_path / "model.arpa"], EstimationOptions(), Quiet())
    assert [found.name for found in tmp_path.iterdir()] == ["text"]


def test_unigrams_include_sentence_ends(tmp_path: Path) -> None:
    named, report = estimate_model(tmp_path, [["a"], ["a", "b"]], order=1)
    assert report.without_discounts == [1]
    # Counts 2, 1 and 2 of a, b and </s>: 2.5 of 5 is discounted and shared by these and <unk>.
    shared = (1.0 + 0.5 + 1.0) / 5 / 4
    assert 10 ** score(named.model, named.model.begin, END)[0] == pytest.approx((2 - 1) / 5 + shared)
