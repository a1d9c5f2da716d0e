"""Files for other tools of a translation pipeline: dictionaries, shortlists, priors, vocabulary maps.

Word pairs are counted from the links of the store's pairs; phrase pairs are the rules without nonterminals.
"""

from functools import partial

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import FeatureSet, Format, ReadRule, concatenated, plain, spaced, word
from hierogram.samplers.grammar.kinds import LINKS

_BY_SOURCE, _BY_TARGET = "p_target_given_source", "p_source_given_target"
_TAB = "chr(9)"


def _words(side: str) -> str:
    return f"array_to_string(list_transform(string_split({side}, ' '), lambda x: {word('x')}), ' ')"


def _read(line: str, _: FeatureSet, source: int, target: int) -> ReadRule:
    fields = line.split("\t") if "\t" in line else line.split(" ")
    return ReadRule(fields[source], fields[target], None)


_ONLY_WORDS = f"""(
    SELECT {_words("source")} AS source, {_words("target")} AS target, uses FROM scored WHERE nonterminals = 0)"""
_CANDIDATES = f"""(
    SELECT source, string_agg(DISTINCT candidate, ' ' ORDER BY candidate) AS target FROM (
        SELECT source, unnest(string_split(target, ' ')) AS candidate FROM {_ONLY_WORDS}
    ) GROUP BY source)"""

_phrase_format = partial(Format, fixed=True, needs=LINKS, lexicon=True)
_word_format = partial(_phrase_format, words=True)
_dictionary = partial(_word_format, compression=Compression.GZIP)

BICLEANER = _dictionary(
    name="bicleaner",
    meaning="Bicleaner dictionary from source to target",
    suffix=".bicleaner",
    features=(_BY_SOURCE,),
    line=lambda _: spaced("target", "source", plain(_BY_SOURCE)),
    read=partial(_read, source=1, target=0),
)
BICLEANER_REVERSE = _dictionary(
    name="bicleaner-reverse",
    meaning="Bicleaner dictionary from target to source",
    suffix=".bicleaner-reverse",
    features=(_BY_TARGET,),
    line=lambda _: spaced("source", "target", plain(_BY_TARGET)),
    read=partial(_read, source=0, target=1),
)
SHORTLIST = _dictionary(
    name="shortlist",
    meaning="Marian lexical shortlist",
    suffix=".s2t",
    features=(_BY_SOURCE,),
    line=lambda _: spaced("target", "source", plain(_BY_SOURCE)),
    read=partial(_read, source=1, target=0),
)
PRIORS = _word_format(
    name="priors",
    meaning="eflomal lexical priors",
    suffix=".priors",
    features=("count",),
    line=lambda _: concatenated(f"'LEX' || {_TAB}", "lower(source)", _TAB, "lower(target)", _TAB, plain("count")),
    read=partial(_read, source=1, target=2),
)
TTABLE = _word_format(
    name="ttable",
    meaning="fast_align table of conditional probabilities",
    suffix=".ttable",
    features=(_BY_SOURCE,),
    line=lambda _: concatenated("source", _TAB, "target", _TAB, plain(f"ln({_BY_SOURCE})")),
    read=partial(_read, source=0, target=1),
)
VMAP = _phrase_format(
    name="vmap",
    meaning="CTranslate2 vocabulary map",
    suffix=".vmap",
    features=("count",),
    line=lambda _: concatenated("source", _TAB, "target"),
    read=partial(_read, source=0, target=1),
    rows=_CANDIDATES,
)
