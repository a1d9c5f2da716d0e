"""What exports say of the odd rules, from slow references."""

from collections import Counter

from tests.daemon.exports import parsers
from tests.daemon.exports.lexical import link_counts, weights
from tests.daemon.exports.parsers import Parsed
from tests.daemon.exports.rules import ODD, PAIRS, Given

from hierogram.samplers.grammar.rules import parse_side

LINKS = link_counts((s.split(), t.split(), parsers.links(a)) for s, t, a in PAIRS)
OF_SOURCE, OF_TARGET = Counter[str](), Counter[str]()
for _given in ODD:
    OF_SOURCE[_given.source] += _given.uses
    OF_TARGET[_given.target] += _given.uses


def expected(given: Given, samples: int = 1) -> Parsed:
    source, target, links = parse_side(given.source), parse_side(given.target), parsers.links(given.alignment)
    to_target, to_source = weights(LINKS, source, target, links)
    return Parsed(
        source,
        target,
        links,
        {
            "p_target_given_source": given.uses / OF_SOURCE[given.source],
            "p_source_given_target": given.uses / OF_TARGET[given.target],
            "lex_target_given_source": max(float(to_target), 0),
            "lex_source_given_target": max(float(to_source), 0),
            "count": given.uses / samples,
            "singleton": float(given.uses <= samples),
            "source_singleton": float(OF_SOURCE[given.source] <= samples),
            "terminals_only": float(not any(isinstance(symbol, int) for symbol in source)),
            "glue": 0.0,
            "source_count": OF_SOURCE[given.source] / samples,
            "target_count": OF_TARGET[given.target] / samples,
        },
    )
