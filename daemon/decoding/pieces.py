"""Parts of sentences that were decoded at once: their rules and where these stand, and which words they link."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hierogram.daemon.decoding.fixed_words import Words
from hierogram.daemon.decoding.grammars import TranslationGrammar
from hierogram.daemon.learning.kinds.kind import RuleUse
from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, span_of
from hierogram.samplers.decoding.decoder import Decoded
from hierogram.samplers.grammar.rules import Symbol, render_side

Span = tuple[int, int]


class _Use(NamedTuple):
    """A rule where it is used: its number, half-open spans of positions and of target words, what fills its gaps."""

    rule: int
    source: Span
    target: Span
    children: "list[_Use]"


@dataclass(frozen=True)
class Piece:
    """A part of a sentence: its derivations, the source words of each of its positions, its own target words."""

    grammar: TranslationGrammar
    decoded: Decoded
    positions: list[Words]
    own: list[str]

    @property
    def source_words(self) -> int:
        """How many source words it has."""
        return sum(map(len, self.positions))

    def target_words(self, number: int) -> int:
        """How many target words a derivation has."""
        starts = self.decoded.outputs.word_start
        return int(starts[number + 1] - starts[number])

    def word(self, number: int) -> str:
        """A target word, one of the grammar's or the sentence's own."""
        known = len(self.grammar.target_words)
        return self.grammar.target_words[number] if number < known else self.own[number - known]

    def starts(self) -> list[int]:
        """Where the source words of each position begin, and where the last ones end."""
        starts = [0]
        for words in self.positions:
            starts.append(starts[-1] + len(words))
        return starts

    def sides(self, use: _Use) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
        """The sides of a rule that is used, nonterminals as 1, 2, …"""
        rules = self.grammar.packed.rules
        if use.rule == GLUE_NEXT:
            return (1, 2), (1, 2)
        if use.rule >= rules:
            sentence, extra = self.decoded.sentence, use.rule - rules
            target = sentence.target[sentence.target_start[extra] : sentence.target_start[extra + 1]].tolist()
            return self.positions[use.source[0]], tuple(map(self.word, target))
        source, target = self.grammar.packed.source_of(use.rule), self.grammar.packed.target_of(use.rule)
        words = self.grammar.source_words
        return (
            tuple(-symbol if symbol < 0 else words[symbol] for symbol in source),
            tuple(-symbol if symbol < 0 else self.word(symbol) for symbol in target),
        )

    def tree(self, number: int) -> _Use:
        """The root of a derivation; the rules that begin and end a sentence are left out."""
        out = self.decoded.outputs
        uses = out.uses[out.use_start[number] : out.use_start[number + 1]]
        # What stands in a use comes after it.
        below: dict[int, dict[int, int]] = {}
        for k, parent in enumerate(uses["parent"].tolist()):
            below.setdefault(parent, {})[int(uses["slot"][k])] = k
        words = len(self.decoded.sentence.words)
        nodes: dict[int, _Use] = {}
        for k in reversed(range(len(uses))):
            children = [nodes[child] for _, child in sorted(below.get(k, {}).items())]
            rule = int(uses["rule"][k])
            if rule in (GOAL, GLUE_START):
                nodes[k] = children[0]
            else:
                target = (int(uses["first"][k]), int(uses["last"][k]))
                nodes[k] = _Use(rule, span_of(words, int(uses["cell"][k])), target, children)
        return nodes[0]


def _preorder(root: _Use) -> Iterator[_Use]:
    waiting = [root]
    while waiting:
        use = waiting.pop()
        yield use
        waiting += reversed(use.children)


def uses_of(piece: Piece, number: int) -> list[RuleUse]:
    """The rules of a derivation, top-down in source order; spans are of words."""
    uses = list(_preorder(piece.tree(number)))
    numbers = {id(use): k for k, use in enumerate(uses)}
    starts = piece.starts()
    found = []
    for use in uses:
        source, target = piece.sides(use)
        span = (starts[use.source[0]], starts[use.source[1]])
        children = tuple(numbers[id(child)] for child in use.children)
        found.append(RuleUse(render_side(source), render_side(target), span, use.target, children))
    return found


def links_of(piece: Piece, number: int) -> list[Span]:
    """Linked positions of source and target words of a derivation, in order.

    Words with a given translation are all linked with all its words.
    """
    starts = piece.starts()
    found: set[Span] = set()
    for use in _preorder(piece.tree(number)):
        if use.rule >= piece.grammar.packed.rules:
            sources = range(starts[use.source[0]], starts[use.source[1]])
            found |= {(i, j) for i in sources for j in range(*use.target)}
        elif use.rule >= 0:
            source, target = piece.sides(use)
            at = [starts[place] for place in _places(source, use.source[0], [child.source for child in use.children])]
            to = _places(target, use.target[0], [child.target for child in use.children])
            found |= {(at[i], to[j]) for i, j in piece.grammar.packed.links_of(use.rule)}
    return sorted(found)


def _places(side: tuple[Symbol, ...], start: int, spans: list[Span]) -> list[int]:
    """Where each symbol of a side begins."""
    places = []
    for symbol in side:
        places.append(start)
        start = start + 1 if isinstance(symbol, str) else start + spans[symbol - 1][1] - spans[symbol - 1][0]
    return places
