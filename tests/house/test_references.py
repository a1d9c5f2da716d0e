"""Cited works are in docs/references.md, which links to the citing modules. Cited equations are in docs/model.md."""

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.house.sources import ROOT, relative_names

MODEL = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
REFERENCES = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
CITING = [
    ROOT / "README.md",
    *ROOT.glob("docs/**/*.md"),
    *(path for part in ("samplers", "storage", "daemon", "tools") for path in ROOT.glob(f"{part}/**/*.py")),
]
KEY = re.compile(r"\b([A-Z]{2,}[A-ZŠ]*\d{2})\b")
"""Citation key, such as CFGŠ14."""
_NAME = r"[A-ZÀ-ÖØ-ÞČŠŽ][^\W\d_]+"
AUTHOR = re.compile(rf"\b({_NAME})((?:, {_NAME})*,? (?:&|and) {_NAME}| et al\.)?(?:'s)? \(?((?:19|20)\d\d)\b(?!-)")
"""First author, further authors, and year of a citation in prose."""
MONTHS = {"January", "May", "June"}


@cache
def read_joined(path: Path) -> str:
    """Return the file's text with lines joined, so that a citation may span lines."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", path.read_text(encoding="utf-8"))


def cited_places(text: str) -> dict[str, set[str]]:
    """Return cited places by key, such as `§ 5.2`, `eq 6`, `Algorithm 3`. A key without places has an empty set."""
    places = defaultdict(set)
    for inside in re.findall(r"\[([^\[\]]*)\]", text):
        for citation in inside.split(";"):
            if not (key := KEY.match(citation.strip())):
                continue
            kind = ""
            for mark, number in re.findall(
                r"(§|eqs?\.|Algorithms?|Lemma)? ?(\d+(?:\.\d+)*)", citation[key.end() + 1 :]
            ):
                kind = mark.rstrip("s.").removesuffix("s") or kind
                places[key[1]].add(f"{kind} {number}")
            # Also list a key without places.
            places[key[1]] |= set()
    return places


def test_the_references_list_exactly_the_cited_keys() -> None:
    listed = set(re.findall(r"^\*\*\[(\w+)\]\*\*", REFERENCES, re.MULTILINE))
    cited = {key for path in CITING for key in cited_places(read_joined(path))}
    assert cited == listed


def first_author_and_year(text: str) -> set[tuple[str, str]]:
    """Return (first author, year) of all citations in prose, such as `Huang & Renals 2010`."""
    return {(author, year) for author, _, year in AUTHOR.findall(text) if author not in MONTHS}


def test_the_first_author_and_year_of_every_citation_are_listed() -> None:
    rows = re.findall(r"^\| (.*?) \|", REFERENCES, re.MULTILINE)
    keyed = re.findall(r"^\*\*\[\w+\]\*\* (.*?\(\d{4}\))", re.sub(r"\n(?=\w)", " ", REFERENCES), re.MULTILINE)
    listed = {pair for row in rows for pair in first_author_and_year(row)}
    # Works with a key may also be spelled out, by the first author's family name.
    listed |= {(re.split(r",| and ", authors)[0].split()[-1], authors[-5:-1]) for authors in keyed}
    missing = {
        path: first_author_and_year(read_joined(path)) - listed for path in CITING if path.name != "references.md"
    }
    assert not {relative_names([path])[0]: authors for path, authors in missing.items() if authors}


def test_cited_sections_and_equations_are_in_the_model_document() -> None:
    covered = cited_places(read_joined(ROOT / "docs" / "model.md"))
    missing = [
        f"{path.relative_to(ROOT)}: {key} {sorted(places - covered[key])}"
        for path in CITING
        for key, places in cited_places(read_joined(path)).items()
        if not places <= covered[key]
    ]
    assert not missing, "\n".join(["describe these in docs/model.md:", *missing])


def test_cited_sections_of_the_model_document_exist() -> None:
    sections = set(re.findall(r"^## (\d+)\.", MODEL, re.MULTILINE))
    missing = [
        f"{path.relative_to(ROOT)}: §{number}"
        for path in CITING
        for number in re.findall(r"model\.md §(\d+)", read_joined(path))
        + (re.findall(r"\(§(\d+)\)", read_joined(path)) if path.name == "model.md" else [])
        if number not in sections
    ]
    assert not missing


def split_sections(document: str) -> dict[str, str]:
    """Return the text about each work with a key, by key."""
    parts = re.split(r"^\*\*\[(\w+)\]\*\*", document.split("\n## Works")[0], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def linked_modules(text: str) -> list[Path]:
    """Return the modules that a text of docs/ links to."""
    return [(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\((\.\./[^)]*\.py)\)", text)]


def test_works_with_a_key_link_to_modules_that_cite_the_key() -> None:
    for key, section in split_sections(REFERENCES).items():
        assert linked_modules(section), f"{key}: link the modules that implement it"
        for path in linked_modules(section):
            assert key in cited_places(read_joined(path)), f"{path} does not cite {key}"


def test_works_without_a_key_link_to_modules_that_cite_them() -> None:
    for row in re.findall(r"^\| (.* (?:19|20)\d\d \| .*) \|$", REFERENCES, re.MULTILINE):
        work, _, links = row.split(" | ")
        assert linked_modules(links) or links == "[model.md](model.md)", f"{work}: link the modules that cite it"
        for path in linked_modules(links):
            [(author, _)] = first_author_and_year(work)
            assert author in read_joined(path), f"{path} does not cite {work}"


def test_citations_and_first_authors_are_parsed() -> None:
    places = cited_places("so [CFGŠ14 §2, Algorithms 1 and 4; SA16 eqs. 3, 5] and [CGB09]")
    assert places == {
        "CFGŠ14": {"§ 2", "Algorithm 1", "Algorithm 4"},
        "SA16": {"eq 3", "eq 5"},
        "CGB09": set(),
    }
    authors = first_author_and_year(
        "[Huang & Renals 2010], Neal's (2003), Newman et al. 2009, Koehn, Och and Marcu 2003"
    )
    assert authors == {("Huang", "2010"), ("Neal", "2003"), ("Newman", "2009"), ("Koehn", "2003")}
