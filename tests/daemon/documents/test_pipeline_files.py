"""Files for other tools agree with the store's links and rules if parsed as documented by these tools."""

import gzip
import math
import re
from collections import Counter, defaultdict
from pathlib import Path

import eflomal
import pytest
from tests.daemon.conftest import LINES
from tests.reference.compositions import exported_compositions
from tests.storage.rows import rule_rows

from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.options import MIN_EXPECTED, ExportOptions
from hierogram.storage.store import Store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "exports.md").read_text()


def count_links() -> Counter[tuple[str, str]]:
    """Return the number of links of each word pair in the small corpus."""
    found: Counter[tuple[str, str]] = Counter()
    for line in LINES:
        source, target, links = (part.split() for part in line.split(" ||| "))
        for i, _, j in (link.partition("-") for link in links):
            found[source[int(i)], target[int(j)]] += 1
    return found


def conditional_frequencies(side: int) -> dict[tuple[str, str], float]:
    """Return relative frequencies of linked words, given the word of one side."""
    counts = count_links()
    totals: Counter[str] = Counter()
    for pair, count in counts.items():
        totals[pair[side]] += count
    return {pair: count / totals[pair[side]] for pair, count in counts.items()}


def lines(store: Store, folder: Path, name: str) -> list[str]:
    path = folder / f"file{FORMATS[name].suffix}"
    export(store, path, ExportOptions(format=name))
    return path.read_text().splitlines()


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(("name", "side"), [("bicleaner", 0), ("shortlist", 0), ("bicleaner-reverse", 1)])
def test_dictionaries_contain_relative_frequencies_of_links(
    learned: Store, tmp_path: Path, name: str, side: int
) -> None:
    # Bicleaner and Marian split at white space; the conditioning word is second.
    found = {}
    for line in lines(learned, tmp_path, name):
        other, known, p = line.split()
        found[(known, other) if side == 0 else (other, known)] = float(p)
    assert found == pytest.approx(conditional_frequencies(side), rel=1e-5)


@pytest.mark.database("sqlite")
def test_dictionaries_are_compressed_and_filtered(learned: Store, tmp_path: Path) -> None:
    export(learned, tmp_path / "dict.gz", ExportOptions(format="bicleaner", min_count=2))
    with gzip.open(tmp_path / "dict.gz", "rt") as file:
        found = {tuple(line.split()[1::-1]) for line in file}
    assert found == {pair for pair, count in count_links().items() if count >= 2}


@pytest.mark.database("sqlite")
def test_eflomal_reads_the_priors(learned: Store, tmp_path: Path) -> None:
    lines(learned, tmp_path, "priors")
    with (tmp_path / "file.priors").open() as file:
        lexical, *others = eflomal.read_priors(file)
    assert {(source, target): count for source, target, count in lexical} == count_links()
    assert not any(others)


def test_fast_align_table_contains_relative_frequencies_of_links(learned: Store, tmp_path: Path) -> None:
    found = {}
    for line in lines(learned, tmp_path, "ttable"):
        source, target, logarithm = line.split("\t")
        found[source, target] = math.exp(float(logarithm))
    assert found == pytest.approx(conditional_frequencies(0), rel=1e-4)


def test_a_vocabulary_map_contains_all_words_of_translations(learned: Store, tmp_path: Path) -> None:
    expected: defaultdict[str, set[str]] = defaultdict(set)
    with learned.snapshot() as snapshot:
        for rule in rule_rows(snapshot):
            if not rule.nonterminals and (rule.expected_uses or rule.minimal_uses):
                expected[rule.source].update(rule.target.split())
    for source, target in exported_compositions(LINES, MIN_EXPECTED):
        if "[X," not in source:
            expected[source].update(target.split())
    found = {}
    for line in lines(learned, tmp_path, "vmap"):
        source, target = line.split("\t")
        found[source] = set(target.split(" "))
    assert found == expected


def test_document_lists_all_lexicon_formats() -> None:
    section = DOCUMENT.split("## Write files for other tools")[1].split("\n## ")[0]
    names = [name for name, format in FORMATS.items() if format.word_list]
    assert sorted(re.findall(r"^\| `([^`]*)` \|", section, re.MULTILINE)) == sorted(names)
