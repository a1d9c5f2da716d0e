"""Terms as TBX-Basic, the terminologists' exchange format, as most tools read it or as the newer standard has it.

TBX-Basic 2 [ISO 30042:2008] is `martif`, with a `termEntry` for a concept and a `tig` for a term; TBX-Basic 3
[ISO 30042:2019] is `tbx`, with `conceptEntry` and `termSec`, and data categories as attributes (DCA).
"""

from collections.abc import Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from hierogram.daemon.terms.options import BASIC_2, BASIC_3
from hierogram.daemon.terms.records import Term, Terms

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
