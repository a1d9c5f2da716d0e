"""A store's languages, tokenization rules and case apply to all input."""

import json
import sys
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.text.memories import HEAD, TAIL, unit

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.formats import JSONL, parse_json_object, parse_lines
from hierogram.daemon.text.ingest import IngestBatch, ingest
from hierogram.daemon.text.lines import DEFAULT_LIMITS
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.reading import STORE_DEFAULTS, IngestOptions, InputValidator
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store

ENGLISH_FIRST = HEAD + unit(("en", "The water."), ("fr", "L'eau.")) + unit(("fr", "Un chat"), ("en", "A cat")) + TAIL


def stored(store: Store) -> list[tuple[str, str]]:
    return [(row.source, row.target) for row in store.pairs()]


def test_translation_memory_is_read_in_the_store_s_languages(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(ENGLISH_FIRST)
    with open_store(store_url, create=True, settings=Settings(languages=("fr", "en"))) as store:
        with PairFiles([str(tmp_path / "m.tmx")]) as source:
            ingest(store, source)
        assert stored(store) == [("L' eau .", "The water ."), ("Un chat", "A cat")]
        assert store.settings().languages == ("fr", "en")
        with (
            PairFiles([str(tmp_path / "m.tmx")]) as source,
            pytest.raises(UsageError, match="the languages of the store are fr,en"),
        ):
            ingest(store, source, options=IngestOptions(("en", "fr")))


def test_a_store_without_languages_reads_a_memory_in_the_order_of_its_first_unit(store: Store, tmp_path: Path) -> None:
    (tmp_path / "m.tmx").write_text(ENGLISH_FIRST)
    with PairFiles([str(tmp_path / "m.tmx")]) as source:
        ingest(store, source)
    assert stored(store) == [("The water .", "L'eau ."), ("A cat", "Un chat")]


@pytest.mark.database("sqlite")
def test_text_from_every_source_is_tokenized_and_lowercased_like_the_store(store_url: str, tmp_path: Path) -> None:
    settings = Settings(languages=("fr", "en"), tokenize=True, case="lowered")
    with open_store(store_url, create=True, settings=settings) as store:
        (tmp_path / "m.tmx").write_text(ENGLISH_FIRST)
        (tmp_path / "a.fr").write_text("L'\xc9t\xe9.\n")
        (tmp_path / "a.en").write_text("Summer, Isn't it?\n")
        for paths in (["m.tmx"], ["a.fr", "a.en"]):
            with PairFiles([str(tmp_path / path) for path in paths]) as source:
                ingest(store, source)
        # Store pairs in the same way as a request body.
        checks, batch = (
            InputValidator(store.settings(), STORE_DEFAULTS),
            IngestBatch(store, "c", "http:1", JSONL, DEFAULT_LIMITS),
        )
        lines = [b'{"source": "Non!", "target": "No!"}', b'{"source": "Non!", "target": "No!", "alignment": "0-0"}']
        batch.store(checks.validate(parse_lines([lines], parse_json_object)))
        batch.finish()
        assert stored(store) == [
            ("l' eau .", "the water ."),
            ("un chat", "a cat"),
            ("l' \xe9t\xe9 .", "summer , isn 't it ?"),
            ("non !", "no !"),
            # Pairs with links keep the given words.
            ("non!", "no!"),
        ]


@pytest.mark.database("sqlite")
def test_files_named_by_their_languages_are_not_swapped(hierogram: Run, store_url: str, tmp_path: Path) -> None:
    chosen = ("--store", store_url)
    (tmp_path / "a.fr").write_text("la\n")
    (tmp_path / "a.en").write_text("the\n")
    assert hierogram(*chosen, "init", "--languages", "fr,en").code == 0
    refused = hierogram(*chosen, "ingest", "a.en", "a.fr")
    assert refused.code == 2
    assert "the languages of the store are fr,en (source, target): use hierogram ingest a.fr a.en" in refused.err
    assert "1 pair stored" in hierogram(*chosen, "ingest", "a.fr", "a.en").out
    assert hierogram(*chosen, "ingest", "a.fr", "a.en", "--languages", "en,fr").code == 2


def test_languages_are_set_when_a_store_is_created(hierogram: Run, store_url: str, tmp_path: Path) -> None:
    chosen = ("--store", store_url)
    (tmp_path / "a").write_text("la ||| the\n")
    made = hierogram(*chosen, "ingest", "a", "--languages", "fr,en")
    assert "created a store for the languages fr,en" in made.err
    settings = json.loads(hierogram(*chosen, "status", "--json").out)["settings"]
    assert (settings["languages"], settings["tokenize"], settings["case"]) == (["fr", "en"], None, "kept")
    assert "languages is ('fr', 'en'), not ('de', 'en')" in hierogram(*chosen, "init", "--languages", "de,en").err
    made = hierogram("--store", "b.db", "init", "--languages", "fr,en", "--tokenize", "--case", "lowered")
    assert made.code == 0
    assert "languages        fr,en" in made.out


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "--languages", "fr"], "expected two languages"),
        (["init", "--languages", "fr,e n"], "expected two languages"),
        (
            ["init", "--languages", "zh,en", "--tokenize"],
            "requires jieba: run pip install '.[chinese]' in the source folder",
        ),
        (["init", "--case", "upper"], "must be one of kept, lowered"),
        (["init", "--kind", "trees", "--languages", "fr,en"], "store of trees"),
        (["ingest", "a", "--languages", "fr"], "expected two languages"),
    ],
)
def test_invalid_languages_are_reported_and_no_store_is_created(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    for package in ("jieba", "fugashi"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "a").write_text("la ||| the\n")
    refused = hierogram(*arguments)
    assert refused.code == 2
    assert message in refused.err
    assert not (tmp_path / "hierogram.db").exists()


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("languages", "line", "tokens"),
    [
        ("bo,en", "ཆུ་དང་མེ། ||| Water and fire.", "each syllable is a token"),
        ("en,my", "Water and fire. ||| ရေနှင့်မီး။", "text between spaces"),
        ("hak,en", "人人平等。 ||| All are equal.", "each character is a token"),
    ],
)
def test_a_language_without_word_segmentation_is_noted(
    languages: str, line: str, tokens: str, hierogram: Run, store_url: str, tmp_path: Path
) -> None:
    chosen = ("--store", store_url)
    assert tokens in hierogram(*chosen, "init", "--languages", languages).err
    (tmp_path / "a").write_text(f"{line}\n")
    done = hierogram(*chosen, "ingest", "a", "--format", "pipes")
    assert (
        done.code,
        f"a: no-word-division: {languages.replace('en', '').strip(',')} is written without spaces" in done.err,
    ) == (
        0,
        True,
    )
    assert tokens in done.err


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("line", "noticed"),
    [
        ("ພາສາລາວເປັນພາສາທາງການຂອງປະເທດລາວ ||| Lao is the official language", True),
        ("All men are born free and equal ||| မင်္ဂလာပါကျွန်တော်လာတယ်အိမ်ကြီးတယ်", True),
        ("人人生而自由在尊嚴和權利上一律平等 ||| all men are equal", True),
        ("人人 生 而 自由 ||| all men are free", False),
        ("소프트웨어를 ||| software", False),
    ],
)
def test_text_without_spaces_is_noted(line: str, noticed: bool, hierogram: Run, store_url: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{line}\n")
    done = hierogram("--store", store_url, "ingest", "a", "--format", "pipes")
    assert (done.code, "no-word-division: sentences have no spaces between words" in done.err) == (0, noticed)
