"""Files given as the wrong kind of input are reported with the right command, and nothing is stored."""

from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, Run

SENTENCES = "la maison\nun chat\n"
LINKS = "0-0 1-1\n0-0 1-1\n"
OBJECTS = '{"source": "la maison", "target": "the house"}\n{"source": "un chat", "target": "a cat"}\n'
PIPED = "la maison ||| the house\nun chat ||| a cat ||| 0-0\n"
TMX = '<?xml version="1.0"?>\n<tmx version="1.4">\n'
TREES = "(S (NP (DT the) (NN cat)) (VP (VBD slept)))\n(S (NP (DT a) (NN dog)))\n"
ARCHIVE = "PK\x03\x04\x14\0\0\0\n\x01\x02\0\n"


def refusal(run: Run, folder: Path, *contents: str, options: tuple[str, ...] = (), code: int = 3) -> str:
    names = []
    for name, content in zip("abc", contents, strict=False):
        (folder / name).write_bytes(content.encode("latin-1"))
        names.append(name)
    ran = run("ingest", *names, *options)
    assert ran.code == code, ran
    assert ran.out == ""
    assert not (folder / "hierogram.db").exists()
    return ran.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (OBJECTS, "a: expected sentences, got JSON objects: ingest it by itself: hierogram ingest a"),
        (PIPED, "a: expected sentences, got `|||` lines: ingest it by itself: hierogram ingest a"),
        (TMX, "a: expected sentences, got XML: ingest a TMX file by itself: hierogram ingest --format tmx a"),
        (TREES, "a: expected sentences, got trees: ingest a treebank into a store of trees: hierogram ing"),
        (
            LINKS,
            "a: expected sentences, got links: the file of links must be the third: hierogram ingest",
        ),
        (ARCHIVE, "a: expected text, got a zip archive (or .docx, .xlsx, .odt): extract or convert it first"),
        ("BZ\0\1\nA\0\2\n", "a: expected sentences, got binary data: extract or convert it first"),
        ("\xff\xfel\0a\0\n\0", "a: expected sentences, got UTF-16: convert it first: iconv -f UTF-16 -t UTF-8 a"),
    ],
)
def test_file_of_another_kind_is_not_read_as_sentences(
    hierogram: Run, tmp_path: Path, content: str, message: str
) -> None:
    assert message in refusal(hierogram, tmp_path, content, SENTENCES)
    assert message.replace("a:", "b:", 1)[:18] in refusal(hierogram, tmp_path, SENTENCES, content)
    assert message in refusal(hierogram, tmp_path, content, SENTENCES, LINKS)


@pytest.mark.parametrize("content", [SENTENCES, OBJECTS, PIPED, TREES, ARCHIVE])
def test_a_file_that_is_not_links_is_not_read_as_links(hierogram: Run, tmp_path: Path, content: str) -> None:
    assert "c: expected " in refusal(hierogram, tmp_path, SENTENCES, SENTENCES, content)


def test_an_empty_file_among_others_is_reported(hierogram: Run, tmp_path: Path) -> None:
    text = "c: empty, but a is not: parallel files must have the same number of lines"
    assert text in refusal(hierogram, tmp_path, SENTENCES, SENTENCES, "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TMX, "a: contains XML: ingest a TMX file by itself: hierogram ingest --format tmx a"),
        (TREES, "hierogram ingest --trees a"),
        (LINKS, "a: contains links: the file of links must be the third"),
        (ARCHIVE, "a: expected text, got a zip archive"),
        (SENTENCES, "line 1: expected JSON"),
        ("le chat||| the cat\n", "a, line 1: `|||` must have a space on each side to separate fields"),
        ("le chat |||the cat\n", "a, line 1: `|||` must have a space on each side"),
        ("le chat|||the cat|||0-0 1-1\n", "a, line 1: `|||` must have a space on each side"),
    ],
)
def test_one_file_of_another_kind_is_reported(hierogram: Run, tmp_path: Path, content: str, message: str) -> None:
    assert message in refusal(hierogram, tmp_path, content)


@pytest.mark.parametrize(
    ("options", "content"),
    [
        (("--format", "pipes"), OBJECTS),
        (("--format", "pipes"), TREES),
        (("--format", "jsonl"), PIPED),
        (("--format", "jsonl"), LINKS),
        (("--format", "tsv"), OBJECTS),
        (("--trees",), OBJECTS),
        (("--trees",), PIPED),
        (("--trees",), TMX),
    ],
)
def test_input_in_another_format_than_requested_is_reported(
    hierogram: Run, tmp_path: Path, options: tuple[str, ...], content: str
) -> None:
    assert "a: expected " in refusal(hierogram, tmp_path, content, options=options)


def test_sentences_with_similar_punctuation_are_sentences(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("{ a\n(b)\n( c ( d ) )\n||| is a token\n1-0\n")
    (tmp_path / "b").write_text("a b {}\n<b>\nc\nd\n2-1 victory\n")
    assert "5 pairs stored" in hierogram("ingest", "a", "b").out


def test_tabs_may_separate_source_target_and_links(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(line.replace(" ||| ", "\t") + "\n" for line in LINES))
    (tmp_path / "b").write_text("la\tthe\nla maison\n\tthe\nla\tthe\t0-0\tmore\n")
    (tmp_path / "c").write_text("".join(line + "\n" for line in LINES))
    assert "9 pairs stored" in hierogram("ingest", "a.txt").out
    assert "0 pairs stored, 9 duplicates" in hierogram("ingest", "c").out
    ran = hierogram("ingest", "b", "--format", "tsv")
    assert "1 pair stored, 0 duplicates in the corpus default, 3 lines rejected" in ran.out
    assert "b:2: field-count: expected source, tab, target [, tab, alignment], got 1 field" in ran.err
