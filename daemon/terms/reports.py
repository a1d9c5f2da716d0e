"""Terms as they are reported: records, lines of a table, JSON, and TBX-Basic, the terminologists' exchange format.

TBX-Basic 2 [ISO 30042:2008] is `martif`, with a `termEntry` for a concept and a `tig` for a term; TBX-Basic 3
[ISO 30042:2019] is `tbx`, with `conceptEntry` and `termSec`, and data categories as attributes (DCA).
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from hierogram.daemon.decoding.fixed_words import TOKENS_LINE
from hierogram.daemon.terms.options import BASIC_2, BASIC_3, CSV, GLOSSARY, JSON, TBX, TSV


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendering of a term, and in how many pairs the term has it."""

    text: str
    pairs: int


@dataclass(frozen=True, slots=True)
class Term:
    """A term with its usual rendering `target`.

    `pairs` have the term rendered so, `source_pairs` have the term, `target_pairs` have that phrase on the target side;
    `consistency` is the share of the first in the second. `score` is `ratio` (2 ln λ) by `cohesion`. `renderings` are
    the most frequent ones, the usual one first; `corpora` numbers of pairs with the term; `first`, `last` the days on
    which the first and the last of these pairs were stored.
    """

    source: str
    target: str
    pairs: int
    source_pairs: int
    target_pairs: int
    consistency: float
    score: float
    ratio: float
    cohesion: float
    renderings: tuple[Rendering, ...]
    corpora: dict[str, int]
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Departure:
    """A pair that has a term, and not its usual rendering.

    `rendering` is what the term's words are linked to: a phrase, or words with `…` between them, or nothing.
    `external_id` is the pair's own identifier, `origin` the input that it was read from.
    """

    term: str
    usual: str
    rendering: str
    pair: int
    external_id: str | None
    corpus: str
    origin: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The best terms of so many pairs, and pairs that depart from their usual renderings, in the order of the terms."""

    pairs: int
    terms: tuple[Term, ...]
    departures: tuple[Departure, ...]
    languages: tuple[str, ...]


NAMESPACE = "urn:iso:std:iso:30042:ed-2"
UNKNOWN = ("x-source", "x-target")
"""Private tags [BCP 47] of languages that nobody named."""


class _Dialect(NamedTuple):
    """What surrounds a document, `{language}` and `{origin}` to be filled in, and the elements of a concept."""

    head: str
    foot: str
    concept: str
    language: str
    term: str


_DIALECTS = {
    BASIC_2: _Dialect(
        """<?xml version="1.0" encoding="UTF-8"?>
<martif type="TBX-Basic" xml:lang={language}>
  <martifHeader>
    <fileDesc>
      <sourceDesc><p>{origin}</p></sourceDesc>
    </fileDesc>
    <encodingDesc>
      <p type="XCSURI">TBXBasicXCSV02.xcs</p>
    </encodingDesc>
  </martifHeader>
  <text>
    <body>
""",
        "    </body>\n  </text>\n</martif>\n",
        "termEntry",
        "langSet",
        "tig",
    ),
    BASIC_3: _Dialect(
        f"""<?xml version="1.0" encoding="UTF-8"?>
<tbx type="TBX-Basic" style="dca" xml:lang={{language}} xmlns="{NAMESPACE}">
  <tbxHeader>
    <fileDesc>
      <sourceDesc><p>{{origin}}</p></sourceDesc>
    </fileDesc>
  </tbxHeader>
  <text>
    <body>
""",
        "    </body>\n  </text>\n</tbx>\n",
        "conceptEntry",
        "langSec",
        "termSec",
    ),
}


def tbx_of(found: Terms, languages: tuple[str, ...], store: str, dialect: str = BASIC_2) -> Iterator[str]:
    """The document, piece by piece."""
    names = languages or found.languages or UNKNOWN
    tags = [name.replace("_", "-") for name in names]
    origin = f"{len(found.terms)} terms of {found.pairs} pairs of {store}, by hierogram"
    form = _DIALECTS[dialect]
    # The language of the notes.
    yield form.head.format(language=quoteattr("en"), origin=_text(origin))
    for number, term in enumerate(found.terms, 1):
        yield f'      <{form.concept} id="t{number}">\n'
        yield _section(form, tags[0], term.source, f"in {term.source_pairs} pairs, from {term.first} to {term.last}")
        yield _section(form, tags[1], term.target, _usage(term))
        yield f"      </{form.concept}>\n"
    yield form.foot


def _section(form: _Dialect, language: str, term: str, note: str) -> str:
    return (
        f"        <{form.language} xml:lang={quoteattr(language)}>\n"
        f"          <{form.term}>\n"
        f"            <term>{_text(term)}</term>\n"
        f"            <note>{_text(note)}</note>\n"
        f"          </{form.term}>\n"
        f"        </{form.language}>\n"
    )


def _usage(term: Term) -> str:
    others = "".join(f"; {other.text}: {other.pairs}" for other in term.renderings[1:])
    return f"in {term.pairs} of these pairs{others}"


def _text(text: str) -> str:
    """The text as XML, with U+FFFD in the place of characters that XML does not have."""
    return escape("".join(letter if _is_letter(ord(letter)) else "\ufffd" for letter in text))


def _is_letter(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000


TERM_COLUMNS = (
    "source", "target", "score", "pairs", "source_pairs", "target_pairs", "consistency", "ratio", "cohesion",
    "renderings", "corpora", "first", "last",
)  # fmt: skip
DEPARTURE_COLUMNS = (
    "term", "usual", "rendering", "pair", "external_id", "corpus", "origin", "source", "target",
)  # fmt: skip


def pieces(
    found: Terms, form: str, departures: bool, languages: tuple[str, ...], store: str, dialect: str = BASIC_2
) -> Iterator[str]:
    """What is to be written in a format other than that for people; `languages` and `dialect` are for TBX."""
    if form == TBX:
        yield from tbx_of(found, languages, store, dialect)
    elif form == GLOSSARY:
        yield f"{TOKENS_LINE}\n"
        for term in found.terms:
            yield f"{term.source}\t{term.target}\n"
    elif form == JSON:
        yield json.dumps(_json(found, departures), ensure_ascii=False, indent=2) + "\n"
    elif form == CSV:
        yield from _csv(*_cells(found, departures))
    else:
        assert form == TSV
        columns, rows = _cells(found, departures)
        for row in (columns, *rows):
            yield "\t".join(row) + "\n"


def shown_renderings(renderings: Sequence[Rendering]) -> str:
    """`breakfast: 54; lunch: 3`."""
    return "; ".join(f"{rendering.text}: {rendering.pairs}" for rendering in renderings)


def _cells(found: Terms, departures: bool) -> tuple[Sequence[str], list[list[str]]]:
    if departures:
        return DEPARTURE_COLUMNS, [_departure(one) for one in found.departures]
    return TERM_COLUMNS, [_term(one) for one in found.terms]


def _term(term: Term) -> list[str]:
    values = asdict(term)
    values["renderings"] = shown_renderings(term.renderings)
    values["corpora"] = "; ".join(f"{name}: {number}" for name, number in term.corpora.items())
    return [str(values[column]) for column in TERM_COLUMNS]


def _departure(departure: Departure) -> list[str]:
    values = asdict(departure)
    return ["" if values[column] is None else str(values[column]) for column in DEPARTURE_COLUMNS]


def _json(found: Terms, departures: bool) -> dict[str, object]:
    made: dict[str, object] = {"pairs": found.pairs, "terms": [_plain(term) for term in found.terms]}
    if departures:
        made["departures"] = [asdict(departure) for departure in found.departures]
    return made


def _plain(term: Term) -> dict[str, object]:
    return asdict(term) | {"first": term.first.isoformat(), "last": term.last.isoformat()}


def _csv(columns: Sequence[str], rows: list[list[str]]) -> Iterator[str]:
    for row in (columns, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()
