"""Options of the extraction of terms."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hierogram.daemon.shared_options import OUTPUT, Corpus, Languages
from hierogram.storage.options import Option, OptionError

LONGEST = 8
MOST_TERMS = 100_000
MOST_DEPARTURES = 1_000

TABLE, TSV, CSV, TBX, JSON, GLOSSARY = "table", "tsv", "csv", "tbx", "json", "glossary"
FORMATS = {
    TABLE: "for people",
    TSV: "a line each, cells separated by tabs",
    CSV: "as spreadsheets read it",
    TBX: "ISO 30042, TBX-Basic",
    JSON: "for programs",
    GLOSSARY: "reliable terms, a tab and their rendering, for `translate --glossary`",
}
BASIC_2, BASIC_3 = "basic-2", "basic-3"
DIALECTS = {
    BASIC_2: "martif, ISO 30042:2008, which most tools read",
    BASIC_3: "tbx, ISO 30042:2019",
}


@dataclass(frozen=True, slots=True)
class TermOptions:
    """Terms to look for, and n of them to report."""

    top: Annotated[int, Option("Terms to report, best first.", min=1, max=MOST_TERMS)] = 50
    min_count: Annotated[int, Option("Least pairs in which a term has its usual rendering.", min=2)] = 5
    max_words: Annotated[int, Option("Most words on a side.", min=1, max=LONGEST)] = 4
    min_words: Annotated[int, Option("Least words on the longer side.", min=1, max=LONGEST)] = 2
    consistency: Annotated[
        float, Option("Least share of a term's pairs that have its usual rendering.", min=0, max=1)
    ] = 0.5
    corpus: Corpus = None

    def __post_init__(self) -> None:
        if self.min_words > self.max_words:
            raise OptionError("min_words", f"{self.min_words} is more than --max-words {self.max_words}")


FOR_GLOSSARIES: dict[str, Any] = {"top": MOST_TERMS, "min_words": 1, "consistency": 0.9}
"""Options of a glossary's terms, where others are not named: all that nearly always have one rendering, words too.

Every sentence gets these translations, whatever stands around them: with the usual share of .5 they make translations
worse (see docs/decisions/decoding.md)."""


@dataclass(frozen=True, slots=True)
class TermOutput:
    """The format of terms, and the file that they are written to."""

    departures: Annotated[
        int,
        Option(
            "Report of each term up to N pairs that depart from its usual rendering, in place of the terms.",
            min=0, max=MOST_DEPARTURES, metavar="N",
        ),
    ] = 0  # fmt: skip
    format: Annotated[
        str | None, Option("How to write it", values=FORMATS, shown="by the name of the file, else table")
    ] = None
    dialect: Annotated[str, Option("Dialect of TBX", values=DIALECTS)] = BASIC_2
    languages: Languages = None
    output: Annotated[Path | None, OUTPUT] = None
