"""Whole words of a store whose words are split into parts, and links between these words."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from hierogram.daemon.text.segments import link_parts, make_segmenter, part_spans
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.rules import Side, Span, Symbol, parse_side, render_side
from hierogram.storage.records.pairs import parse_links
from hierogram.storage.records.parts import PART_MARK, are_joined, index_words, is_modifier, join_parts

CONTINUATION = "-"
"""Hyphen displayed on the side of a word part where the word continues."""


def find_word_span(word_indices: Sequence[int], tokens: Span) -> Span:
    """Convert a span of tokens to a span of words. For `word_indices`, see `index_words`."""
    first, last = tokens
    return word_indices[first], word_indices[first] if first == last else word_indices[last - 1] + 1


def _render_part(run: Sequence[str]) -> str:
    before = CONTINUATION if run[0].startswith(PART_MARK) else ""
    return before + join_parts(" ".join(run)) + (CONTINUATION if is_modifier(run[-1]) else "")


class PairInWords(NamedTuple):
    """Stored sentence pair in whole words, with links between words.

    The lists of word indices contain the index of the word of each token, and at the end the number of words.
    `link_probabilities` are numbers separated by spaces, in the order of `alignment`, or None if unknown. The
    probability of a link is the maximum over the links between parts of the two words.
    """

    source: str
    target: str
    alignment: str
    source_word_indices: list[int]
    target_word_indices: list[int]
    link_probabilities: str | None

    def to_word_links(self, links: KnownLinks) -> KnownLinks:
        """Convert human links between tokens to human links between words."""
        source, target = self.source_word_indices, self.target_word_indices
        return KnownLinks(*(frozenset((source[i], target[j]) for i, j in part_links) for part_links in links))

    def to_token_links(self, word_links: KnownLinks) -> KnownLinks:
        """Convert links between words to links between all their tokens. Raises `ValueError`."""
        if problem := word_links.problem(self.source_word_indices[-1], self.target_word_indices[-1]):
            raise ValueError(problem)
        token_spans = [part_spans([indices[:-1].count(w) for w in range(indices[-1])]) for indices in self[3:5]]
        return KnownLinks(*(frozenset(link_parts(links, *token_spans)) for links in word_links))


@dataclass(frozen=True, slots=True)
class WordView:
    """Whole-word view of a store, given its setting `word_parts` (() if its tokens are words)."""

    word_parts: tuple[str, ...]

    def parts(self, side: int, words: str) -> str:
        """Split a line of words into the parts of the store's source (0) or target (1) side."""
        return make_segmenter(self.word_parts[side]).split_line(words) if self.word_parts else words

    def symbols(self, side: Side) -> list[Symbol]:
        """Return the symbols of a rule's side, with adjacent parts joined."""
        if not self.word_parts:
            return list(side)
        runs: list[int | list[str]] = []
        for symbol in side:
            if not isinstance(symbol, str):
                runs.append(symbol)
            elif runs and isinstance(run := runs[-1], list) and are_joined(run[-1], symbol):
                run.append(symbol)
            else:
                runs.append([symbol])
        return [run if isinstance(run, int) else _render_part(run) for run in runs]

    def side(self, text: str) -> str:
        """Convert a rule's side in rule notation as `symbols` does. Malformed text is returned unchanged."""
        if PART_MARK not in text or not self.word_parts:
            return text
        try:
            return render_side(tuple(self.symbols(parse_side(text))))
        except ValueError:
            return text

    def line(self, tokens: str) -> str:
        """Convert a stored line to whole words."""
        return join_parts(tokens) if self.word_parts else tokens

    def pair(self, source: str, target: str, alignment: str = "", link_probabilities: str | None = None) -> PairInWords:
        """Convert a stored pair to whole words. Two words are linked if any of their parts are linked."""
        sides = [text.split(" ") for text in (source, target)]
        if not self.word_parts:
            source_word_indices, target_word_indices = (list(range(len(side) + 1)) for side in sides)
            return PairInWords(source, target, alignment, source_word_indices, target_word_indices, link_probabilities)
        source_indices, target_indices = (index_words(side) for side in sides)
        links: dict[tuple[int, int], str] = {}
        probabilities = repeat("") if link_probabilities is None else link_probabilities.split()
        for (i, j), probability in zip(parse_links(alignment), probabilities, strict=False):
            link = source_indices[i], target_indices[j]
            # Compare probabilities as text, because all have the same number of decimals.
            links[link] = max(probability, links.get(link, ""))
        line = " ".join(f"{i}-{j}" for i, j in sorted(links))
        words = join_parts(source), join_parts(target), line, source_indices, target_indices
        highest = " ".join(links[link] for link in sorted(links))
        return PairInWords(*words, None if link_probabilities is None else highest)
