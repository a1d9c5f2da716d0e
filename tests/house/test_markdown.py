"""Tables in the documents are well formed, links resolve, and modules of commands exist."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.house.sources import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def count_cells(row: str) -> int:
    """Return the number of cells in a row that begins and ends with a bar. Escaped bars are not separators."""
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def broken_tables(text: str) -> list[str]:
    """Describe each table row that has no header, no final bar, or another number of cells than the header."""
    faults = []
    in_code = False
    header_cells = 0
    lines = ["", *text.splitlines()]
    for number, (before, line) in enumerate(pairwise(lines), 1):
        if line.startswith(("```", "~~~")):
            in_code = not in_code
        if in_code or not line.startswith("|"):
            header_cells = 0
            continue
        if header_cells == 0:
            # The first row of a table is followed by the line of dashes.
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if before.startswith("|") or not re.fullmatch(r"\|( ?:?-+:? ?\|)+", below):
                faults.append(f"line {number}: a row without a header: {line}")
            header_cells = count_cells(line)
        if count_cells(line) != header_cells or not line.endswith("|"):
            faults.append(f"line {number}: {count_cells(line)} cells, the header has {header_cells}: {line}")
    return faults


def test_tables_in_documents_are_well_formed() -> None:
    faults_by_document = {str(path.relative_to(ROOT)): broken_tables(path.read_text("utf-8")) for path in DOCUMENTS}
    assert not {document: faults for document, faults in faults_by_document.items() if faults}


def broken_links(path: Path) -> Iterator[str]:
    """Yield link targets whose file or heading does not exist. Web addresses are not checked."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        other = path.parent / file if file else path
        if not other.exists() or (anchor and anchor not in anchors(other.read_text(encoding="utf-8"))):
            yield target


def test_links_to_files_and_headings_resolve() -> None:
    assert not [f"{path.relative_to(ROOT)}: {target}" for path in DOCUMENTS for target in broken_links(path)]


def anchors(text: str) -> set[str]:
    """Return the anchors of all headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_broken_tables_are_found() -> None:
    whole = "| a | b |\n|---|---:|\n| 1 | `x \\| y` |\n"
    assert not broken_tables(f"Text\n\n{whole}\nText\n```\n| no table\n```\n")
    assert broken_tables(f"{whole}\n| 3 | 4 |\n")
    assert broken_tables(f"{whole}| 3 | 4 | 5 |\n")
    assert broken_tables(f"{whole}| 3 | 4\n")
    assert broken_tables("| a | b |\n| 1 | 2 |\n")


def test_modules_of_commands_in_the_documents_exist() -> None:
    named = {
        (page.name, name)
        for page in DOCUMENTS
        for name in re.findall(r"python3? -m hierogram\.([\w.]+\w)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    missing = [
        (page, name)
        for page, name in sorted(named)
        if not (ROOT / (name.replace(".", "/") + ".py")).exists() and not (ROOT / name.replace(".", "/")).is_dir()
    ]
    assert not missing
