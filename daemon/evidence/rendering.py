"""Evidence as text: ready for a prompt, and as tables."""

from collections.abc import Iterable

from hierogram.daemon.evidence.gathering import Evidence, MatchedRule
from hierogram.daemon.evidence.matching import Span
from hierogram.samplers.grammar.rules import terminal_of

GAP = "…"

LEAST_PROBABILITY, LEAST_USES = 0.1, 1.0
"""Of a rendering in a prompt's glossary: given its source; and expected, where its source is more than a word."""


def as_prompt(found: Evidence, languages: tuple[str, ...] = ()) -> str:
    """Entries of dictionaries, a glossary, the pairs as examples, and the sentence with its translation left open.

    Renderings are those whose probability given their source is at least `LEAST_PROBABILITY`, of words, and of what is
    used `LEAST_USES` times and has no gaps, or one inside. `languages` are the names of source and target, where they
    are known.
    """
    source, target = languages if len(languages) == 2 else ("source", "target")
    blocks = []
    if found.entries:
        entries = [f"{entry.source} = {entry.target}" for entry in found.entries]
        blocks.append([f"Dictionary ({source} = {target}):", *entries])
    glossary = _glossary(found.rules)
    if glossary:
        blocks.append([f"Glossary ({source} = {target}):", *glossary])
    blocks += [[f"{source}: {chosen.pair.source}", f"{target}: {chosen.pair.target}"] for chosen in found.pairs]
    blocks.append([f"{source}: {' '.join(found.text.split())}", f"{target}:"])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _glossary(rules: Iterable[MatchedRule]) -> list[str]:
    renderings: dict[str, list[str]] = {}
    for rule in rules:
        if _is_telling(rule) and _has_letters(rule.source) and _has_letters(rule.target):
            renderings.setdefault(shown(rule.source), []).append(shown(rule.target))
    return [f"{source} = {', '.join(dict.fromkeys(some))}" for source, some in renderings.items()]


def _is_telling(rule: MatchedRule) -> bool:
    words = rule.source.split(" ")
    ends_in_gaps = terminal_of(words[0]) is None or terminal_of(words[-1]) is None
    often = len(words) == 1 or rule.mean >= LEAST_USES
    return rule.probability >= LEAST_PROBABILITY and often and not ends_in_gaps


def _has_letters(side: str) -> bool:
    words = map(terminal_of, side.split(" "))
    return any(sign.isalnum() for word in words if word is not None for sign in word)


def shown(side: str) -> str:
    """A side as people read it: words as they are, an ellipsis for a gap, with its number where there are several."""
    words = [(symbol, terminal_of(symbol)) for symbol in side.split(" ")]
    gaps = sum(word is None for _, word in words)
    return " ".join(
        word if word is not None else GAP + ("" if gaps == 1 else symbol.strip("[]").rpartition(",")[2])
        for symbol, word in words
    )


def table_of_rules(found: Evidence) -> list[list[str]]:
    """Columns and rows: both sides, the probability of the target given the source, expected uses, words covered."""
    rows = [
        [
            match.source,
            match.target,
            f"{match.probability:.3f}",
            f"{match.mean:,.1f}",
            " ".join(
                f"{first}-{last - 1}" if last - first > 1 else str(first) for first, last in match.places[0].words
            ),
        ]
        for match in found.rules
    ]
    return [["source", "target", "p(target|source)", "uses", "words"], *rows]


def table_of_pairs(found: Evidence) -> list[list[str]]:
    """Columns and rows: number, corpus, both texts."""
    rows = [[str(one.pair.id), one.pair.corpus, one.pair.source, one.pair.target] for one in found.pairs]
    return [["pair", "corpus", "source", "target"], *rows]


def _positions(span: Span) -> str:
    first, last = span
    return str(first) if last == first + 1 else f"{first}-{last - 1}"


def table_of_entries(found: Evidence) -> list[list[str]]:
    """Columns and rows: corpus and both sides of dictionaries' entries."""
    return [["dictionary", "source", "target"], *([one.corpus, one.source, one.target] for one in found.entries)]
