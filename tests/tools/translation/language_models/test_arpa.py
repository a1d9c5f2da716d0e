"""ARPA files of three programs are read, errors are reported, and written files can be read."""

import gzip
from pathlib import Path
from random import Random

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.language_models.backoff import random_model
from tests.tools.translation.language_models.arpa_files import IRSTLM, KENLM, SRILM, Quiet, format_arpa, read_text

from hierogram.daemon.exceptions import InputError
from hierogram.samplers.language_models.lines import format_ngrams, make_ngrams, read_lines
from hierogram.samplers.language_models.model import BEGIN, END, UNKNOWN, iterate_ngrams, score
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary
from hierogram.tools.translation.language_models import ModelWithVocabulary, read_arpa, write_arpa


def list_ngrams(named: ModelWithVocabulary) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return all n-grams with their probabilities and backoff weights."""
    return {
        tuple(map(named.vocabulary.word, words)): (float(log10), float(backoff))
        for ngrams in iterate_ngrams(named.model)
        for words, log10, backoff in zip(*ngrams, strict=True)
    }


def test_files_of_three_programs_give_the_same_model(tmp_path: Path) -> None:
    kenlm, srilm, irstlm = (read_text(tmp_path, text) for text in (KENLM, SRILM, IRSTLM))
    expected = list_ngrams(kenlm)
    assert len(expected) == 11
    assert expected["la", "maison"] == (np.float32(-0.5), np.float32(-0.25))
    assert expected["<s>",] == (0, np.float32(-0.30103))
    for named, differences in ((srilm, {"<unk>", "<s>"}), (irstlm, {"<s>"})):
        found = list_ngrams(named)
        assert found.keys() == expected.keys()
        assert {gram[0] for gram in found if found[gram] != expected[gram]} == differences
    assert list_ngrams(srilm)["<unk>",][0] == -100
    assert [kenlm.vocabulary.word(number) for number in (UNKNOWN, BEGIN, END)] == ["<unk>", "<s>", "</s>"]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "﻿" + text,
        lambda text: "# made by hand\n\n" + text,
        lambda text: text.replace("<unk>", "<UNK>"),
        lambda text: text.replace("\t", "   "),
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("-0.6\t", "-6.0E-01\t").replace("-0.8\t", "-.8\t"),
        lambda text: text.replace("\n-0.05", "\n\n-0.05") + "\n\n",
    ],
)
def test_small_deviations_from_the_arpa_format_are_accepted(tmp_path: Path, change) -> None:
    assert list_ngrams(read_text(tmp_path, change(KENLM))) == list_ngrams(read_text(tmp_path, KENLM))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_arpa_files_are_read(tmp_path: Path, pack) -> None:
    assert list_ngrams(read_text(tmp_path, pack(KENLM.encode()))) == list_ngrams(read_text(tmp_path, KENLM))


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("-0.9\tla\t-0.2", "-0.9x\tla\t-0.2", 10, "the line must begin with a log10 probability"),
        ("-0.9\tla\t-0.2", "0.9\tla\t-0.2", 10, "must be <= 0"),
        ("-0.9\tla\t-0.2", "-0.9", 10, "expected a log10 probability, 1 word and"),
        ("-0.9\tla\t-0.2", "-0.9\tla\t-0.2\t4", 10, "expected a log10 probability"),
        ("-0.9\tla\t-0.2", "-0.9\tla\t-", 10, "the last field is not a backoff weight"),
        ("-0.9\tla\t-0.2", "-0.9\tla\tnan", 10, "the last field is not a backoff weight"),
        ("-0.8\tmaison\t", "-0.8\tla\t", 11, "duplicate 1-gram"),
        ("-0.5\tla maison\t", "-0.5\tla chat\t", 15, "a word is missing from the 1-grams"),
        ("-0.5\tla maison\t-0.25", "-0.5\tla", 15, "2 words"),
        ("-0.7\tmaison la\t0", "-0.7\tla maison\t0", 17, "duplicate 2-gram"),
        (
            "-0.06\tla maison </s>",
            "-0.06\tla maison </s>\t-1",
            21,
            "n-grams of the highest order cannot have a backoff weight",
        ),
        ("ngram 2=4", "ngram 2=5", 19, "found 4 2-grams, but the header announces 5"),
        ("ngram 2=4\n", "", 3, "expected the number of 2-grams"),
        ("\\2-grams:", "\\3-grams:", 13, "expected \\2-grams:"),
        ("\\data\\", "\\date\\", 24, "not an ARPA file"),
        ("\\data\\", "iARPA", 1, "compile-lm --text=yes"),
        ("\\end\\", "", 24, "the file ends within the 3-grams"),
        ("\\end\\", "\\4-grams:\n-1\tla la la la", 23, "\\end\\ not found"),
        ("\\end\\\n", "\\end\\\nla", 24, "trailing text after"),
        ("ngram 1=5\nngram 2=4\nngram 3=2", "ngrams", 2, "number of orders must be from 1"),
    ],
)
def test_errors_are_reported_with_their_line(tmp_path: Path, old: str, new: str, line: int, reason: str) -> None:
    assert old in KENLM
    with pytest.raises(InputError) as raised:
        read_text(tmp_path, KENLM.replace(old, new))
    assert f"{tmp_path / 'model.arpa'}, line {line}: " in str(raised.value)
    assert reason in str(raised.value)


def test_an_overlong_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 9: the line exceeds"):
        read_text(tmp_path, KENLM.replace("</s>\t0", "</s>" + "x" * 3_000_000, 1))


def test_a_header_with_huge_counts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the header announces 99,999,999,999"):
        read_text(tmp_path, KENLM.replace("ngram 2=4", "ngram 2=99999999999"))


def test_a_model_without_sentence_ends_is_read(tmp_path: Path) -> None:
    text = "\\data\\\nngram 1=2\n\n\\1-grams:\n-0.5\t<unk>\n-0.2\tla\n\\end\\\n"
    model, vocabulary = read_text(tmp_path, text)
    assert score(model, model.begin, END)[0] == np.float32(-0.5)
    assert vocabulary.numbers(["la", "<s>", "un"]).tolist() == [3, BEGIN, UNKNOWN]
    assert model.order == 1


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("pruned", [0, 0.3])
def test_written_models_survive_a_round_trip(tmp_path: Path, suffix: str, pruned: float) -> None:
    random = Random(3)
    names = ["<unk>", "<s>", "</s>", "maison", "été", "家", "1"]
    named = read_text(tmp_path, format_arpa(random_model(random, 4, len(names), pruned), names, random))
    path = tmp_path / f"again.arpa{suffix}"
    write_arpa(path, named)
    assert list_ngrams(read_arpa(str(path), Quiet())) == list_ngrams(named)


@given(st.lists(st.floats(-200, 0, width=32), min_size=1), st.lists(st.floats(-200, 200, width=32), min_size=1))
def test_written_numbers_survive_a_round_trip(values: list[float], weights: list[float]) -> None:
    growing = GrowingVocabulary()
    rows = make_ngrams(len(values), 2)
    rows.log10[:] = values
    rows.backoff[:] = np.resize(weights, len(values))
    text = format_ngrams(growing.finish(), rows, True)
    again, lines, cursor = make_ngrams(len(values), 2), np.zeros(len(values), np.int64), np.zeros(3, np.int64)
    read_lines(np.frombuffer(bytearray(text), np.uint8), cursor, growing.arrays, growing.size, again, lines, False)
    assert cursor.tolist() == [len(text), len(values), len(values)]
    assert np.array_equal(again.log10, rows.log10)
    assert np.array_equal(again.backoff, rows.backoff)
    assert max(map(len, text.split())) <= 15


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1", -1),
        ("-0", 0),
        ("-.5", -0.5),
        ("-5.", -5),
        ("-inf", -99),
        ("-1.5e-3", -0.0015),
        ("-15E+1", -150),
        ("-0.12345678901234567890123", -0.12345678901234568),
        ("-12345678901234567890e-19", -1.2345678901234567),
    ],
)
def test_number_formats_of_programs_are_read(text: str, value: float) -> None:
    rows, lines, cursor = make_ngrams(1, 1), np.zeros(1, np.int64), np.zeros(3, np.int64)
    line = np.frombuffer(bytearray(f"{text} <s>\n".encode()), np.uint8)
    vocabulary = GrowingVocabulary()
    read_lines(line, cursor, vocabulary.arrays, vocabulary.size, rows, lines, False)
    assert cursor[2] == 1
    assert rows.log10[0] == np.float32(value)
