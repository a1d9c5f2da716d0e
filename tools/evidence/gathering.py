"""Evidence for a sentence from a store: rules, pairs and dictionary entries, and their forms for prompts and tables."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import log

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.text.segments import InWords, words_of_parts, words_of_span
from hierogram.daemon.text.texts import AS_IT_IS, TOKENS, TextPipeline, TextSide, pipeline_of
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, notation_of
from hierogram.samplers.grammar.rules import Span, escape_terminal, nonterminal, terminal_of
from hierogram.storage.browsing.likeness import LikePair, like_pairs, renderings, source_sides
from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import known_words
from hierogram.tools.evidence.marking import EXPLANATION, marked, quoted, visible
from hierogram.tools.evidence.matching import Chosen, Pattern, Place, Sentence, choose
from hierogram.tools.evidence.options import EvidenceOptions

MOST_WORDS = 200
"""Maximum number of words in a sentence."""

_CANDIDATES = 200
_SIDES_A_POSITION = 2
_GAPS = (nonterminal(1), nonterminal(2))


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """Rule whose source side matches the sentence at up to `matching.MOST_PLACES` places."""

    source: str
    target: str
    expected_uses: float
    p_target_given_source: float
    places: list[Place]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for a sentence at a position of the store. In a subword store, all texts are in words.

    Places count `words`, which are lower-cased if the store only knows the lower-case form. `unknown` lists the words
    that no stored pair has on its source side. Rules are ordered by the first word that they cover, then by length.
    `entries` are dictionary entries whose source side occurs in the sentence; they are separate from `pairs`.
    """

    position: int
    words: list[str]
    unknown: list[str]
    rules: list[MatchedRule]
    pairs: list[Chosen]
    entries: list[LikePair]


def gather(look: Look, text: str, options: EvidenceOptions) -> Evidence:
    """Return the evidence for a sentence.

    Raises `WrongKindError` if the store has sentences of one language, and `InputError` if the text has no word or more
    than `MOST_WORDS` words.
    """
    words = _words(look, text, options.tokenized)
    found_words = known_words(look, [*words, *(word.lower() for word in words)]).get(SOURCE, {})
    # Lower-case words that are known only in lower case, such as the first word of a sentence.
    words = [word if word in found_words or word.lower() not in found_words else word.lower() for word in words]
    known = {word: found_words[word] for word in words if word in found_words}
    sentence = Sentence(words)
    matched = _matched(sentence, source_sides(look, [known.get(word) for word in words]))
    chosen = _chosen(sentence, matched, known)
    rendered = renderings(look, [match.side for match in chosen], options.renderings)
    rules = [
        MatchedRule(match.side, rule.other, rule.expected_uses, rule.probability, match.places)
        for match in chosen
        for rule in rendered.get(match.side, ())
    ]
    # Sort by uses, because only the first patterns are searched in pairs.
    patterns = [match.pattern for match in sorted(matched, key=lambda match: -match.uses)]
    pairs, entries = like_pairs(look, known, max(_CANDIDATES, 10 * options.pairs))
    most = max((word.count for word in known.values()), default=1)
    weights = {word: log(2 + most / max(1, known[word].count if word in known else 1)) for word in words}
    row = look.row("SELECT position FROM store_state", False)
    found = Evidence(
        int(row[0]) if row else 0,
        words,
        [word for word in dict.fromkeys(words) if word not in known],
        rules[: options.rules],
        choose(words, weights, patterns, pairs, options.pairs),
        _entries(sentence, entries),
    )
    view = InWords(look.settings().bpe_merges)
    return _in_words(found, view) if view.joins else found


def _in_words(found: Evidence, view: InWords) -> Evidence:
    """Convert the evidence of a subword store to words. A word is unknown if one of its parts is unknown."""
    places = words_of_parts(found.words)
    words = view.line(" ".join(found.words)).split(" ")
    unknown = {words[place] for place, part in zip(places, found.words, strict=False) if part in found.unknown}

    def spans(tokens: Sequence[Span]) -> tuple[Span, ...]:
        return tuple(dict.fromkeys(words_of_span(places, span) for span in tokens))

    return Evidence(
        found.position,
        words,
        [word for word in dict.fromkeys(words) if word in unknown],
        [
            replace(
                rule,
                source=view.side(rule.source),
                target=view.side(rule.target),
                places=[Place(spans(place.words), spans(place.gaps)) for place in rule.places],
            )
            for rule in found.rules
        ],
        [
            replace(
                pair,
                source=view.line(pair.source),
                target=view.line(pair.target),
                covers=spans(pair.covers),
                fresh=spans(pair.fresh),
            )
            for pair in found.pairs
        ],
        [replace(entry, source=view.line(entry.source), target=view.line(entry.target)) for entry in found.entries],
    )


def _words(look: Look, text: str, tokenized: bool) -> list[str]:
    settings = look.settings()
    notation = notation_of(settings.grammar)
    if notation.takes != PAIRS:
        raise WrongKindError(f"{notation.cannot('provide evidence')}: its sentences are monolingual")
    texts = pipeline_of(settings)
    words = (texts.of_words() if tokenized else texts).source.tokens(text).split()
    if not words:
        raise InputError("the sentence has no words")
    if len(words) > MOST_WORDS:
        raise InputError(f"the sentence has {len(words):,} words, the limit is {MOST_WORDS}")
    return words


@dataclass(frozen=True, slots=True)
class _Match:
    """Source side that matches the sentence, with the expected uses of its rules, its pattern, and its places."""

    side: str
    uses: float
    pattern: Pattern
    places: list[Place]


def _matched(sentence: Sentence, sides: Mapping[str, float]) -> list[_Match]:
    found = []
    for side, uses in sides.items():
        pattern = sentence.pattern(side)
        if pattern is not None and (places := sentence.places(pattern)):
            found.append(_Match(side, uses, pattern, places))
    return found


def _chosen(sentence: Sentence, matched: Sequence[_Match], known: Iterable[str]) -> list[_Match]:
    """Select a few sides for each word: with and without gaps, the longest and most used first.

    Each known word alone is always included. Sides are ordered by the first word that they cover; sides without gaps
    are first, then shorter sides.
    """
    ranked = sorted(matched, key=lambda match: (-match.pattern.length, -match.uses, match.side))
    covered: Counter[tuple[bool, int]] = Counter()
    chosen: list[_Match] = []
    for match in ranked:
        plain = match.pattern.plain
        positions = {position for place in match.places for position in place.covered}
        if any(covered[plain, position] < _SIDES_A_POSITION for position in positions):
            covered.update((plain, position) for position in positions)
            chosen.append(match)
    bare = {word for position, word in enumerate(sentence.words) if not covered[False, position]}
    for word in known:
        symbol = escape_terminal(word)
        sides = [symbol]
        if word in bare:
            sides += [f"{_GAPS[0]} {symbol}", f"{symbol} {_GAPS[0]}", f"{_GAPS[0]} {symbol} {_GAPS[1]}"]
        chosen += _matched(sentence, dict.fromkeys(sides, 0))
    return sorted(
        chosen, key=lambda match: (match.places[0].words[0][0], not match.pattern.plain, match.pattern.length)
    )


def _entries(sentence: Sentence, entries: Iterable[LikePair]) -> list[LikePair]:
    """Return distinct entries whose source side occurs in the sentence, by their first word, then by length."""
    found: dict[tuple[str, str], tuple[int, int, LikePair]] = {}
    for pair in entries:
        words = tuple(pair.source.split(" "))
        places = sentence.places(Pattern((words,), (0, 0)))
        if places:
            found.setdefault((pair.source, pair.target), (places[0].words[0][0], len(words), pair))
    return [pair for _, _, pair in sorted(found.values(), key=lambda entry: (*entry[:2], entry[2].target))]


GAP = "…"
_LINE, _LINES = "\n", "\n\n"

LEAST_PROBABILITY, LEAST_USES = 0.1, 1.0
"""Glossary thresholds: minimum probability given the source; minimum expected uses if the source has several words."""


def as_prompt(found: Evidence, text: str, texts: TextPipeline = AS_IT_IS) -> str:
    """Return a prompt with dictionary entries, a glossary, example pairs, and the sentence to translate.

    Texts from the store are enclosed in tags that mark them as data. The glossary has renderings with a probability
    given the source of at least `LEAST_PROBABILITY`. Renderings of several words also need `LEAST_USES` expected uses
    and no gap at an end of the source side. `texts` is the store's pipeline, which names the languages and detokenizes.
    """
    source, target = texts.languages or ("source", "target")

    def sides(pair: LikePair) -> tuple[str, str]:
        return quoted(texts.source.written(pair.source)), quoted(texts.target.written(pair.target))

    blocks = []
    if found.entries:
        blocks.append([f"Dictionary ({source} = {target}):", *map(" = ".join, map(sides, found.entries))])
    glossary = _glossary(found.rules, texts)
    if glossary:
        blocks.append([f"Glossary ({source} = {target}):", *map(quoted, glossary)])
    blocks += [
        [f"{name}: {side}" for name, side in zip((source, target), sides(pair), strict=True)] for pair in found.pairs
    ]
    asked = f"{source}: {' '.join(visible(text).split())}\n{target}:\n"
    if not blocks:
        return asked
    return f"{EXPLANATION}\n\n{marked(_LINES.join(map(_LINE.join, blocks)))}\n\n{asked}"


def _glossary(rules: Iterable[MatchedRule], texts: TextPipeline) -> list[str]:
    renderings: dict[str, list[str]] = {}
    for rule in rules:
        words = rule.source.split(" ")
        often = len(words) == 1 or rule.expected_uses >= LEAST_USES
        ends_in_gaps = terminal_of(words[0]) is None or terminal_of(words[-1]) is None
        telling = rule.p_target_given_source >= LEAST_PROBABILITY and often and not ends_in_gaps
        if telling and _has_letters(rule.source) and _has_letters(rule.target):
            renderings.setdefault(shown(rule.source, texts.source), []).append(shown(rule.target, texts.target))
    return [f"{source} = {', '.join(dict.fromkeys(some))}" for source, some in renderings.items()]


def _has_letters(side: str) -> bool:
    words = map(terminal_of, side.split(" "))
    return any(sign.isalnum() for word in words if word is not None for sign in word)


def shown(side: str, text: TextSide = TOKENS) -> str:
    """Return a side as readable text, with an ellipsis for each gap. Several gaps are numbered."""
    symbols = [(symbol, terminal_of(symbol)) for symbol in side.split(" ")]
    gaps = sum(word is None for _, word in symbols)
    found: list[str] = []
    # Detokenize only adjacent words, not words across a gap.
    for is_gap, some in groupby(symbols, lambda symbol: symbol[1] is None):
        if is_gap:
            found += [GAP + ("" if gaps == 1 else symbol.strip("[]").rpartition(",")[2]) for symbol, _ in some]
        else:
            found.append(text.written(" ".join(word or "" for _, word in some)))
    return " ".join(found)


def table_of_rules(found: Evidence) -> list[list[str]]:
    """Return a table with a header: both sides, p(target|source), expected uses, and the words covered."""
    rows = [
        [
            match.source,
            match.target,
            f"{match.p_target_given_source:.3f}",
            f"{match.expected_uses:,.1f}",
            " ".join(
                f"{first}-{last - 1}" if last - first > 1 else str(first) for first, last in match.places[0].words
            ),
        ]
        for match in found.rules
    ]
    return [["source", "target", "p(target|source)", "uses", "words"], *rows]
