"""`hierogram translate` and `hierogram export --format packed`."""

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from tests.daemon.conftest import CommandResult, Run
from tests.tools.translation.small import grammar_file, lm_file

LINES = "elle ne vient pas\n\nla maison blanche Xyz\n"


@pytest.fixture
def translate_typed(hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Function that translates bytes on standard input with the small grammar."""

    def run(typed: bytes, *arguments: str) -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
        return hierogram("translate", str(grammar_file(tmp_path)), "-", *arguments)

    return run


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "in.fr"
    path.write_text(LINES)
    return path


def test_translations_are_printed_line_for_line(hierogram: Run, tmp_path: Path, sentences: Path) -> None:
    ran = hierogram("translate", str(grammar_file(tmp_path)), str(sentences), "--lm", str(lm_file(tmp_path)))
    assert ran.code == 0
    assert ran.out == "she does not come\n\nwhite the house Xyz\n"
    assert "omitted 1 rule with a source side that is empty or a single nonterminal" in ran.err
    assert "omitted 1 rule above --max-scope" in ran.err
    arguments = ("translate", str(grammar_file(tmp_path)), str(sentences), "-o", "out.en.gz", "--alignments", "out.al")
    ran = hierogram(*arguments)
    assert ran.code == 0
    assert (tmp_path / "out.al").read_text() == "0-0 1-1 2-3 3-2\n\n0-1 1-2 2-0 3-3\n"


def test_n_best_lists_are_printed_as_text_or_json(hierogram: Run, tmp_path: Path, sentences: Path) -> None:
    grammar = str(grammar_file(tmp_path))
    ran = hierogram("translate", grammar, str(sentences), "--best", "2")
    fields = [line.split(" ||| ") for line in ran.out.splitlines()]
    assert [field[0] for field in fields] == ["1", "1", "3", "3"]
    assert fields[0][1] == "she does not come"
    assert float(fields[2][3]) >= float(fields[3][3])
    assert "p_target_given_source=" in fields[0][2]
    ran = hierogram("translate", grammar, str(sentences), "--json", "--best", "3")
    first, empty, _ = map(json.loads, ran.out.splitlines())
    assert (first["line"], first["source"], first["translation"]) == (1, "elle ne vient pas", "she does not come")
    assert first["candidates"][0]["alignment"] == [[0, 0], [1, 1], [2, 3], [3, 2]]
    assert first["candidates"][0]["derivation"][0]["source"] == "[X,1] [X,2]"
    assert (empty["translation"], empty["candidates"]) == ("", [])


def test_weights_change_the_translation(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("maison\n")
    (tmp_path / "w.toml").write_text("[weights]\np_target_given_source = -1\nodd = 2\n")
    ran = hierogram("translate", str(grammar_file(tmp_path)), "in", "--weights", "w.toml")
    assert ran.out == "home\n"
    assert "w.toml: the grammar has no feature odd" in ran.err
    (tmp_path / "w.toml").write_text('[weights]\nlm = "much"\n')
    ran = hierogram("translate", str(grammar_file(tmp_path)), "in", "--weights", "w.toml")
    assert (ran.code, ran.err.strip()) == (3, "hierogram: w.toml: the weight of lm must be a number, got 'much'")


def test_a_packed_grammar_gives_the_same_translations(hierogram: Run, tmp_path: Path, sentences: Path) -> None:
    grammar = str(grammar_file(tmp_path))
    ran = hierogram("export", "--format", "packed", "--grammar", grammar, "-o", "small.packed")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "small.packed: 9 rules")
    packed = hierogram("translate", "small.packed", str(sentences), "--best", "5")
    assert packed.out == hierogram("translate", grammar, str(sentences), "--best", "5").out


def test_long_lines_are_translated_in_parts_and_reported(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("la " * 250 + "\n")
    ran = hierogram("translate", str(grammar_file(tmp_path)), "in")
    assert ran.out == " ".join(["the"] * 250) + "\n"
    assert "in, line 1: 250 words, translated in 3 parts" in ran.err


@pytest.mark.slow
def test_translating_with_a_store_uses_its_learned_rules(hierogram: Run, learned_url: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("la maison verte\n")
    ran = hierogram("--store", learned_url, "translate", "in")
    assert ran.code == 0
    assert set(ran.out.split()) == {"the", "green", "house"}
    ran = hierogram("translate", learned_url, "in")
    assert set(ran.out.split()) == {"the", "green", "house"}
    ran = hierogram("--store", learned_url, "translate", str(grammar_file(tmp_path)), "in")
    assert (ran.code, "mutually exclusive" in ran.err) == (2, True)


def test_standard_input_is_translated_line_by_line(translate_typed: Run) -> None:
    ran = translate_typed(LINES.encode())
    assert ran.out == "she does not come\n\nwhite the house Xyz\n"
    assert "standard input" not in ran.err


@pytest.mark.database("sqlite")
def test_without_a_file_standard_input_is_translated(
    hierogram: Run, learned_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grammar = str(grammar_file(tmp_path))
    for named, arguments in (
        (grammar, ["translate", grammar]),
        (learned_url, ["--store", learned_url, "translate"]),
        (learned_url, ["translate", learned_url]),
    ):
        typed = io.TextIOWrapper(io.BytesIO(b"la maison\n"))
        monkeypatch.setattr(typed, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", typed)
        ran = hierogram(*arguments)
        assert (ran.code, ran.out) == (0, "the house\n")
        assert f"reading sentences for {named} from standard input; press Ctrl-D to finish\n" in ran.err


def test_a_missing_file_is_reported_before_the_grammar_is_read(
    hierogram: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hierogram.tools.translation.resources.open_grammar", None)
    monkeypatch.setattr("hierogram.tools.treebanks.library.read_grammar", None)
    (tmp_path / "folder").mkdir()
    for command, *more in (["translate"], ["parse"], ["tune", "-r", "ref", "-o", "w.toml"]):
        for name, reason in (("missing", "No such file or directory"), ("folder", "Is a directory")):
            ran = hierogram(command, str(grammar_file(tmp_path)), name, *more)
            assert (ran.code, ran.err) == (3, f"hierogram: {name}: cannot be opened: {reason}\n")


@pytest.mark.parametrize("content", ["\ufeff" + LINES, LINES.replace("\nla", "\n\ufeffla")])
def test_byte_order_marks_on_standard_input_are_removed(translate_typed: Run, content: str) -> None:
    ran = translate_typed(content.encode())
    assert ran.out == "she does not come\n\nwhite the house Xyz\n"


def test_compressed_standard_input_is_refused_by_translate(translate_typed: Run) -> None:
    ran = translate_typed(gzip.compress(LINES.encode()))
    assert (ran.code, ran.out) == (3, "")
    assert "<stdin>: expected text, got gzip data: extract or convert it first" in ran.err


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_on_standard_input_is_refused(translate_typed: Run, encoding: str) -> None:
    ran = translate_typed("\ufeffmaison\n".encode(encoding))
    assert (ran.code, ran.out) == (3, "")
    assert "<stdin>: UTF-16 is not supported: convert it" in ran.err


def test_invalid_utf_8_on_standard_input_is_reported_once(translate_typed: Run) -> None:
    ran = translate_typed("maison\n\ufffd\n".encode() + "été\nété\n".encode("latin-1"))
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 4
    assert ran.err.count("not UTF-8") == 1
    assert "<stdin>, line 3: not UTF-8" in ran.err


def test_a_byte_order_mark_before_html_is_removed(translate_typed: Run) -> None:
    assert translate_typed(b"\xef\xbb\xbfmaison\n", "--html").out == "house\n"


def test_text_files_may_begin_with_a_byte_order_mark(hierogram: Run, tmp_path: Path) -> None:
    mark = "\ufeff"
    (tmp_path / "in").write_text(mark + "maison\n")
    (tmp_path / "w.toml").write_text(mark + "[weights]\np_target_given_source = -1\n")
    (tmp_path / "glossary").write_text(mark + "chat\tdog\n")
    grammar = grammar_file(tmp_path)
    grammar.write_text(mark + grammar.read_text())
    ran = hierogram("translate", str(grammar), "in", "--weights", "w.toml", "--glossary", "glossary")
    assert (ran.code, ran.out) == (0, "home\n")


def test_an_invalid_grammar_is_refused(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("la\n")
    (tmp_path / "g.cdec").write_text("[X] ||| la ||| the ||| EGivenF=much\n")
    ran = hierogram("translate", "g.cdec", "in")
    assert ran.code == 3
    assert "g.cdec, line 1: the value of a feature is not a number" in ran.err


def test_an_empty_grammar_leaves_words_untranslated(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("la\n")
    (tmp_path / "g.cdec").write_text("")
    ran = hierogram("translate", "g.cdec", "in")
    assert (ran.code, ran.out) == (0, "la\n")
