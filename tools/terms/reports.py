"""Terms as they are reported: records, lines of a table, JSON, and TBX-Basic, the terminologists' exchange format.

TBX-Basic 2 [ISO 30042:2008] is `martif`, with a `termEntry` for a concept and a `tig` for a term; TBX-Basic 3
[ISO 30042:2019] is `tbx`, with `conceptEntry` and `termSec`, and data categories as attributes (DCA).
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import NamedTuple

from hierogram.daemon.text.texts import TextPipeline
from hierogram.daemon.xml_text import xml_attribute, xml_text
from hierogram.tools.terms.options import BASIC_2, BASIC_3, CSV, GLOSSARY, JSON, TBX
from hierogram.tools.translation.fixed_words import TOKENS_LINE


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

    def as_text(self, texts: TextPipeline) -> "Terms":
        """Return the same as people write it, where the store divides text: `aujourd'hui`, not `aujourd' hui`."""
        source, target = texts.source.written, texts.target.written
        terms = tuple(
            replace(
                term,
                source=source(term.source),
                target=target(term.target),
                renderings=tuple(replace(one, text=target(one.text)) for one in term.renderings),
            )
            for term in self.terms
        )
        departures = tuple(
            replace(
                one,
                term=source(one.term),
                usual=target(one.usual),
                rendering=GAP.join(map(target, one.rendering.split(GAP))),
                source=source(one.source),
                target=target(one.target),
            )
            for one in self.departures
        )
        return replace(self, terms=terms, departures=departures)


GAP = " … "
"""Stands for words between those that a term is linked to."""


NAMESPACE = "urn:iso:std:iso:30042:ed-2"
UNKNOWN = ("x-source", "x-target")
"""Private tags [BCP 47] of languages that nobody named."""


class _Dialect(NamedTuple):
    """The frame of a document, `{language}` and `{origin}` to be filled in, and the elements of a concept."""

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
    """Yield the document, piece by piece."""
    names = languages or found.languages or UNKNOWN
    tags = [name.replace("_", "-") for name in names]
    origin = f"{len(found.terms)} terms of {found.pairs} pairs of {store}, by hierogram"
    form = _DIALECTS[dialect]
    # The language of the notes.
    yield form.head.format(language=xml_attribute("en"), origin=xml_text(origin))
    for number, term in enumerate(found.terms, 1):
        yield f'      <{form.concept} id="t{number}">\n'
        yield _section(form, tags[0], term.source, f"in {term.source_pairs} pairs, from {term.first} to {term.last}")
        others = "".join(f"; {other.text}: {other.pairs}" for other in term.renderings[1:])
        yield _section(form, tags[1], term.target, f"in {term.pairs} of these pairs{others}")
        yield f"      </{form.concept}>\n"
    yield form.foot


def _section(form: _Dialect, language: str, term: str, note: str) -> str:
    return (
        f"        <{form.language} xml:lang={xml_attribute(language)}>\n"
        f"          <{form.term}>\n"
        f"            <term>{xml_text(term)}</term>\n"
        f"            <note>{xml_text(note)}</note>\n"
        f"          </{form.term}>\n"
        f"        </{form.language}>\n"
    )


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
    """Yield what is written in a format other than that for people; `languages` and `dialect` are for TBX."""
    if form == TBX:
        yield from tbx_of(found, languages, store, dialect)
    elif form == GLOSSARY:
        yield f"{TOKENS_LINE}\n"
        for term in found.terms:
            yield f"{term.source}\t{term.target}\n"
    elif form == JSON:
        shown = ("pairs", "terms", *(["departures"] if departures else []))
        made = {name: values for name, values in asdict(found).items() if name in shown}
        yield json.dumps(made, ensure_ascii=False, indent=2, default=date.isoformat) + "\n"
    else:
        for row in _cells(found, departures):
            line = io.StringIO()
            if form == CSV:
                csv.writer(line, lineterminator="\n").writerow(row)
            yield line.getvalue() if form == CSV else "\t".join(row) + "\n"


def shown_renderings(renderings: Sequence[Rendering]) -> str:
    """Return `breakfast: 54; lunch: 3`."""
    return "; ".join(f"{rendering.text}: {rendering.pairs}" for rendering in renderings)


def _cells(found: Terms, departures: bool) -> Iterator[Sequence[str]]:
    columns = DEPARTURE_COLUMNS if departures else TERM_COLUMNS
    yield columns
    for one in found.departures if departures else found.terms:
        values = asdict(one)
        if isinstance(one, Term):
            values["renderings"] = shown_renderings(one.renderings)
            values["corpora"] = "; ".join(f"{name}: {number}" for name, number in one.corpora.items())
        yield ["" if values[column] is None else str(values[column]) for column in columns]
