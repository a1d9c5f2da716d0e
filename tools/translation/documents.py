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
from enum import Enum, auto
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
    """Unit of text to translate, without paired tags and entities. In NFC except for kept spans.

    `kept` contains the spans that the grammar does not translate. `given` maps the starts of some of these spans to
    their given translations. `tag_pairs` contains the outermost paired tags, and markup without words.
    """

    text: str
    kept: list[ProtectedSpan] = field(default_factory=list)
    tag_pairs: list[TagPair] = field(default_factory=list)
    given: dict[int, list[str]] = field(default_factory=dict)
    is_html: bool = False

    def escape(self, text: str) -> str:
        """Return a text, escaped if the document is HTML."""
        return html.escape(text, quote=False) if self.is_html else text

    def original(self, start: int, end: int) -> str:
        """Return characters `start` to `end` of the text as in the document, except for paired tags."""
        out = ""
        for span in self.kept:
            if start <= span.start and span.end <= end:
                out += self.escape(self.text[start : span.start]) + span.written
                start = span.end
        return out + self.escape(self.text[start:end])


DocumentPart = str | Paragraph
"""Paragraph, or text between paragraphs, which is copied to the output: line ends, block tags."""


def divide_document(text: str, format: str, markup: bool = False) -> list[DocumentPart]:
    """Divide a text into paragraphs and the strings between them. `markup` parses given translations."""
    parts: list[DocumentPart] = []
    if format == HTML:
        for is_block, group in groupby(_html_pieces(text, markup), lambda piece: piece.kind is _PieceKind.BLOCK):
            pieces = list(group)
            parts += [piece.written for piece in pieces] if is_block else _paragraphs(pieces, is_html=True)
        return parts
    for number, line in enumerate(_LINE_END.split(text)):
        if number % 2 or not line:
            parts.append(line)
        else:
            parts += _paragraphs(list(_text_pieces(line, markup)), is_html=False)
    return parts


_LINE_END = re.compile("(\r\n|[\n\r\v\f\u0085\u2028\u2029])")


class _PieceKind(Enum):
    TEXT = auto()
    OPEN = auto()
    CLOSE = auto()
    KEPT = auto()
    """Markup that is copied as one token: an empty tag, a comment, or an element that is not translated."""
    GIVEN = auto()
    BLOCK = auto()
    """Tag or element that separates paragraphs."""


class _Piece(NamedTuple):
    """Piece of a document as written, with the lowercase name of its element, and given translations."""

    kind: _PieceKind
    written: str
    name: str = ""
    given: tuple[str, ...] = ()


def _text_pieces(text: str, markup: bool) -> Iterator[_Piece]:
    position = 0
    for match in (*(MARKED if markup else TAG).finditer(text), None):
        between = text[position : match.start() if match else len(text)]
        yield from _text_pieces(between, False) if markup else [_Piece(_PieceKind.TEXT, between)]
        if match:
            yield _make_given_piece(match) if markup else _make_tag_piece(match)
            position = match.end()


def _make_given_piece(match: re.Match[str]) -> _Piece:
    return _Piece(_PieceKind.GIVEN, match["inside"], given=tuple(marked_choices(match)))


def _make_tag_piece(match: re.Match[str]) -> _Piece:
    name = match["name"].lower()
    if match["empty"] or (name in _VOID and not match["close"]):
        return _Piece(_PieceKind.KEPT, match.group(), name)
    return _Piece(_PieceKind.CLOSE if match["close"] else _PieceKind.OPEN, match.group(), name)


def _paragraphs(pieces: list[_Piece], is_html: bool) -> Iterator[DocumentPart]:
    """Yield paragraphs, and HTML tags without a partner, which separate paragraphs."""
    partner = _find_partners(pieces)
    depth, start = 0, 0
    for k, piece in enumerate(pieces):
        if piece.kind in (_PieceKind.OPEN, _PieceKind.CLOSE):
            if k in partner:
                depth += 1 if piece.kind is _PieceKind.OPEN else -1
            elif is_html and not depth:
                yield from _paragraph(pieces, start, k, partner, is_html)
                yield piece.written
                start = k + 1
    yield from _paragraph(pieces, start, len(pieces), partner, is_html)


def _find_partners(pieces: list[_Piece]) -> dict[int, int]:
    partner: dict[int, int] = {}
    opened: list[int] = []
    for k, piece in enumerate(pieces):
        if piece.kind is _PieceKind.OPEN:
            opened.append(k)
        elif piece.kind is _PieceKind.CLOSE:
            for index in range(len(opened) - 1, -1, -1):
                if pieces[opened[index]].name == piece.name:
                    partner[k], partner[opened[index]] = opened[index], k
                    del opened[index:]
                    break
    return partner


def _paragraph(
    pieces: list[_Piece], start: int, end: int, partner: dict[int, int], is_html: bool
) -> Iterator[Paragraph]:
    paragraph = Paragraph("", is_html=is_html)
    opened: list[TagPair] = []
    without_words: list[TagPair] = []
    # True if a tag, a closing tag, or an opening after a closing tag follows the last text.
    tagged = closed = reopened = False
    k = start
    while k < end:
        piece, position = pieces[k], len(paragraph.text)
        siblings = opened[-1].inside if opened else paragraph.tag_pairs
        after = _element_stop(pieces, k, partner)
        if _has_no_words(pieces, k, after, partner, paragraph.text):
            without_words.append(TagPair("".join(inner.written for inner in pieces[k:after]), "", position, position))
            siblings.append(without_words[-1])
            tagged |= piece.kind is _PieceKind.OPEN
            k = after
            continue
        if piece.kind is _PieceKind.TEXT:
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
        elif k in partner and piece.kind is _PieceKind.OPEN:
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
            if piece.kind is _PieceKind.GIVEN:
                paragraph.given[position] = list(piece.given)
            paragraph.text += piece.written
            tagged = closed = reopened = False
        k += 1
    for pair in without_words:
        before, following = paragraph.text[pair.start - 1 : pair.start], paragraph.text[pair.start : pair.start + 1]
        if following.isspace() or (before and not before.isspace()):
            pair.opening = AttachedTag(pair.opening)
    if paragraph.text or paragraph.tag_pairs:
        yield paragraph


def _element_stop(pieces: list[_Piece], start: int, partner: dict[int, int]) -> int:
    return partner[start] + 1 if start in partner and pieces[start].kind is _PieceKind.OPEN else start + 1


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
        return first.kind is _PieceKind.KEPT and (first.name == "wbr" or first.written.startswith("<!"))
    if first.name in _READINGS:
        return True
    inside = pieces[start + 1 : end - 1]
    if first.name == "sup":
        text = "".join(piece.written for piece in inside if piece.kind is _PieceKind.TEXT)
        is_mark = _MARK.fullmatch(text) or (_LETTER_MARK.fullmatch(text) and not before[-1:].isalnum())
        plain_kinds = (_PieceKind.TEXT, _PieceKind.OPEN, _PieceKind.CLOSE)
        return bool(is_mark) and all(piece.kind in plain_kinds for piece in inside)
    # Other elements have no words if they are empty or contain only such elements, like a link around a footnote mark.
    k, has_parts = start + 1, not inside
    while k < end - 1:
        after = _element_stop(pieces, k, partner)
        is_blank = pieces[k].kind is _PieceKind.TEXT and not pieces[k].written.strip()
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


def _element_names(line: str) -> frozenset[str]:
    return frozenset(line.split())


_VOID = _element_names("area base br col embed hr img input link meta param source track wbr")
"""Elements without a closing tag."""
_INLINE = _element_names(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark meter output progress "
    "q ruby rb rp rt s samp small span strike strong sub sup time tt u var wbr x g ph it bpt ept"
)
"""Elements inside paragraphs, from HTML and XLIFF."""
_VERBATIM = _element_names(
    "script style pre textarea svg math code kbd samp var iframe object canvas video audio template noscript"
)
"""Elements whose content is not translated."""
_HTML_PIECE = re.compile(
    r"<!--.*?(?:-->|$)|<[!?][^>]*>"
    r"|<(?P<close>/)?(?P<name>[A-Za-z][\w:.-]*)"
    r"(?P<attributes>(?:\s+[^\s<>\"'=/]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>\"'=]+))?)*\s*)(?P<empty>/)?>",
    re.DOTALL,
)
_NOT_TRANSLATED = re.compile(
    r"""\stranslate\s*=\s*["']?no\b|\sclass\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)""",
    re.IGNORECASE,
)


def _html_pieces(text: str, markup: bool) -> Iterator[_Piece]:
    """Yield the pieces of HTML. Inline tags belong to paragraphs. All other tags separate paragraphs."""
    pattern = _MARKED_OR_PIECE if markup else _HTML_PIECE
    position = 0
    while match := pattern.search(text, position):
        if position < match.start():
            yield _Piece(_PieceKind.TEXT, text[position : match.start()])
        position = match.end()
        if markup and match["given"] is not None:
            yield _make_given_piece(match)
            continue
        name = (match["name"] or "").lower()
        if not name:
            # Comments and declarations have no name.
            yield _Piece(_PieceKind.KEPT, match.group())
        elif name in _VERBATIM or _NOT_TRANSLATED.search(match["attributes"]):
            if not match["close"] and not match["empty"] and name not in _VOID:
                position = _element_end(text, name, position)
            kind = _PieceKind.KEPT if name in _INLINE else _PieceKind.BLOCK
            yield _Piece(kind, text[match.start() : position])
        else:
            yield _make_tag_piece(match) if name in _INLINE else _Piece(_PieceKind.BLOCK, match.group())
    if position < len(text):
        yield _Piece(_PieceKind.TEXT, text[position:])


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
"""Position of a target word, or a tag (possibly empty, or an `AttachedTag`)."""


def place_tags(
    pairs: Sequence[TagPair], text_spans: Sequence[Span], links: Sequence[tuple[int, int]], word_count: int
) -> Iterator[PlacedItem]:
    """Yield positions of target words with the paragraph's tags between them, nested as in the source."""
    linked: list[list[int]] = [[] for _ in text_spans]
    for i, j in links:
        linked[i].append(j)
    starts, ends = [start for start, _ in text_spans], [end for _, end in text_spans]

    def find_source_span(pair: TagPair) -> Span:
        first = bisect_right(ends, pair.start)
        return first, max(first, bisect_left(starts, pair.end))

    def place_inside(pairs: Sequence[TagPair], source: Span, target: Span) -> Iterator[PlacedItem]:
        """Yield positions of `target`, the translation of the source span `source`, with tags between them."""
        sources = [find_source_span(pair) for pair in pairs]
        targets = _target_spans(sources, source, linked, target)
        position = target[0]
        for number in sorted(range(len(pairs)), key=lambda k: (*targets[k], k)):
            pair, (start, end) = pairs[number], targets[number]
            yield from range(position, start)
            yield pair.opening
            yield from place_inside(pair.inside, sources[number], (start, end))
            yield pair.closing
            position = end
        yield from range(position, target[1])

    return place_inside(pairs, (0, len(text_spans)), (0, word_count))


def _target_spans(
    sources: Sequence[Span], outer_source: Span, linked: Sequence[Sequence[int]], outer_target: Span
) -> list[Span]:
    """Return disjoint target spans of sibling tags. A target word belongs to the tag with the most links."""
    votes: dict[int, Counter[int]] = {}
    for number, (first, last) in enumerate(sources):
        if (first, last) == outer_source and first < last:
            # A tag around all source words is placed around all target words, and the other tags before or after it.
            return [outer_target if k == number else (outer_target[k > number],) * 2 for k in range(len(sources))]
        for word in range(first, last):
            for target in linked[word]:
                if outer_target[0] <= target < outer_target[1]:
                    votes.setdefault(target, Counter())[number] += 1
    owner = {target: max(source_votes, key=lambda k: (source_votes[k], -k)) for target, source_votes in votes.items()}
    spans = [_longest_run(owner, number) for number in range(len(sources))]
    occupied = [span for span in spans if span]
    return [
        span or _empty_span(source, linked, outer_target, occupied) for source, span in zip(sources, spans, strict=True)
    ]


def _longest_run(owner: dict[int, int], number: int) -> Span | None:
    runs = [list(run) for key, run in groupby(sorted(owner), owner.get) if key == number]
    best = max(runs, key=len, default=None)
    return (best[0], best[-1] + 1) if best else None


def _empty_span(source: Span, linked: Sequence[Sequence[int]], outer_target: Span, occupied: Sequence[Span]) -> Span:
    """Return an empty target span for a source span without links, outside the `occupied` spans."""
    # Prefer the position after the translation of the nearest linked word before the tag.
    before = (target + 1 for word in range(source[0] - 1, -1, -1) for target in sorted(linked[word], reverse=True))
    after = (target for word in range(source[1], len(linked)) for target in linked[word])
    in_order = (position for position in chain(before, after) if outer_target[0] <= position <= outer_target[1])
    position = next(in_order, outer_target[0])
    for start, end in occupied:
        if start < position < end:
            position = end
    return position, position
