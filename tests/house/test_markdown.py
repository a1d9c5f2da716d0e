"""Tables of every document are tables to whoever renders them, and links lead somewhere."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.house.sources import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def cells(row: str) -> int:
    """How many cells a row has; bars behind a backslash divide none."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def broken_tables(text: str) -> list[str]:
    """Rows that belong to no table, or have more or fewer cells than its header."""
    found = []
    fenced = False
    header = 0
    lines = ["", *text.splitlines()]
    for number, (before, line) in enumerate(pairwise(lines), 1):
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        if fenced or not line.startswith("|"):
            header = 0
            continue
        if header == 0:
            # A row that begins a table has the line of dashes below it.
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if before.startswith("|") or not re.fullmatch(r"\|( ?:?-+:? ?\|)+", below):
                found.append(f"line {number}: a row without a header: {line}")
            header = cells(line)
        if cells(line) != header or not line.endswith("|"):
            found.append(f"line {number}: {cells(line)} cells, the header has {header}: {line}")
    return found


def test_tables_are_whole() -> None:
    found = {str(path.relative_to(ROOT)): broken_tables(path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    assert not {document: faults for document, faults in found.items() if faults}


def leads_nowhere(path: Path) -> Iterator[str]:
    """Targets of links to files or headings that are not there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        other = path.parent / file if file else path
        if not other.exists() or (anchor and anchor not in anchors(other.read_text(encoding="utf-8"))):
            yield target


def test_links_lead_somewhere() -> None:
    assert not [f"{path.relative_to(ROOT)}: {target}" for path in DOCUMENTS for target in leads_nowhere(path)]


def anchors(text: str) -> set[str]:
    """The headings of a document, as links name them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_broken_tables_are_found() -> None:
    whole = "| a | b |\n|---|---:|\n| 1 | `x \\| y` |\n"
    assert not broken_tables(f"Text\n\n{whole}\nText\n```\n| no table\n```\n")
    assert broken_tables(f"{whole}\n| 3 | 4 |\n")
    assert broken_tables(f"{whole}| 3 | 4 | 5 |\n")
    assert broken_tables(f"{whole}| 3 | 4\n")
    assert broken_tables("| a | b |\n| 1 | 2 |\n")
