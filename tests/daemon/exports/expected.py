"""Expected exports of the rules `ODD`, from slow reference code."""

from collections import Counter
from fractions import Fraction

from tests.daemon.exports import parsers
from tests.daemon.exports.lexical import link_counts, weights
from tests.daemon.exports.parsers import Parsed
from tests.daemon.exports.rules import ODD, PAIRS, Given

from hierogram.samplers.grammar.rules import Rule, parse_side

LINKS = link_counts((s.split(), t.split(), parsers.links(a)) for s, t, a in PAIRS)
SOURCE_COUNTS, TARGET_COUNTS = Counter[str](), Counter[str]()
for _given in ODD:
    SOURCE_COUNTS[_given.source] += _given.uses
    TARGET_COUNTS[_given.target] += _given.uses


def _capped_uses(given: Given, samples: int) -> Fraction:
    """Return the expected uses of a rule, capped at 1."""
    return Fraction(min(given.uses, samples), samples)


def smoothed_probability(given: Given, side: str, other: str, samples: int, discount: Fraction) -> Fraction:
    """Return p(other | side) among `ODD`, smoothed by [Foster, Kuhn & Johnson 2006]."""
    own = [rule for rule in ODD if getattr(rule, side) == getattr(given, side)]
    backing = [rule for rule in ODD if getattr(rule, other) == getattr(given, other)]
    back_off = sum(_capped_uses(rule, samples) for rule in backing) / sum(_capped_uses(rule, samples) for rule in ODD)
    left = Fraction(given.uses, samples) - discount * _capped_uses(given, samples)
    taken = discount * sum(_capped_uses(rule, samples) for rule in own)
    return (left + taken * back_off) / sum(Fraction(rule.uses, samples) for rule in own)


def expected_rule(given: Given, samples: int = 1, discount: Fraction = Fraction(7, 10)) -> Parsed:
    source, target, links = parse_side(given.source), parse_side(given.target), parsers.links(given.alignment)
    to_target, to_source = weights(LINKS, source, target, links)
    gaps = sum(isinstance(symbol, int) for symbol in source)
    return Parsed(
        source,
        target,
        links,
        {
            "p_target_given_source": float(smoothed_probability(given, "source", "target", samples, discount)),
            "p_source_given_target": float(smoothed_probability(given, "target", "source", samples, discount)),
            "lex_target_given_source": max(float(to_target), 0),
            "lex_source_given_target": max(float(to_source), 0),
            "count": given.uses / samples,
            "quarter": float(4 * given.uses <= samples),
            "half": float(2 * given.uses <= samples),
            "rare": float(given.uses <= 3 * samples),
            "nonterminals": float(gaps),
            "scope": float(Rule(source, target).scope),
            "source_words": float(len(source) - gaps),
            "target_words": float(len(target) - gaps),
            "one_word": float(len(source) - gaps == 1),
            "two_words": float(len(source) - gaps == 2),
            "minimal": float(given.minimal > 0),
            "singleton": float(given.uses <= samples),
            "source_singleton": float(SOURCE_COUNTS[given.source] <= samples),
            "terminals_only": float(not gaps),
            "source_count": SOURCE_COUNTS[given.source] / samples,
            "target_count": TARGET_COUNTS[given.target] / samples,
        },
    )
