"""The store as a translation memory: fuzzy matches of a text, and export of pairs as TMX."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from hierogram.daemon.library.options import check_integer
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.shared_options import LIBRARY_LIMIT
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.samplers.grammar.kinds import SOURCE
from hierogram.storage.browsing.details import list_pairs
from hierogram.storage.browsing.similar_pairs import find_similar_pairs, weigh_words
from hierogram.storage.pairs.vocabulary import find_words
from hierogram.storage.records.pairs import PairRecord
from hierogram.tools.xml_text import UNKNOWN_LANGUAGES, xml_attribute, xml_text

_MAX_WORDS = 200
_CANDIDATES = 100
"""Number of pairs with the most words of a text, weighted by rarity, whose edit distance is computed."""

_TIME_FORMAT = "%Y%m%dT%H%M%SZ"
_PAIRS_PER_PART = 500


@dataclass(frozen=True, slots=True)
class FuzzyMatch:
    """Fuzzy match: a stored pair similar to a text, detokenized.

    `quality` is the similarity of the tokenized source sides in percent: 100 minus the edit distance in percent of the
    longer side. Only the first 200 words of the text are compared. `rank` is the percentage of the words of the text
    that the pair contains, with more weight for rare words. Over HTTP, the corpus is called `context`, as in amagama.
    """

    id: int
    corpus: Annotated[str, Field(serialization_alias="context")]
    source: str
    target: str
    quality: float
    rank: float


def nearest(store: GrammarStore, text: str, min_quality: float = 50.0, limit: int = 5) -> list[FuzzyMatch]:
    """Return up to `limit` stored pairs whose source side is most similar to a text, best first.

    `min_quality` is the minimum `quality` in percent. Only the newest of equal pairs is returned. Raises `UsageError`.
    """
    limit = check_integer("limit", limit, LIBRARY_LIMIT)
    with store.reader.read() as transaction:
        pipeline = make_pipeline(transaction.settings()).for_running_text()
        words = pipeline.source.tokens(text).split(" ")[:_MAX_WORDS]
        vocabulary = find_words(transaction.connection, words)[SOURCE]
        pairs, entries = find_similar_pairs(
            transaction, {word: vocabulary[word] for word in words if word in vocabulary}, _CANDIDATES
        )
    sentence = " ".join(words)
    weights = weigh_words(words, vocabulary)
    matches: dict[tuple[str, str], FuzzyMatch] = {}
    for pair in sorted([*pairs, *entries], key=lambda match: -match.id):
        longest = max(len(sentence), len(pair.source))
        quality = 100 * (1 - edit_distance(sentence, pair.source) / longest) if longest else 100.0
        if quality >= min_quality and (pair.source, pair.target) not in matches:
            pair_words = set(pair.source.split(" "))
            rank = 100 * sum(weight for word, weight in weights.items() if word in pair_words) / sum(weights.values())
            detokenized = pipeline.source.detokenize_stored(pair.source), pipeline.target.detokenize_stored(pair.target)
            matches[pair.source, pair.target] = FuzzyMatch(
                pair.id, pair.corpus, *detokenized, round(quality, 1), round(rank, 1)
            )
    return sorted(matches.values(), key=lambda match: (-match.quality, -match.rank, -match.id))[:limit]


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance of two texts in characters [Myers 1999]."""
    if not first:
        return len(second)
    positions: dict[str, int] = {}
    for index, letter in enumerate(first):
        positions[letter] = positions.get(letter, 0) | 1 << index
    all_bits, last_bit = (1 << len(first)) - 1, 1 << len(first) - 1
    increases, decreases, distance = all_bits, 0, len(first)
    for letter in second:
        equal = positions.get(letter, 0)
        across = (((equal & increases) + increases) ^ increases) | equal
        rises, falls = (decreases | ~(across | increases)) & all_bits, increases & across
        distance += bool(rises & last_bit) - bool(falls & last_bit)
        rises, falls = (rises << 1 | 1) & all_bits, falls << 1 & all_bits
        down = equal | decreases
        increases, decreases = (falls | ~(down | rises)) & all_bits, rises & down
    return distance


def memory(store: GrammarStore, corpus: str | None = None, since: datetime | None = None) -> Iterator[str]:
    """Yield a TMX file in parts, with all pairs, or only pairs of one corpus or pairs added since a time.

    The `tuid` is the external id. Each part is read in its own transaction, so that a slow reader holds no connection.
    Pairs added during the export are omitted, as are pairs withdrawn before their part is read. Characters that XML
    does not allow are removed.
    """
    with store.reader.read() as transaction:
        settings, last = transaction.settings(), transaction.state().last_pair_id
    pipeline = make_pipeline(settings).for_running_text()
    languages = [xml_attribute(language) for language in settings.languages or UNKNOWN_LANGUAGES]
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        '<header creationtool="hierogram" creationtoolversion="1" segtype="sentence" o-tmf="hierogram" '
        f'adminlang="en" srclang={languages[0]} datatype="plaintext"/>\n<body>\n'
    )

    def unit(pair: PairRecord) -> str:
        tuid = "" if pair.external_id is None else f" tuid={xml_attribute(pair.external_id)}"
        sides = (pipeline.source.detokenize_stored(pair.source), pipeline.target.detokenize_stored(pair.target))
        variants = "".join(
            f"<tuv xml:lang={language}><seg>{xml_text(side)}</seg></tuv>"
            for language, side in zip(languages, sides, strict=True)
        )
        added_at = pair.added_at.astimezone(UTC).strftime(_TIME_FORMAT)
        corpus = f'<prop type="x-corpus">{xml_text(pair.corpus)}</prop>'
        return f'<tu{tuid} creationdate="{added_at}">{corpus}{variants}</tu>\n'

    after = 0
    while after < last:
        with store.reader.read() as transaction:
            part = list_pairs(transaction, after, corpus, _PAIRS_PER_PART)
        if not part:
            break
        after = part[-1].id
        yield "".join(unit(pair) for pair in part if pair.id <= last and (since is None or pair.added_at >= since))
    yield "</body>\n</tmx>\n"
