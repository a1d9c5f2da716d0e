"""Joshua and Thrax: `[X] ||| source ||| target ||| features`, natural logarithms with the sign turned, and glue rules.

`joshua` writes the bare values in their order, `thrax` name=value. Brackets and bars in words are written as Joshua's
own preprocessing writes them.
"""

import math
from functools import partial

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.cdec import NAMES, read_named
from hierogram.daemon.exports.formats.format import (
    DEFAULT_WEIGHTS,
    GLUE,
    LM,
    POPS,
    SPAN,
    UNKNOWN,
    WORDS,
    Chosen,
    ConfigurationFile,
    Format,
    ReadRule,
    is_plain,
    mapped,
    plain,
    word,
)

_FEATURES = (*NAMES, "glue")
_NAMES = NAMES | {"glue": "IsGlue"}


def _side(side: str) -> str:
    escaped = f"replace(replace(replace({word('x')}, '|', '-pipe-'), '[', '-lsb-'), ']', '-rsb-')"
    return f"CASE WHEN {is_plain(side, '|' + chr(92))} THEN {side} ELSE {mapped(side, escaped, 'x')} END"


def _line(features: Chosen, named: bool) -> str:
    values = " || ' ".join(
        (f"{_NAMES[feature.name]}=" if named else "")
        + "' || "
        + (plain(f"-ln({feature.name})") if feature.logarithmic else f"CAST({feature.name} AS VARCHAR)")
        for feature in features
    )
    return f"'[X] ||| ' || {_side('source')} || ' ||| ' || {_side('target')} || ' ||| {values}"


def _rules(none: str, used: str) -> list[str]:
    return [
        f"[GOAL] ||| <s> ||| <s> ||| {none}",
        f"[GOAL] ||| [GOAL,1] [X,2] ||| [GOAL,1] [X,2] ||| {used}",
        f"[GOAL] ||| [GOAL,1] </s> ||| [GOAL,1] </s> ||| {none}",
    ]


_UNKNOWN_VALUE = -100
"""What Joshua has for a word that no rule translates."""


def _configure(grammar: str | None, glue: str, features: Chosen, named: bool) -> list[ConfigurationFile]:
    """Return `joshua.config`, the weights in it; without a language model, which the caller adds."""
    weights = {}
    for place, feature in enumerate(features):
        # Joshua turns the sign of values without a name, but not of those with one.
        sign = 1 if feature.logarithmic != named else -1
        weights[_NAMES[feature.name] if named else f"pt_{place}"] = sign * DEFAULT_WEIGHTS.get(feature.name, 0.0)
    # The language model's logarithms are to base 10, and a word counts -1 / ln 10.
    weights |= {
        "lm_0": DEFAULT_WEIGHTS[LM] * math.log(10),
        "WordPenalty": -DEFAULT_WEIGHTS[WORDS] * math.log(10),
        "OOVPenalty": DEFAULT_WEIGHTS[UNKNOWN] / _UNKNOWN_VALUE,
        # Of glue rules, the one value is 1 once its sign is turned.
        **({} if named else {"glue_0": DEFAULT_WEIGHTS[GLUE]}),
    }
    lines = [
        f"tm = thrax -owner pt -maxspan {SPAN} -path {grammar}",
        f"tm = thrax -owner glue -maxspan -1 -path {glue}",
        "mark_oovs = false",
        "default_non_terminal = X",
        "goalSymbol = GOAL",
        f"pop-limit = {POPS}",
        "feature-function = WordPenalty",
        "feature-function = OOVPenalty",
        *(f"{name} {value:.6g}" for name, value in weights.items()),
    ]
    return [(".config", lines)]


def _read_dense(line: str, features: Chosen) -> ReadRule:
    fields = line.split(" ||| ")
    values = dict(zip((feature.name for feature in features), fields[3].split(" "), strict=True))
    return ReadRule(fields[1], fields[2], math.exp(-float(values["count"])) if "count" in values else None)


JOSHUA = Format(
    name="joshua",
    meaning="grammar of Joshua, dense -ln features, with its glue grammar",
    suffix=".joshua",
    compression=Compression.GZIP,
    features=_FEATURES,
    line=partial(_line, named=False),
    read=_read_dense,
    # Joshua keeps the glue grammar's one feature apart from those of the main grammar.
    glue=lambda _: _rules("0", "-1"),
    configure=partial(_configure, named=False),
)
THRAX = Format(
    name="thrax",
    meaning="as joshua, features by name",
    suffix=".thrax",
    compression=Compression.GZIP,
    features=_FEATURES,
    line=partial(_line, named=True),
    read=partial(read_named, base=1 / math.e),
    glue=lambda _: _rules("IsGlue=0", "IsGlue=1"),
    configure=partial(_configure, named=True),
)
