"""Evidence for a sentence from a store: rules, pairs, dictionary entries, and their text in prompts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar, Unpack

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.pipeline import TextPipeline, TextSide, make_pipeline
from hierogram.daemon.text.word_view import WordView, find_word_span
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, find_grammar_kind
from hierogram.samplers.grammar.rules import Span, escape_terminal, nonterminal, unescape_terminal
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.browsing.similar_pairs import (
    SimilarPair,
    find_rules_by_source,
    find_similar_pairs,
    find_source_sides,
    weigh_words,
)
from hierogram.storage.pairs.vocabulary import find_words
from hierogram.storage.records.parts import index_words
from hierogram.tools.evidence.matching import CoveringPair, MatchedSentence, Pattern, SideMatch, choose_pairs
from hierogram.tools.evidence.options import EvidenceOptions
from hierogram.tools.evidence.sanitizing import EXPLANATION, clean_text, enclose, sanitize

if TYPE_CHECKING:
    from hierogram.tools.keywords import EvidenceKeywords

MAX_WORDS = 200
_MIN_CANDIDATES = 200
_SIDES_PER_POSITION = 2
"""Number of selected sides that cover each word, with and without gaps each."""
_GAPS = (nonterminal(1), nonterminal(2))
_Pair = TypeVar("_Pair", bound=SimilarPair)


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """Rule in store notation, with its 1 to `matching.MAX_MATCHES` matches in the sentence."""

    source: str
    target: str
    expected_uses: float
    p_target_given_source: float
    matches: list[SideMatch]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence for a sentence. Texts consist of whole words, even in a subword store.

    `position` is the position of the store. Spans are positions in `words`. A word is in lowercase if the store only
    contains its lowercase form. `unknown` words do not occur on the source side of any stored pair. Rules are ordered
    by the first word that they cover. For the same word, sources without gaps are first, and shorter sources before
    longer sources. `entries` are dictionary entries whose source side occurs in the sentence, `pairs` other pairs.
    """

    position: int
    words: list[str]
    unknown: list[str]
    rules: list[MatchedRule]
    pairs: list[CoveringPair]
    entries: list[SimilarPair]


def evidence(
    store: GrammarStore, sentence: str, *, options: EvidenceOptions | None = None, **chosen: "Unpack[EvidenceKeywords]"
) -> Evidence:
    """Return the store's evidence on a sentence: matching rules, similar pairs, dictionary entries.

    Options are the fields of `EvidenceOptions`. Raises `InputError` if the sentence is empty or too long, and
    `WrongKindError` for a store of trees.
    """
    resolved = resolve_options(EvidenceOptions, options, chosen)
    with store.reader.read() as transaction:
        return find_evidence(transaction, sentence, resolved)


def find_evidence(transaction: ReadTransaction, text: str, options: EvidenceOptions) -> Evidence:
    """Return the evidence for a sentence, see `evidence`, from the store that `transaction` reads."""
    words = _tokenize_sentence(transaction, text, options.tokenized)
    found_words = find_words(transaction.connection, [*words, *(word.lower() for word in words)])[SOURCE]
    # Convert words to lowercase if only the lowercase form is known, such as the first word of a sentence.
    words = [word if word in found_words or word.lower() not in found_words else word.lower() for word in words]
    known_source_words = {word: found_words[word] for word in words if word in found_words}
    sentence = MatchedSentence(words)
    matched = _match_sides(sentence, find_source_sides(transaction, [known_source_words.get(word) for word in words]))
    chosen = _select_sides(sentence, matched, known_source_words)
    rendered = find_rules_by_source(transaction, [match.side for match in chosen], options.renderings)
    rules = [
        MatchedRule(match.side, rule.other, rule.expected_uses, rule.probability, match.matches)
        for match in chosen
        for rule in rendered.get(match.side, ())
    ]
    # Sort by uses, because only the first patterns are used to choose pairs.
    patterns = [match.pattern for match in sorted(matched, key=lambda match: -match.uses)]
    pairs, entries = find_similar_pairs(transaction, known_source_words, max(_MIN_CANDIDATES, 10 * options.pairs))
    evidence = Evidence(
        transaction.state().position,
        words,
        [word for word in dict.fromkeys(words) if word not in known_source_words],
        rules[: options.rules],
        choose_pairs(words, weigh_words(words, known_source_words), patterns, pairs, options.pairs),
        _matching_entries(sentence, entries),
    )
    view = WordView(transaction.settings().word_parts)
    return _join_subwords(evidence, view) if view.word_parts else evidence


def _join_subwords(evidence: Evidence, view: WordView) -> Evidence:
    """Convert the evidence of a subword store to words. A word is unknown if one of its parts is unknown."""
    word_indices = index_words(evidence.words)
    words = view.line(" ".join(evidence.words)).split(" ")
    unknown = {
        words[index] for index, part in zip(word_indices, evidence.words, strict=False) if part in evidence.unknown
    }

    def spans(tokens: Sequence[Span]) -> tuple[Span, ...]:
        return tuple(dict.fromkeys(find_word_span(word_indices, span) for span in tokens))

    def join_rule(rule: MatchedRule) -> MatchedRule:
        matches = [SideMatch(spans(match.words), spans(match.gaps)) for match in rule.matches]
        return replace(rule, source=view.side(rule.source), target=view.side(rule.target), matches=matches)

    def join_pair(pair: _Pair) -> _Pair:
        return replace(pair, source=view.line(pair.source), target=view.line(pair.target))

    return Evidence(
        evidence.position,
        words,
        [word for word in dict.fromkeys(words) if word in unknown],
        list(map(join_rule, evidence.rules)),
        [
            replace(join_pair(pair), covered_spans=spans(pair.covered_spans), new_spans=spans(pair.new_spans))
            for pair in evidence.pairs
        ],
        list(map(join_pair, evidence.entries)),
    )


def _tokenize_sentence(transaction: ReadTransaction, text: str, tokenized: bool) -> list[str]:
    settings = transaction.settings()
    grammar_kind = find_grammar_kind(settings.grammar)
    if grammar_kind.input_kind != PAIRS:
        raise WrongKindError(f"{grammar_kind.cannot('provide evidence')}: its sentences are monolingual")
    pipeline = make_pipeline(settings)
    words = (pipeline.for_tokenized() if tokenized else pipeline).source.tokens(text).split()
    if not words:
        raise InputError("the sentence has no words")
    if len(words) > MAX_WORDS:
        raise InputError(f"the sentence has {len(words):,} words, the limit is {MAX_WORDS}")
    return words


@dataclass(frozen=True, slots=True)
class _MatchedSide:
    """Source side of rules, in rule notation, with its matches in the sentence, at least one."""

    side: str
    uses: float
    pattern: Pattern
    matches: list[SideMatch]


def _match_sides(sentence: MatchedSentence, sides: Mapping[str, float]) -> list[_MatchedSide]:
    """Return the sides that match the sentence. `sides` maps sides to the expected uses of their rules."""
    return [
        _MatchedSide(side, uses, pattern, matches)
        for side, uses in sides.items()
        if (pattern := sentence.pattern(side)) and (matches := sentence.matches(pattern))
    ]


def _select_sides(
    sentence: MatchedSentence, matched: Sequence[_MatchedSide], source_words: Iterable[str]
) -> list[_MatchedSide]:
    """Select a few long and frequent sides with and without gaps for each word, in sentence order."""
    ranked = sorted(matched, key=lambda match: (-match.pattern.length, -match.uses, match.side))
    covered: Counter[tuple[bool, int]] = Counter()
    chosen: list[_MatchedSide] = []
    for match in ranked:
        is_contiguous = match.pattern.is_contiguous
        positions = {position for side_match in match.matches for position in side_match.covered}
        if any(covered[is_contiguous, position] < _SIDES_PER_POSITION for position in positions):
            covered.update((is_contiguous, position) for position in positions)
            chosen.append(match)
    # Add the single words. For words without a selected side with gaps, also add the word with gaps.
    uncovered = {word for position, word in enumerate(sentence.words) if not covered[False, position]}
    for word in source_words:
        symbol = escape_terminal(word)
        sides = [symbol]
        if word in uncovered:
            sides += [f"{_GAPS[0]} {symbol}", f"{symbol} {_GAPS[0]}", f"{_GAPS[0]} {symbol} {_GAPS[1]}"]
        chosen += _match_sides(sentence, dict.fromkeys(sides, 0))
    return sorted(
        chosen, key=lambda match: (match.matches[0].words[0][0], not match.pattern.is_contiguous, match.pattern.length)
    )


def _matching_entries(sentence: MatchedSentence, entries: Iterable[SimilarPair]) -> list[SimilarPair]:
    found: dict[tuple[int, int, str, str], SimilarPair] = {}
    for pair in entries:
        words = tuple(pair.source.split(" "))
        if matches := sentence.matches(Pattern((words,), (0, 0))):
            found.setdefault((matches[0].words[0][0], len(words), pair.target, pair.source), pair)
    return [found[key] for key in sorted(found)]


GAP = "…"
MIN_PROBABILITY, MIN_USES = 0.1, 1.0
"""Minimum probability of a glossary entry given its source, and minimum uses for multi-symbol sources."""


def as_prompt(evidence: Evidence, text: str, pipeline: TextPipeline) -> str:
    """Return a prompt with dictionary entries, a glossary, example pairs, and the sentence to translate.

    The glossary omits improbable and rare rules (see `MIN_PROBABILITY`), and sources that start or end with a gap.
    """
    source, target = pipeline.languages or ("source", "target")
    blocks = []
    if evidence.entries:
        entries = (" = ".join(readable_pair(entry, pipeline)) for entry in evidence.entries)
        blocks.append([f"Dictionary ({source} = {target}):", *entries])
    if glossary := _glossary(evidence.rules, pipeline):
        blocks.append([f"Glossary ({source} = {target}):", *map(sanitize, glossary)])
    for pair in evidence.pairs:
        source_side, target_side = readable_pair(pair, pipeline)
        blocks.append([f"{source}: {source_side}", f"{target}: {target_side}"])
    request = f"{source}: {' '.join(clean_text(text).split())}\n{target}:\n"
    examples = "\n\n".join("\n".join(block) for block in blocks)
    return f"{EXPLANATION}\n\n{enclose(examples)}\n\n{request}" if blocks else request


def readable_pair(pair: SimilarPair, pipeline: TextPipeline) -> tuple[str, str]:
    """Return both sides of a stored pair as sanitized text."""
    return sanitize(pipeline.source.detokenize(pair.source)), sanitize(pipeline.target.detokenize(pair.target))


def readable_rule(rule: MatchedRule, pipeline: TextPipeline) -> tuple[str, str]:
    """Return both sides of a rule as text that is not sanitized."""
    return readable_side(rule.source, pipeline.source), readable_side(rule.target, pipeline.target)


def _glossary(rules: Iterable[MatchedRule], pipeline: TextPipeline) -> list[str]:
    renderings: dict[str, list[str]] = {}
    for rule in rules:
        words = rule.source.split(" ")
        is_frequent = len(words) == 1 or rule.expected_uses >= MIN_USES
        ends_in_gaps = unescape_terminal(words[0]) is None or unescape_terminal(words[-1]) is None
        is_reliable = rule.p_target_given_source >= MIN_PROBABILITY and is_frequent and not ends_in_gaps
        if is_reliable and _has_letters_or_digits(rule.source) and _has_letters_or_digits(rule.target):
            source, target = readable_rule(rule, pipeline)
            renderings.setdefault(source, []).append(target)
    return [f"{source} = {', '.join(dict.fromkeys(targets))}" for source, targets in renderings.items()]


def _has_letters_or_digits(side: str) -> bool:
    words = map(unescape_terminal, side.split(" "))
    return any(character.isalnum() for word in words if word is not None for character in word)


def readable_side(side: str, text: TextSide) -> str:
    """Return a side as readable text, with an ellipsis for each gap. Several gaps are numbered."""
    symbols = [(symbol, unescape_terminal(symbol)) for symbol in side.split(" ")]
    gaps = sum(word is None for _, word in symbols)
    pieces: list[str] = []
    # Detokenize only adjacent words, not words across a gap.
    for is_gap, group in groupby(symbols, lambda symbol: symbol[1] is None):
        if is_gap:
            pieces += [GAP + ("" if gaps == 1 else symbol.strip("[]").rpartition(",")[2]) for symbol, _ in group]
        else:
            pieces.append(text.detokenize(" ".join(word or "" for _, word in group)))
    return " ".join(pieces)
