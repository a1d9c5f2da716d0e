"""Evidence within a budget of characters, chosen for words that a reference probably contains."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hierogram.daemon.text.pipeline import TextPipeline
from hierogram.samplers.grammar.rules import unescape_terminal
from hierogram.tools.evidence.retrieval import Evidence, readable_pair, readable_rule
from hierogram.tools.evidence.sanitizing import BEGIN, END, enclose, sanitize

_EQUALS, _ALTERNATIVE, _LINE_END, _BEFORE_TARGET = " = ", ", ", "\n", "\n\t"
_ENCLOSING_CHARACTERS = len(BEGIN + _LINE_END + _LINE_END + END)
_ENTRY_PROBABILITY = 0.9
"""Probability that a reference contains a target word of a dictionary entry."""


@dataclass(slots=True)
class _Candidate:
    """Rule, dictionary entry or pair that may be added, as sanitized text."""

    source: str
    target: str
    target_words: tuple[str, ...]
    is_rendering: bool
    """True for rules and dictionary entries, which can be appended to the line of their source side."""
    position: int = -1
    """Position of the first word that a rule covers. Dictionary entries have -1 and are listed first."""

    def cost(self, has_line: bool) -> int:
        """Return the number of characters to add. `has_line` is True if a line has the same source side."""
        if not self.is_rendering:
            return len(self.source) + len(_BEFORE_TARGET) + len(self.target) + len(_LINE_END)
        return len(self.target) + (len(_ALTERNATIVE) if has_line else len(self.source) + len(_EQUALS) + len(_LINE_END))


def fit_budget(evidence: Evidence, characters: int, pipeline: TextPipeline) -> str:
    """Return evidence as text of up to `characters` characters, enclosed in tags that mark it as data.

    Renderings are lines `source = target, target`: dictionary entries, then rules in sentence order. Pairs follow with
    two lines each. Each step adds the rendering or pair with the most expected new target words per character.
    """
    expected = _expected_words(evidence)
    candidates = list(_list_candidates(evidence, pipeline))
    chosen: dict[str, list[_Candidate]] = {}
    pairs: list[_Candidate] = []
    seen: Counter[str] = Counter()
    remaining = characters + len(_LINE_END) - _ENCLOSING_CHARACTERS

    def gain(candidate: _Candidate) -> float:
        new_words = sum(expected.get(word, 0.0) for word in set(candidate.target_words) if not seen[word])
        return new_words / candidate.cost(candidate.source in chosen)

    while affordable := [each for each in candidates if each.cost(each.source in chosen) <= remaining]:
        best = max(affordable, key=gain)
        if gain(best) <= 0:
            break
        remaining -= best.cost(best.source in chosen)
        seen.update(best.target_words)
        candidates.remove(best)
        if best.is_rendering:
            chosen.setdefault(best.source, []).append(best)
        else:
            pairs.append(best)
    lines = [
        source + _EQUALS + _ALTERNATIVE.join(candidate.target for candidate in entries)
        for source, entries in sorted(chosen.items(), key=lambda line: line[1][0].position)
    ]
    return enclose(_LINE_END.join([*lines, *(pair.source + _BEFORE_TARGET + pair.target for pair in pairs)]))


def _expected_words(evidence: Evidence) -> dict[str, float]:
    """Return the probability that a reference contains each target word, assuming independent positions."""
    votes: dict[int, defaultdict[str, float]] = {}
    totals: Counter[int] = Counter()
    counted: set[tuple[str, int]] = set()
    for rule in evidence.rules:
        words = set(_words(rule.target))
        for match in rule.matches:
            covered = match.covered
            weight = len(covered) ** 2
            for position in covered:
                if (rule.source, position) not in counted:
                    counted.add((rule.source, position))
                    totals[position] += weight
                word_votes = votes.setdefault(position, defaultdict(float))
                for word in words:
                    word_votes[word] += weight * rule.p_target_given_source / max(1, len(words) / len(covered))
    absence: dict[str, float] = {}
    for position, word_votes in votes.items():
        for word, vote in word_votes.items():
            absence[word] = absence.get(word, 1.0) * (1 - min(1.0, vote / totals[position]))
    for entry in evidence.entries:
        for word in entry.target.split(" "):
            absence[word] = absence.get(word, 1.0) * (1 - _ENTRY_PROBABILITY)
    return {word: 1 - probability for word, probability in absence.items() if any(map(str.isalnum, word))}


def _list_candidates(evidence: Evidence, pipeline: TextPipeline) -> Iterator[_Candidate]:
    for rule in evidence.rules:
        if words := tuple(_words(rule.target)):
            source, target = map(sanitize, readable_rule(rule, pipeline))
            yield _Candidate(source, target, words, True, rule.matches[0].covered[0])
    for pairs, is_rendering in ((evidence.entries, True), (evidence.pairs, False)):
        for pair in pairs:
            yield _Candidate(*readable_pair(pair, pipeline), tuple(pair.target.split(" ")), is_rendering)


def _words(side: str) -> Iterable[str]:
    return (word for symbol in side.split(" ") if (word := unescape_terminal(symbol)) is not None)
