"""Term reports as TSV, CSV, JSON, glossary and TBX-Basic [ISO 30042:2008]."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date

from hierogram.daemon.text.pipeline import TextPipeline
from hierogram.tools.terms.options import CSV, GLOSSARY, JSON, TBX
from hierogram.tools.translation.fixed_words import TOKENS_LINE
from hierogram.tools.xml_text import UNKNOWN_LANGUAGES, xml_attribute, xml_text


@dataclass(frozen=True, slots=True)
class Rendering:
    """Rendering of a term, and the number of pairs with it."""

    text: str
    pairs: int

    def __str__(self) -> str:
        return f"{self.text}: {self.pairs}"


@dataclass(frozen=True, slots=True)
class Term:
    """Term with its usual rendering `target`.

    `pairs` is the number of pairs with the term and this rendering, `source_pairs` with the term, and `target_pairs`
    with the target phrase. `consistency` is `pairs / source_pairs`. `score` is `ratio` (−2 ln λ) times `cohesion`.
    `renderings` contains the most frequent renderings, the usual rendering first. `corpora` counts the pairs with the
    term by corpus. `first` and `last` are the dates on which the first and last of these pairs were added.
    """

    source: str
    target: str
    score: float
    pairs: int
    source_pairs: int
    target_pairs: int
    consistency: float
    ratio: float
    cohesion: float
    renderings: tuple[Rendering, ...]
    corpora: dict[str, int]
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Departure:
    """Pair that contains a term without its usual rendering.

    `rendering` is the text linked to the term: a phrase, words separated by `…`, or an empty string. `external_id` is
    the pair's own identifier, `origin` the input from which it was read.
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
class TermReport:
    """Number of searched pairs, best terms, departures in order of terms, and the store's languages."""

    pairs: int
    terms: tuple[Term, ...]
    departures: tuple[Departure, ...]
    languages: tuple[str, ...]

    def as_text(self, pipeline: TextPipeline) -> "TermReport":
        """Return the report with detokenized text: `aujourd'hui` instead of `aujourd' hui`."""
        source, target = pipeline.source.detokenize, pipeline.target.detokenize

        def term_as_text(term: Term) -> Term:
            renderings = tuple(Rendering(target(item.text), item.pairs) for item in term.renderings)
            return replace(term, source=source(term.source), target=target(term.target), renderings=renderings)

        def departure_as_text(item: Departure) -> Departure:
            rendering = GAP.join(map(target, item.rendering.split(GAP)))
            item = replace(item, term=source(item.term), usual=target(item.usual), rendering=rendering)
            return replace(item, source=source(item.source), target=target(item.target))

        terms, departures = map(term_as_text, self.terms), map(departure_as_text, self.departures)
        return replace(self, terms=tuple(terms), departures=tuple(departures))


GAP = " … "
"""Placeholder for unlinked words between the words of a rendering."""

_TBX_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<martif type="TBX-Basic" xml:lang="en">
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
"""
"""Header of a TBX document. `xml:lang` is the language of the notes."""
_TBX_FOOT = "    </body>\n  </text>\n</martif>\n"


def make_tbx(report: TermReport, languages: tuple[str, ...], store_url: str) -> Iterator[str]:
    """Yield a TBX document in pieces."""
    names = languages or report.languages or UNKNOWN_LANGUAGES
    tags = [name.replace("_", "-") for name in names]
    origin = f"{len(report.terms)} terms of {report.pairs} pairs of {store_url}, by hierogram"
    yield _TBX_HEAD.format(origin=xml_text(origin))
    for number, term in enumerate(report.terms, 1):
        yield f'      <termEntry id="t{number}">\n'
        yield _tbx_term(tags[0], term.source, f"in {term.source_pairs} pairs, from {term.first} to {term.last}")
        note = "; ".join((f"in {term.pairs} of these pairs", *map(str, term.renderings[1:])))
        yield _tbx_term(tags[1], term.target, note)
        yield "      </termEntry>\n"
    yield _TBX_FOOT


def _tbx_term(language: str, term: str, note: str) -> str:
    return (
        f"        <langSet xml:lang={xml_attribute(language)}>\n"
        "          <tig>\n"
        f"            <term>{xml_text(term)}</term>\n"
        f"            <note>{xml_text(note)}</note>\n"
        "          </tig>\n"
        "        </langSet>\n"
    )


def format_terms(
    report: TermReport, format: str, departures: bool, languages: tuple[str, ...], store_url: str
) -> Iterator[str]:
    """Yield the report in pieces, in any format but the table. `languages` and `store_url` are for TBX."""
    if format == TBX:
        yield from make_tbx(report, languages, store_url)
    elif format == GLOSSARY:
        yield f"{TOKENS_LINE}\n"
        for term in report.terms:
            yield f"{term.source}\t{term.target}\n"
    elif format == JSON:
        content = asdict(report)
        for name in ("languages",) if departures else ("departures", "languages"):
            del content[name]
        yield json.dumps(content, ensure_ascii=False, indent=2, default=date.isoformat) + "\n"
    elif format == CSV:
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows(_rows(report, departures))
        yield lines.getvalue()
    else:
        yield from ("\t".join(row) + "\n" for row in _rows(report, departures))


def _rows(report: TermReport, departures: bool) -> Iterator[Sequence[str]]:
    yield [field.name for field in fields(Departure if departures else Term)]
    for item in report.departures if departures else report.terms:
        values = asdict(item)
        if isinstance(item, Term):
            values["renderings"] = "; ".join(map(str, item.renderings))
            values["corpora"] = "; ".join(f"{name}: {number}" for name, number in item.corpora.items())
        yield ["" if value is None else str(value) for value in values.values()]
