"""The `terms` command, its formats, and its documentation."""

import csv
import json
import re
import shlex
from collections import Counter
from dataclasses import fields
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from defusedxml.ElementTree import fromstring
from lxml import etree
from tests.daemon.conftest import LINES, Run
from translate.storage.tbx import tbxfile

import hierogram as hg
from hierogram.daemon.text.dictionaries import Dictionary
from hierogram.tools.terms.reports import Departure, Rendering, Term, TermReport, make_tbx
from hierogram.tools.translation.fixed_words import InputPhrase, read_glossary

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "terms.md").read_text()
COMPARISON = (ROOT / "docs" / "comparison.md").read_text().split("\n## Terms\n")[1].split("\n## ")[0]
JUDGED = [line.split("\t") for line in (Path(__file__).parent / "judged.tsv").read_text().splitlines()]
XML = "{http://www.w3.org/XML/1998/namespace}"
TERM_COLUMNS, DEPARTURE_COLUMNS = (tuple(field.name for field in fields(kind)) for kind in (Term, Departure))
EXPECTED = {("ne vient pas", "not come"), ("la maison", "the house")}


def read_tbx(text: str) -> list[tuple[dict[str, str], list[str]]]:
    """Return terms by language, and notes, of each concept of a TBX-Basic 2 document."""
    found = []
    for concept in fromstring(text).iter("termEntry"):
        terms = {section.attrib[f"{XML}lang"]: section.find("tig/term").text for section in concept}
        found.append((terms, [section.find("tig/note").text for section in concept]))
    return found


def read_by_toolkit(path: str) -> set[tuple[str, str]]:
    """Return terms and renderings read by translate-toolkit, on which many tools rely. It must accept every unit."""
    units = tbxfile.parsefile(path).units
    assert all(unit.istranslatable() for unit in units)
    return {(unit.source, unit.target) for unit in units}


BASIC_2_DTD = """
<!ELEMENT martif (martifHeader, text)>
<!ATTLIST martif type CDATA #REQUIRED xml:lang CDATA #REQUIRED>
<!ELEMENT martifHeader (fileDesc, encodingDesc?, revisionDesc?)>
<!ELEMENT fileDesc (titleStmt?, publicationStmt?, sourceDesc+)>
<!ELEMENT titleStmt (title, note*)>
<!ELEMENT title (#PCDATA)>
<!ELEMENT publicationStmt (p+)>
<!ELEMENT sourceDesc (p+)>
<!ELEMENT encodingDesc (p+)>
<!ELEMENT revisionDesc (p+)>
<!ELEMENT p (#PCDATA)>
<!ATTLIST p type (XCSURI | XCSContent | DCSName) #IMPLIED>
<!ELEMENT text (body)>
<!ELEMENT body (termEntry+)>
<!ELEMENT termEntry (descrip*, langSet+)>
<!ATTLIST termEntry id ID #IMPLIED>
<!ELEMENT langSet (descrip*, tig+)>
<!ATTLIST langSet xml:lang CDATA #REQUIRED>
<!ELEMENT tig (term, termNote*, (descrip | note)*)>
<!ELEMENT term (#PCDATA)>
<!ELEMENT termNote (#PCDATA)>
<!ELEMENT descrip (#PCDATA)>
<!ELEMENT note (#PCDATA)>
"""
"""Part of the core structure of TBX-Basic 2 [ISO 30042:2008] that a term list uses."""


def assert_basic_2(path: str) -> None:
    tree = etree.parse(path)
    structure = etree.DTD(StringIO(BASIC_2_DTD))
    assert structure.validate(tree), structure.error_log
    assert (tree.getroot().tag, tree.getroot().get("type")) == ("martif", "TBX-Basic")


@pytest.mark.database("sqlite")
def test_every_format_reports_the_same_terms(hierogram: Run, learned_url: str) -> None:
    command = ("--store", learned_url, "terms", "--min-count", "2")
    table = hierogram(*command)
    assert table.code == 0
    head, *rows = [line.split("\t") for line in table.out.splitlines()]
    assert head == ["score", "source", "target", "pairs", "other renderings"]
    assert {(row[1], row[2]) for row in rows} >= EXPECTED
    reported = {(row[1], row[2]) for row in rows}
    assert f"{len(reported)} terms of {len(LINES)} pairs" in table.err
    as_json = json.loads(hierogram(*command, "--format", "json").out)
    assert {(term["source"], term["target"]) for term in as_json["terms"]} == reported
    for form, dialect in (("tsv", "excel-tab"), ("csv", "excel")):
        read = list(csv.DictReader(hierogram(*command, "--format", form).out.splitlines(), dialect=dialect))
        assert [tuple(row) for row in read] == [TERM_COLUMNS] * len(reported)
        assert [row["target"] for row in read] == [term["target"] for term in as_json["terms"]]
    assert hierogram(*command, "-o", "found.tbx", "--languages", "fr,en").code == 0
    assert read_by_toolkit("found.tbx") == reported
    [read_back] = Dictionary("found.tbx").line_chunks(("fr", "en"))
    assert {(s.decode(), t.decode()) for s, t in zip(read_back.sources, read_back.targets, strict=True)} == reported
    assert_basic_2("found.tbx")
    unnamed = read_tbx(hierogram(*command, "--format", "tbx").out)
    assert {(terms["x-source"], terms["x-target"]) for terms, _ in unnamed} == reported


def test_departures_are_reported_as_csv_table_and_json(hierogram: Run, learned_url: str) -> None:
    command = ("--store", learned_url, "terms", "--min-count", "2", "--min-words", "1", "--consistency", "0")
    ran = hierogram(*command, "--departures", "3", "--format", "csv")
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert rows
    assert tuple(rows[0]) == DEPARTURE_COLUMNS
    for row in rows:
        assert row["term"].lower() in row["source"]
        assert row["rendering"] != row["usual"]
        assert (row["external_id"], row["corpus"]) == ("", "default")
    shown = hierogram(*command, "--departures", "3")
    assert shown.out.splitlines()[0] == "term\tusual\trendering\tpair\tsource\ttarget"
    as_json = json.loads(hierogram(*command, "--departures", "3", "--format", "json").out)
    assert [item["pair"] for item in as_json["departures"]] == [int(row["pair"]) for row in rows]


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--departures", "2", "--format", "tbx"), 2, "cannot be combined with the format tbx"),
        (("--departures", "2", "-o", "terms.glossary"), 2, "cannot be combined with the format glossary"),
        (("--format", "table", "-o", "terms.tsv"), 2, "terms.tsv: the format table is only printed"),
        (("-o", "terms.xls"), 2, "unknown suffix: expected .tsv, .csv, .tbx, .json, .glossary"),
        (("--min-words", "4", "--max-words", "3"), 2, "--min-words: must be <= --max-words 3, got 4"),
        (("--languages", "french"), 2, "expected two languages"),
        (("--corpus", "books"), 3, "not found; the store has: default"),
        (("-o", "nowhere/terms.csv"), 3, "cannot be written"),
    ],
)
def test_invalid_terms_options_are_reported(
    hierogram: Run, learned_url: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    ran = hierogram("--store", learned_url, "terms", *arguments)
    assert (ran.code, message in ran.err) == (code, True), ran.err


@pytest.mark.database("sqlite")
def test_terms_of_a_tokenizing_store_are_detokenized(hierogram: Run, tmp_path: Path) -> None:
    # Input with links must be tokenized already, in the same way as the store tokenizes text.
    verbs = [("voit", "sees"), ("prend", "takes"), ("demande", "demands"), ("goûte", "tastes")]
    pairs = [
        (f"{item} {phrase} .", f"{other} {rendering} .", "0-0 1-1 2-1 3-2")
        for phrase, rendering in (("l' eau", "water"), ("aujourd' hui", "today"))
        for item, other in verbs
    ]
    with hg.open(tmp_path / "text.db", create=True, languages=("fr", "en"), tokenize=True) as store:
        store.add([*pairs, ("Jean boit l' eau .", "John drinks it .", "0-0 1-1 3-2 4-3")])
    command = ("--store", str(tmp_path / "text.db"), "terms", "--min-count", "2", "--min-words", "1")
    tokens = {item["source"] for item in json.loads(hierogram(*command, "--format", "json").out)["terms"]}
    assert {"aujourd' hui", "l' eau"} <= tokens
    assert "aujourd' hui\ttoday" in hierogram(*command, "--format", "glossary").out.splitlines()
    text = {source.replace("' ", "'") for source in tokens}
    assert hierogram(*command, "-o", "text.tbx").code == 0
    assert {source for source, _ in read_by_toolkit("text.tbx")} == text
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        rows = csv.DictReader(hierogram(*command, "--format", form).out.splitlines(), delimiter=delimiter)
        assert {row["source"] for row in rows} == text
    [departure] = csv.DictReader(
        hierogram(*command, "--departures", "9", "--format", "tsv").out.splitlines(), delimiter="\t"
    )
    shown = ("term", "rendering", "source", "target")
    assert [departure[name] for name in shown] == ["l'eau", "it", "Jean boit l'eau.", "John drinks it."]


def test_tbx_escapes_special_characters(tmp_path: Path) -> None:
    renderings = (Rendering('c"d', 2), Rendering("]]>", 1))
    days = (date(2026, 1, 2), date(2026, 1, 3))
    term = Term("a<b & \x01", 'c"d', 1.0, 2, 3, 2, 0.6667, 1.0, 1.0, renderings, {}, *days)
    found = TermReport(3, (term,), (), ("pt_BR", "en"))
    (tmp_path / "a.tbx").write_text("".join(make_tbx(found, (), "sqlite:///a&b.db")))
    assert read_by_toolkit(str(tmp_path / "a.tbx")) == {("a<b & ", 'c"d')}
    assert_basic_2(str(tmp_path / "a.tbx"))
    [(terms, notes)] = read_tbx((tmp_path / "a.tbx").read_text())
    assert terms == {"pt-BR": "a<b & ", "en": 'c"d'}
    assert notes == ["in 3 pairs, from 2026-01-02 to 2026-01-03", "in 2 of these pairs; ]]>: 1"]


def test_a_glossary_has_only_consistent_terms(hierogram: Run, learned_url: str) -> None:
    """Words such as `ne`, whose rendering depends on the context, must not be forced on every sentence."""
    command = ("--store", learned_url, "terms", "--min-count", "2")
    assert hierogram(*command, "-o", "terms.glossary").code == 0
    head, *lines = Path("terms.glossary").read_text().splitlines()
    assert head == "# tokens"
    reported = json.loads(hierogram(*command, "--min-words", "1", "--top", "1000", "--format", "json").out)["terms"]
    reliable = {(item["source"], item["target"]) for item in reported if item["consistency"] >= 0.9}
    assert {tuple(line.split("\t")) for line in lines} == reliable
    assert len(reliable) < len(reported)
    source, target = lines[0].split("\t")
    [part] = read_glossary("terms.glossary").apply([InputPhrase(tuple(source.split()))])
    assert part.given == (tuple(target.split()),)
    chosen = hierogram(*command, "--format", "glossary", "--consistency", "0.5", "--min-words", "2").out
    assert "" in {line.partition("\t")[2] for line in chosen.splitlines()[:1]}
    assert len(chosen.splitlines()) != len(lines) + 1
    assert hierogram("--store", learned_url, "export", "--format", "glossary").code != 0


def test_the_documented_terms_commands_run(hierogram: Run, learned_url: str) -> None:
    commands = [shlex.split(line) for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)
                for line in block.splitlines()]  # fmt: skip
    assert len(commands) == 6
    for name, *arguments in commands[:-1]:
        ran = hierogram("--store", learned_url, *arguments)
        assert (name, ran.code) == ("hierogram", 0), ran.err
    assert_basic_2("terms.tbx")
    assert read_glossary("terms.glossary")._max_words >= 1
    assert Path("departures.tsv").read_text().splitlines()[0].split("\t") == list(DEPARTURE_COLUMNS)


def test_the_document_names_every_column() -> None:
    for title, columns in (("A term has these columns:", TERM_COLUMNS), ("A *departure* is", DEPARTURE_COLUMNS)):
        part = DOCUMENT.split(title, 1)[1].split("\n\n")[1]
        cells = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
        assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(columns)


def test_the_document_reports_the_judged_terms() -> None:
    head, *rows = JUDGED
    assert head == ["rank", "source", "target", "verdict"]
    ranks = [int(row[0]) for row in rows]
    assert len(ranks) == len(set(ranks)) == 100
    assert (ranks == sorted(ranks), ranks[-1] <= 1000) == (True, True)
    assert all(max(len(row[1].split()), len(row[2].split())) >= 2 for row in rows)
    verdicts = Counter(row[3] for row in rows)
    reported = dict(re.findall(r"^\| `(\w+)`: .*? \| (\d+) \| .* \|$", COMPARISON, re.MULTILINE))
    assert reported == {verdict: str(number) for verdict, number in verdicts.items()}
    shown = DOCUMENT.split("## Example")[1].split("##")[0]
    assert len(re.findall(r"^\| .* \|$", shown, re.MULTILINE)) == 1 + 5
