"""Terms as TBX-Basic, the terminologists' exchange format [ISO 30042:2019], with data categories as attributes."""

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from hierogram.daemon.terms.records import Term, Terms

NAMESPACE = "urn:iso:std:iso:30042:ed-2"
UNKNOWN = ("x-source", "x-target")
"""Private tags [BCP 47] of languages that nobody named."""

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<tbx type="TBX-Basic" style="dca" xml:lang={language} xmlns="{namespace}">
  <tbxHeader>
    <fileDesc>
      <sourceDesc><p>{origin}</p></sourceDesc>
    </fileDesc>
  </tbxHeader>
  <text>
    <body>
"""
_FOOT = "    </body>\n  </text>\n</tbx>\n"
_SECTION = """        <langSec xml:lang={language}>
          <termSec>
            <term>{term}</term>
            <note>{note}</note>
          </termSec>
        </langSec>
"""


def tbx_of(found: Terms, languages: tuple[str, ...], store: str) -> Iterator[str]:
    """The document, piece by piece."""
    names = languages or found.languages or UNKNOWN
    tags = [name.replace("_", "-") for name in names]
    origin = f"{len(found.terms)} terms of {found.pairs} pairs of {store}, by hierogram"
    # The language of the notes.
    yield _HEAD.format(language=quoteattr("en"), namespace=NAMESPACE, origin=_text(origin))
    for number, term in enumerate(found.terms, 1):
        yield f'      <conceptEntry id="t{number}">\n'
        yield _section(tags[0], term.source, f"in {term.source_pairs} pairs, from {term.first} to {term.last}")
        yield _section(tags[1], term.target, _usage(term))
        yield "      </conceptEntry>\n"
    yield _FOOT


def _section(language: str, term: str, note: str) -> str:
    return _SECTION.format(language=quoteattr(language), term=_text(term), note=_text(note))


def _usage(term: Term) -> str:
    others = "".join(f"; {other.text}: {other.pairs}" for other in term.renderings[1:])
    return f"in {term.pairs} of these pairs{others}"


def _text(text: str) -> str:
    """The text as XML, with U+FFFD in the place of characters that XML does not have."""
    return escape("".join(letter if _is_letter(ord(letter)) else "\ufffd" for letter in text))


def _is_letter(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
