"""Terms, or the pairs that depart from them, as lines of a table, and as JSON."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from hierogram.daemon.decoding.fixed_words import TOKENS_LINE
from hierogram.daemon.terms.options import BASIC_2, CSV, GLOSSARY, JSON, TBX, TSV
from hierogram.daemon.terms.records import Departure, Rendering, Term, Terms
from hierogram.daemon.terms.tbx import tbx_of

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
