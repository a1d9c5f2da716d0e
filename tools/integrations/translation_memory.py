"""Fuzzy translation-memory matches: stored pairs most similar to a text, among pairs that share its words."""

from dataclasses import dataclass
from math import log

from hierogram.daemon.text.texts import pipeline_of
from hierogram.samplers.grammar.kinds import SOURCE
from hierogram.storage.browsing.likeness import like_pairs
from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import known_words

_MOST_WORDS = 200
_CANDIDATES = 100


@dataclass(frozen=True, slots=True)
class NearPair:
    """Fuzzy match: a stored pair similar to a text, detokenized.

    `quality` is the similarity of the source side in percent: 100 minus the edit distance in percent of the longer
    text. `rank` is the percentage of the text's words that the pair contains; rare words have more weight.
    """

    id: int
    corpus: str
    source: str
    target: str
    quality: float
    rank: float


def nearest_pairs(look: Look, text: str, least: float, most: int) -> list[NearPair]:
    """Return up to `most` pairs with a quality of at least `least`, best first.

    Only the last of equal pairs is returned.
    """
    texts = pipeline_of(look.settings()).running()
    words = texts.source.tokens(text).split(" ")[:_MOST_WORDS]
    sentence = " ".join(words)
    known = known_words(look, words).get(SOURCE, {})
    pairs, entries = like_pairs(look, {word: known[word] for word in words if word in known}, _CANDIDATES)
    often = max((word.count for word in known.values()), default=1)
    weights = {word: log(2 + often / max(1, known[word].count if word in known else 1)) for word in words}
    found: dict[tuple[str, str], NearPair] = {}
    for pair in sorted([*pairs, *entries], key=lambda one: -one.id):
        quality = 100 * likeness(sentence, pair.source)
        if quality >= least and (pair.source, pair.target) not in found:
            has = set(pair.source.split(" "))
            rank = 100 * sum(weight for word, weight in weights.items() if word in has) / sum(weights.values())
            written = texts.source.joined(pair.source.split(" ")), texts.target.joined(pair.target.split(" "))
            found[pair.source, pair.target] = NearPair(
                pair.id, pair.corpus, *written, round(quality, 1), round(rank, 1)
            )
    return sorted(found.values(), key=lambda one: (-one.quality, -one.rank, -one.id))[:most]


def likeness(first: str, second: str) -> float:
    """Return 1 minus the edit distance divided by the length of the longer text."""
    longest = max(len(first), len(second))
    return 1 - edits(first, second) / longest if longest else 1.0


def edits(first: str, second: str) -> int:
    """Return the Levenshtein distance in characters (Myers 1999)."""
    if not first or not second:
        return len(first) + len(second)
    places: dict[str, int] = {}
    for place, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << place
    every, last = (1 << len(first)) - 1, 1 << len(first) - 1
    more, less, distance = every, 0, len(first)
    for letter in second:
        same = places.get(letter, 0)
        across = (((same & more) + more) ^ more) | same
        rises, falls = (less | ~(across | more)) & every, more & across
        distance += bool(rises & last) - bool(falls & last)
        rises, falls = (rises << 1 | 1) & every, falls << 1 & every
        down = same | less
        more, less = (falls | ~(down | rises)) & every, rises & down
    return distance
