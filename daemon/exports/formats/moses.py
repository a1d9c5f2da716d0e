"""Moses' hierarchical rule table, sorted as its tools want it, and its glue grammar.

Scores are probabilities p(f|e) lex(f|e) p(e|f) lex(e|f); the counts are those of the target side, the source side and
the rule. `|`, `[` and `]` in words are written as Moses' own tokenizer escapes them.
"""

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import (
    NONTERMINAL,
    Chosen,
    Format,
    ReadRule,
    concatenated,
    is_plain,
    links,
    mapped,
    plain,
    spaced,
    word,
)

_GAP = "[X][X]"
"""A nonterminal; which of the other side's it belongs to, the links say."""

_SCORES = ("p_source_given_target", "lex_source_given_target", "p_target_given_source", "lex_target_given_source")


def _side(side: str) -> str:
    escaped = f"replace(replace(replace({word('x')}, '|', '&#124;'), '[', '&#91;'), ']', '&#93;')"
    slow = mapped(side, escaped, f"'{_GAP}'")
    quick = f"CASE WHEN nonterminals = 0 THEN {side} ELSE regexp_replace({side}, '{NONTERMINAL}', '{_GAP}', 'g') END"
    return f"CASE WHEN {is_plain(side, '|' + chr(92))} THEN {quick} ELSE {slow} END || ' [X]'"


def _line(_: Chosen) -> str:
    scores = spaced(*map(plain, _SCORES))
    counts = spaced(*map(plain, ("target_count", "source_count", "count")))
    bars = "' ||| '"
    sides = (_side("source"), bars, _side("target"), bars)
    return concatenated(*sides, scores, bars, links("source", "target", "alignment"), bars, counts, "' ||| |||'")


def _read(line: str, _: Chosen) -> ReadRule:
    source, target, _scores, alignment, counts, _rest = line.split(" ||| ", 5)
    left, right = source.split(" ")[:-1], target.split(" ")[:-1]
    # A word may have several links, of which this keeps one; a nonterminal has one.
    linked = {int(i): int(j) for i, j in (link.split("-") for link in alignment.split())}
    for number, place in enumerate((i for i, symbol in enumerate(left) if symbol == _GAP), 1):
        left[place] = right[linked[place]] = f"[X,{number}]"
    return ReadRule(" ".join(left), " ".join(right), float(counts.split(" ")[2]))


MOSES = Format(
    name="moses",
    meaning="rule table of Moses, in the order of LC_ALL=C sort, with its glue grammar",
    suffix=".moses",
    compression=Compression.GZIP,
    features=_SCORES,
    line=_line,
    read=_read,
    fixed=True,
    order="line",
    glue=lambda _: [
        "<s> [X] ||| <s> [S] ||| 1 ||| 0-0 ||| 0",
        "[X][S] </s> [X] ||| [X][S] </s> [S] ||| 1 ||| 0-0 1-1 ||| 0",
        "[X][S] [X][X] [X] ||| [X][S] [X][X] [S] ||| 2.718 ||| 0-0 1-1 ||| 0",
    ],
    alignments=True,
)
