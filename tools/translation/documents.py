"""Division of running text into paragraphs, and placement of tags in their translations.

Plain text is divided at line ends, HTML at block elements.
"""

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import NamedTuple

from hierogram.daemon.text.protected_spans import TAG, ProtectedSpan, find_protected
from hierogram.samplers.grammar.rules import Span
from hierogram.tools.translation.fixed_words import MARKED, marked_choices

TEXT, HTML = "text", "html"


class AttachedTag(str):
    """Markup without words that is attached to the word before it, such as a footnote mark."""


@dataclass
class TagPair:
    """Opening and closing tag, their positions in the paragraph's text, and the tag pairs inside them.

    Markup without words, such as a comment, is a pair with an empty `closing`.
    """

    opening: str
    closing: str
    start: int
    end: int = 0
    inside: "list[TagPair]" = field(default_factory=list)


@dataclass
class Paragraph:
    """Unit of text to translate, without paired tags. In NFC except for kept spans.

    `kept` contains the spans that the grammar does not translate. `given` maps the starts of some of these spans to
    their given translations. `tag_pairs` contains the outermost paired tags, and markup without words.
    """

    text: str
    kept: list[ProtectedSpan] = field(default_factory=list)
    tag_pairs: list[TagPair] = field(default_factory=list)
    given: dict[int, list[str]] = field(default_factory=dict)
    is_html: bool = False

    def escape(self, text: str) -> str:
        """Escape a text if the document is HTML."""
        return html.escape(text, quote=False) if self.is_html else text

    def original(self, start: int, end: int) -> str:
        """Return a span of the text untranslated, with kept spans as written in the document."""
        out = ""
        for span in self.kept:
            if start <= span.start and span.end <= end:
                out += self.escape(self.text[start : span.start]) + span.written
                start = span.end
        return out + self.escape(self.text[start:end])


Part = str | Paragraph


def divide(text: str, format: str, markup: bool = False) -> list[Part]:
    """Divide a text into paragraphs and the strings between them. `markup` parses given translations."""
    parts: list[Part] = []
    if format == HTML:
        for is_block, group in groupby(_html_pieces(text, markup), lambda piece: piece.kind == _BLOCK):
            pieces = list(group)
            parts += [piece.written for piece in pieces] if is_block else _paragraphs(pieces, is_html=True)
        return parts
    for number, line in enumerate(_LINE_END.split(text)):
        if number % 2 or not line:
            parts.append(line)
        else:
            parts += _paragraphs(list(_pieces(line, markup)), is_html=False)
    return parts


_LINE_END = re.compile("(\r\n|[\n\r\v\f\u0085\u2028\u2029])")
_TEXT, _OPEN, _CLOSE, _KEPT, _GIVEN, _BLOCK = range(6)


class _Piece(NamedTuple):
    """Piece of a document: text, tag, kept markup, words with given translations, or paragraph boundary."""

    kind: int
    written: str
    name: str = ""
    given: tuple[str, ...] = ()


def _pieces(text: str, markup: bool) -> Iterator[_Piece]:
    position = 0
    for match in (*(MARKED if markup else TAG).finditer(text), None):
        between = text[position : match.start() if match else len(text)]
        yield from _pieces(between, False) if markup else [_Piece(_TEXT, between)]
        if match:
            yield _given(match) if markup else _tag(match)
            position = match.end()


def _given(match: re.Match[str]) -> _Piece:
    return _Piece(_GIVEN, match["inside"], given=tuple(marked_choices(match)))


def _tag(match: re.Match[str]) -> _Piece:
    name = match["name"].lower()
    if match["empty"] or (name in _VOID and not match["close"]):
        return _Piece(_KEPT, match.group(), name)
    return _Piece(_CLOSE if match["close"] else _OPEN, match.group(), name)


def _paragraphs(pieces: list[_Piece], is_html: bool) -> Iterator[Part]:
    partner = _partners(pieces)
    depth, start = 0, 0
    for k, piece in enumerate(pieces):
        if piece.kind in (_OPEN, _CLOSE):
            if k in partner:
                depth += 1 if piece.kind == _OPEN else -1
            elif is_html and not depth:
                yield from _paragraph(pieces, start, k, partner, is_html)
                yield piece.written
                start = k + 1
    yield from _paragraph(pieces, start, len(pieces), partner, is_html)


def _partners(pieces: list[_Piece]) -> dict[int, int]:
    partner: dict[int, int] = {}
    opened: list[int] = []
    for k, piece in enumerate(pieces):
        if piece.kind == _OPEN:
            opened.append(k)
        elif piece.kind == _CLOSE:
            for index in range(len(opened) - 1, -1, -1):
                if pieces[opened[index]].name == piece.name:
                    partner[k], partner[opened[index]] = opened[index], k
                    del opened[index:]
                    break
    return partner


def _paragraph(pieces: list[_Piece], start: int, end: int, partner: dict[int, int], is_html: bool) -> Iterator[Part]:
    paragraph = Paragraph("", is_html=is_html)
    opened: list[TagPair] = []
    attached: list[TagPair] = []
    tagged = closed = reopened = False
    k = start
    while k < end:
        piece, position = pieces[k], len(paragraph.text)
        siblings = opened[-1].inside if opened else paragraph.tag_pairs
        after = partner[k] + 1 if k in partner and piece.kind == _OPEN else k + 1
        if _has_no_words(pieces, k, after, partner, paragraph.text):
            attached.append(TagPair("".join(inner.written for inner in pieces[k:after]), "", position, position))
            siblings.append(attached[-1])
            tagged |= piece.kind == _OPEN
            k = after
            continue
        if piece.kind == _TEXT:
            text = unicodedata.normalize("NFC", html.unescape(piece.written) if is_html else piece.written)
            if _lacks_space(paragraph.text, text, tagged, reopened):
                paragraph.text += " "
                position += 1
            tagged = closed = reopened = False
            paragraph.kept += [
                ProtectedSpan(position + span.start, position + span.end, paragraph.escape(span.written))
                for span in find_protected(text, tags=False)
            ]
            paragraph.text += text
        elif k in partner and piece.kind == _OPEN:
            pair = TagPair(piece.written, pieces[partner[k]].written, position)
            siblings.append(pair)
            opened.append(pair)
            reopened |= closed and piece.name != "rb"
            tagged = True
        elif k in partner:
            opened.pop().end = position
            tagged = closed = True
        else:
            paragraph.kept.append(ProtectedSpan(position, position + len(piece.written), piece.written))
            if piece.kind == _GIVEN:
                paragraph.given[position] = list(piece.given)
            paragraph.text += piece.written
            tagged = closed = reopened = False
        k += 1
    for pair in attached:
        before, following = paragraph.text[pair.start - 1 : pair.start], paragraph.text[pair.start : pair.start + 1]
        if following.isspace() or (before and not before.isspace()):
            pair.opening = AttachedTag(pair.opening)
    if paragraph.text or paragraph.tag_pairs:
        yield paragraph


_MARK = re.compile(
    r"\s*(?:[\[(]\s*(?:\w+\s)?\w{1,4}(?:\s*[,;–-]\s*\w{1,4})*\s*[\])]|\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*|[^\w\s]{1,3})\s*"
)
"""Footnote mark: `1`, `[2]`, `[note 3]`, `4, 5`, `*`."""
_LETTER_MARK = re.compile(r"\s*[^\W\d_]\s*")
"""Footnote mark that is a letter. Directly after a word or number, it is an ordinal ending instead."""
_READINGS = frozenset(("rt", "rtc", "rp"))
"""Elements that contain the pronunciation of the text before them."""


def _has_no_words(pieces: list[_Piece], start: int, end: int, partner: dict[int, int], before: str) -> bool:
    """Check if an element has no words to translate, such as a comment, footnote mark or pronunciation."""
    first = pieces[start]
    if end == start + 1:
        return first.kind == _KEPT and (first.name == "wbr" or first.written.startswith("<!"))
    if first.name in _READINGS:
        return True
    inside = pieces[start + 1 : end - 1]
    if first.name == "sup":
        text = "".join(piece.written for piece in inside if piece.kind == _TEXT)
        is_mark = _MARK.fullmatch(text) or (_LETTER_MARK.fullmatch(text) and not before[-1:].isalnum())
        return bool(is_mark) and all(piece.kind in (_TEXT, _OPEN, _CLOSE) for piece in inside)
    # Other elements have no words if they are empty or contain only such elements, like a link around a footnote mark.
    k, has_parts = start + 1, not inside
    while k < end - 1:
        after = partner[k] + 1 if k in partner and pieces[k].kind == _OPEN else k + 1
        is_blank = pieces[k].kind == _TEXT and not pieces[k].written.strip()
        if not is_blank:
            if not _has_no_words(pieces, k, after, partner, before):
                return False
            has_parts = True
        k = after
    return has_parts


def _lacks_space(before: str, text: str, tagged: bool, reopened: bool) -> bool:
    """Check if a space is missing before text, between two menu entries or after the end of a sentence."""
    if reopened and before[-1:].isalnum() and text[:1].isalnum():
        return True
    return tagged and before[-1:] in tuple(".!?…") and text[:1].isalpha() and not text[:1].islower()


def _names(line: str) -> frozenset[str]:
    return frozenset(line.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_INLINE = _names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark meter output progress "
    "q ruby rb rp rt s samp small span strike strong sub sup time tt u var wbr x g ph it bpt ept"
)
_VERBATIM = _names(
    "script style pre textarea svg math code kbd samp var iframe object canvas video audio template noscript"
)
_HTML_PIECE = re.compile(
    r"<!--.*?(?:-->|$)|<[!?][^>]*>"
    r"|<(?P<close>/)?(?P<name>[A-Za-z][\w:.-]*)"
    r"(?P<rest>(?:\s+[^\s<>\"'=/]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>\"'=]+))?)*\s*)(?P<empty>/)?>",
    re.DOTALL,
)
_NOT_TRANSLATED = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)""",
    re.IGNORECASE,
)


def _html_pieces(text: str, markup: bool) -> Iterator[_Piece]:
    """Yield the pieces of HTML. Inline tags belong to paragraphs. All other tags separate paragraphs."""
    position = 0
    while match := (_MARKED_OR_PIECE if markup else _HTML_PIECE).search(text, position):
        if position < match.start():
            yield _Piece(_TEXT, text[position : match.start()])
        position = match.end()
        if markup and match["given"] is not None:
            yield _given(match)
            continue
        name = (match["name"] or "").lower()
        if not name:
            # Comments and declarations have no name.
            yield _Piece(_KEPT, match.group())
        elif name in _VERBATIM or _NOT_TRANSLATED.search(match["rest"]):
            if not match["close"] and not match["empty"] and name not in _VOID:
                position = _element_end(text, name, position)
            yield _Piece(_KEPT if name in _INLINE else _BLOCK, text[match.start() : position])
        else:
            yield _tag(match) if name in _INLINE else _Piece(_BLOCK, match.group())
    if position < len(text):
        yield _Piece(_TEXT, text[position:])


_MARKED_OR_PIECE = re.compile(
    MARKED.pattern.replace("(?P<tag>", "(?P<mark>").replace("(?P=tag)", "(?P=mark)") + "|" + _HTML_PIECE.pattern,
    re.DOTALL,
)


def _element_end(text: str, name: str, position: int) -> int:
    """Return the end of the element that begins before `position`. An unclosed element ends with the text."""
    depth = 1
    for match in re.finditer(rf"<(/)?{re.escape(name)}(?=[\s/>])[^>]*>", text[position:], re.IGNORECASE):
        if not match.group().endswith("/>"):
            depth += -1 if match[1] else 1
            if depth == 0:
                return position + match.end()
    return len(text)


PlacedItem = int | str
"""Position of a target word, or a tag."""


def place_tags(
    pairs: Sequence[TagPair], text_spans: Sequence[Span], links: Sequence[tuple[int, int]], word_count: int
) -> Iterator[PlacedItem]:
    """Yield positions of target words with the paragraph's tags between them, nested as in the source."""
    linked: list[list[int]] = [[] for _ in text_spans]
    for i, j in links:
        linked[i].append(j)
    starts, ends = [start for start, _ in text_spans], [end for _, end in text_spans]

    def source_span(pair: TagPair) -> Span:
        first = bisect_right(ends, pair.start)
        return first, max(first, bisect_left(starts, pair.end))

    def inside(pairs: Sequence[TagPair], around: Span, within: Span) -> Iterator[PlacedItem]:
        """Yield positions of `within`, the translation of the source span `around`, with tags between them."""
        sources = [source_span(pair) for pair in pairs]
        targets = _spans(sources, around, linked, within)
        position = within[0]
        for number in sorted(range(len(pairs)), key=lambda k: (*targets[k], k)):
            pair, (start, end) = pairs[number], targets[number]
            yield from range(position, start)
            yield pair.opening
            yield from inside(pair.inside, sources[number], (start, end))
            yield pair.closing
            position = end
        yield from range(position, within[1])

    return inside(pairs, (0, len(text_spans)), (0, word_count))


def _spans(sources: Sequence[Span], around: Span, linked: Sequence[Sequence[int]], within: Span) -> list[Span]:
    """Return disjoint target spans of source spans. A target word belongs to the span with the most links."""
    votes: dict[int, Counter[int]] = {}
    for number, (first, last) in enumerate(sources):
        if (first, last) == around and first < last:
            # A tag around all source words is placed around all target words, and the other tags before or after it.
            return [within if k == number else (within[k > number],) * 2 for k in range(len(sources))]
        for word in range(first, last):
            for target in linked[word]:
                if within[0] <= target < within[1]:
                    votes.setdefault(target, Counter())[number] += 1
    owner = {target: max(source_votes, key=lambda k: (source_votes[k], -k)) for target, source_votes in votes.items()}
    spans = [_longest(owner, number) for number in range(len(sources))]
    occupied = [span for span in spans if span]
    return [span or _empty_span(source, linked, within, occupied) for source, span in zip(sources, spans, strict=True)]


def _longest(owner: dict[int, int], number: int) -> Span | None:
    """Return the longest run of the target words of span `number`, uninterrupted by other spans."""
    runs = [list(run) for key, run in groupby(sorted(owner), owner.get) if key == number]
    best = max(runs, key=len, default=None)
    return (best[0], best[-1] + 1) if best else None


def _empty_span(source: Span, linked: Sequence[Sequence[int]], within: Span, occupied: Sequence[Span]) -> Span:
    # Prefer the position after the translation of the nearest linked word before the tag.
    before = (target + 1 for word in range(source[0] - 1, -1, -1) for target in sorted(linked[word], reverse=True))
    after = (target for word in range(source[1], len(linked)) for target in linked[word])
    position = next((place for place in chain(before, after) if within[0] <= place <= within[1]), within[0])
    for start, end in occupied:
        if start < position < end:
            position = end
    return position, position
