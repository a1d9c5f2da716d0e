"""Moses' hierarchical rule table, sorted as its tools want it, and its glue grammar.

The first four scores are p(f|e) lex(f|e) p(e|f) lex(e|f). Moses takes the logarithm of every score, so values that are
no probabilities and no counts are written as powers of e. The field of counts has those of the target side, the source
side and the rule. `|`, `[` and `]` in words are written as Moses' own tokenizer escapes them.
"""

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import (
    DEFAULT_WEIGHTS,
    FEATURES,
    GLUE,
    LM,
    NONTERMINAL,
    POPS,
    RULES,
    SPAN,
    UNKNOWN,
    WORDS,
    Chosen,
    ConfigurationFile,
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

SCORES = ("p_source_given_target", "lex_source_given_target", "p_target_given_source", "lex_target_given_source")
"""The scores that rule tables of other programs have."""


def _side(side: str) -> str:
    escaped = f"replace(replace(replace({word('x')}, '|', '&#124;'), '[', '&#91;'), ']', '&#93;')"
    slow = mapped(side, escaped, f"'{_GAP}'")
    quick = f"CASE WHEN nonterminals = 0 THEN {side} ELSE regexp_replace({side}, '{NONTERMINAL}', '{_GAP}', 'g') END"
    return f"CASE WHEN {is_plain(side, '|' + chr(92))} THEN {quick} ELSE {slow} END || ' [X]'"


def _line(features: Chosen) -> str:
    scores = spaced(*(plain(own.name if own.logarithmic else f"exp({own.name})") for own in features))
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


_UNKNOWN_VALUE = -100
"""What Moses has for a word that no rule translates."""


def _configure(grammar: str | None, glue: str, features: Chosen) -> list[ConfigurationFile]:
    """Return `moses.ini`, the weights in it; without a language model, which the caller adds."""
    table = "PhraseDictionaryMemory name=TranslationModel{} num-features={} path={} input-factor=0 output-factor=0"
    lines = [
        *("[input-factors]", "0", "", "[mapping]", "0 T 0", "1 T 1", ""),
        *("[cube-pruning-pop-limit]", str(POPS), "", "[non-terminals]", "X", "", "[search-algorithm]", "3", ""),
        *("[inputtype]", "3", "", "[max-chart-span]", str(SPAN), "1000", ""),
        *("[feature]", "UnknownWordPenalty", "WordPenalty", "PhrasePenalty"),
        table.format(0, len(features), grammar),
        table.format(1, 1, glue),
        *("", "[weight]"),
        f"UnknownWordPenalty0= {DEFAULT_WEIGHTS[UNKNOWN] / _UNKNOWN_VALUE:.6g}",
        f"WordPenalty0= {-DEFAULT_WEIGHTS[WORDS]:.6g}",
        f"PhrasePenalty0= {DEFAULT_WEIGHTS[RULES]:.6g}",
        f"TranslationModel0= {' '.join(f'{DEFAULT_WEIGHTS.get(own.name, 0.0):.6g}' for own in features)}",
        f"TranslationModel1= {DEFAULT_WEIGHTS[GLUE]:.6g}",
        *("", f"# of a language model: LM0= {DEFAULT_WEIGHTS[LM]:.6g}"),
    ]
    return [(".ini", lines)]


MOSES = Format(
    name="moses",
    meaning="rule table of Moses, in the order of LC_ALL=C sort, with its glue grammar",
    suffix=".moses",
    compression=Compression.GZIP,
    features=(*SCORES, *(own.name for own in FEATURES if own.name not in (*SCORES, "glue"))),
    line=_line,
    read=_read,
    order="line",
    configure=_configure,
    glue=lambda _: [
        "<s> [X] ||| <s> [S] ||| 1 ||| 0-0 ||| 0",
        "[X][S] </s> [X] ||| [X][S] </s> [S] ||| 1 ||| 0-0 1-1 ||| 0",
        "[X][S] [X][X] [X] ||| [X][S] [X][X] [S] ||| 2.718 ||| 0-0 1-1 ||| 0",
    ],
    alignments=True,
)
