"""Options of term extraction."""

from dataclasses import dataclass
from typing import Annotated, Any

from hierogram.storage.options import Option, OptionError

MAX_WORDS = 8
MAX_TERMS = 100_000
MAX_DEPARTURES = 1_000

TABLE, TSV, CSV, TBX, JSON, GLOSSARY = "table", "tsv", "csv", "tbx", "json", "glossary"
FORMATS = {
    TABLE: "aligned columns for reading",
    TSV: "tab-separated values",
    CSV: "comma-separated values",
    TBX: "TBX-Basic, ISO 30042:2008",
    JSON: "one object",
    GLOSSARY: "reliable terms and renderings separated by a tab, for `translate --glossary`",
}


@dataclass(frozen=True, slots=True)
class TermOptions:
    """Options of term selection: frequency, length, consistency and number of terms."""

    top: Annotated[int, Option("Number of terms to report, best first.", min=1, max=MAX_TERMS)] = 50
    min_count: Annotated[int, Option("Minimum number of pairs in which a term has its usual rendering.", min=2)] = 5
    max_words: Annotated[int, Option("Maximum number of words per side.", min=1, max=MAX_WORDS)] = 4
    min_words: Annotated[int, Option("Minimum number of words on the longer side.", min=1, max=MAX_WORDS)] = 2
    consistency: Annotated[float, Option("Minimum share of a term's pairs with its usual rendering.", min=0, max=1)] = (
        0.5
    )
    corpus: Annotated[str | None, Option("Use only pairs of this corpus.", metavar="NAME", shown="all")] = None

    def __post_init__(self) -> None:
        if self.min_words > self.max_words:
            raise OptionError("min_words", f"must be <= --max-words {self.max_words}, got {self.min_words}")


GLOSSARY_DEFAULTS: dict[str, Any] = {"top": MAX_TERMS, "min_words": 1, "consistency": 0.9}
"""Defaults of `TermOptions` for glossaries: all words and phrases with a nearly constant rendering.

Glossary entries are forced on every sentence, whatever the context. With the normal consistency of 0.5 they make
translations worse (see docs/decisions/decoding.md).
"""
