"""Notes on a whole input: each kind is detected and recorded, without false alarms."""

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, Run, make_store
from tests.daemon.parts import learn_parts
from tests.storage.building import query

import hierogram as hg

PAIRS = [("la maison blanche", "the white house"), ("le chat noir", "the black cat"), ("un chien dort", "a dog sleeps")]


def codes(run: Run, *arguments: str) -> list[str]:
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    notes = json.loads(done.out)["notes"]
    for note in notes:
        assert f"{note['code']}: {note['text']}" in done.err
    return [note["code"] for note in notes]


def write(folder: Path, name: str, pairs: Iterable[tuple[str, ...]], between: str = " ||| ") -> str:
    (folder / name).write_text("".join(between.join(pair) + "\n" for pair in pairs))
    return name


@pytest.mark.parametrize(
    "escaped",
    [
        ("l &apos; ami est là .", "the friend is there ."),
        ("il dit oui .", "he says &quot; yes &quot; ."),
        ("l &apos;ami", "the friend"),
        ("un état @-@ major", "a general staff"),
        ("le chat &#124; le chien", "the cat &#124; the dog"),
        ("a", "either @/@ or"),
    ],
)
def test_escapes_of_the_moses_tokenizer_are_noted(hierogram: Run, tmp_path: Path, escaped: tuple[str, str]) -> None:
    assert codes(hierogram, "ingest", write(tmp_path, "a", [*PAIRS * 50, escaped])) == ["escaped"]
    output = hierogram("ingest", "a").err
    assert "a: escaped: 1 line has escapes of the Moses tokenizer, such as " in output


def test_ampersands_and_entities_within_words_are_not_escapes(hierogram: Run, tmp_path: Path) -> None:
    pairs = [("AT&amp;T et moi", "AT&amp;T and me"), ("a & b", "a & b"), ("x@-@y", "x-y"), ("&nbsp;%s", "&nbsp;%s")]
    assert codes(hierogram, "ingest", write(tmp_path, "a", pairs)) == []


@pytest.mark.parametrize("word", ["été", "naïve", "क़लम", "한국어", "Ångström"])
def test_words_in_two_unicode_forms_are_noted(hierogram: Run, tmp_path: Path, word: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, word) for form in ("NFC", "NFD"))
    other = decomposed if decomposed != composed else "\u0958\u0932\u092e"
    pairs = [(composed, "a"), (other, "a"), ("un chat", "a cat")]
    assert codes(hierogram, "ingest", write(tmp_path, "a", pairs)) == ["not-nfc"]
    output = hierogram("ingest", "a").err
    assert f"1 word is not in Unicode form NFC, such as {other!a}: convert" in output


def test_hebrew_marks_in_two_orders_are_noted(hierogram: Run, tmp_path: Path) -> None:
    first, second = "\u05e9\u05c1\u05b4", "\u05e9\u05b4\u05c1"
    assert codes(hierogram, "ingest", write(tmp_path, "a", [(first, "a"), (second, "a")])) == ["not-nfc"]


def test_text_tokenized_by_the_store_is_normalized_to_nfc_without_a_note(hierogram: Run, tmp_path: Path) -> None:
    hierogram("init", "--languages", "fr,en", "--tokenize")
    pairs = [(unicodedata.normalize("NFD", "l'été"), "summer"), ("l'été", "summer")]
    assert codes(hierogram, "ingest", write(tmp_path, "a", pairs)) == []


SENTENCES = [(line.split(" ||| ")[0], line.split(" ||| ")[1]) for line in LINES]


@pytest.mark.parametrize("parts", [False, True])
def test_swapped_sides_are_noted(hierogram: Run, tmp_path: Path, parts: bool) -> None:
    store = "parts.db"
    word_parts = learn_parts(SENTENCES * 4, 12, 0) if parts else ()
    make_store("sqlite:///parts.db", languages=("fr", "en"), word_parts=word_parts)
    hierogram("--store", store, "ingest", write(tmp_path, "a", SENTENCES * 4))
    swapped = write(tmp_path, "b", [(target, source) for source, target in SENTENCES])
    assert codes(hierogram, "--store", store, "ingest", "--corpus", "b", swapped) == ["swapped-sides"]
    more = write(tmp_path, "c", [("la porte blanche", "the white door"), ("elle voit la porte", "she sees the door")])
    assert codes(hierogram, "--store", store, "ingest", more) == []


@pytest.mark.parametrize(
    "pairs",
    [
        [("2024", "2024"), ("Berlin", "Berlin"), ("Maria Anna Berlin Peter", "Maria Anna Berlin Peter")],
        [("xyz abc", "uvw def")],
        [("maison", "house")],
        [("house", "maison")],
    ],
)
def test_sides_with_few_known_or_equal_words_are_not_considered_swapped(
    hierogram: Run, tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    hierogram("ingest", write(tmp_path, "a", [*SENTENCES, *pairs]))
    assert codes(hierogram, "ingest", "--corpus", "b", write(tmp_path, "b", pairs)) == []


@pytest.mark.parametrize(
    "lines",
    [
        ['"le ""chat"""\t"the ""cat"""', "un chien\ta dog", "la maison\tthe house"],
        ['"la maison"\t"the house"', '"un chat"\t"a cat"', "un chien\ta dog"],
        ['"la maison"\tthe house', '"un chat"\ta cat'],
    ],
)
def test_spreadsheet_quoting_of_fields_is_noted(hierogram: Run, tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.tsv").write_text("".join(line + "\n" for line in lines))
    assert codes(hierogram, "ingest", "--format", "tsv", "a.tsv") == ["quoted-fields"]
    assert codes(hierogram, "ingest", "a.tsv") == ["quoted-fields"]


def test_a_quotation_in_a_table_is_not_noted(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('"Non !"\t"No !"\nun "chat"\ta "cat"\nla maison\tthe house\nun chien\ta dog\n')
    assert codes(hierogram, "ingest", "a.tsv") == []


def test_notes_are_stored_with_the_batch_and_returned_by_the_library(store_url: str) -> None:
    with hg.open(store_url, create=True) as store:
        report = store.add([("l &apos; ami", "the friend"), ("une porte", "a door")])
        [note] = report.notes
        assert note.code == "escaped"
        assert store.add([("un ami", "a friend")]).notes == []
    notes = [row[0] for row in query(store_url, "SELECT notes FROM ingest_batches ORDER BY id")]
    assert notes == [f"escaped: {note.text}", None]
