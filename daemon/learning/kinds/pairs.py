"""From stored pairs to what the samplers of phrases work on: word numbers, hashes, links, forests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.counting import ForestPairs
from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.counts.texts import Spellings, render_rules, spellings
from hierogram.samplers.exceptions import AlignmentInputError
from hierogram.samplers.forests.batch import Batch, make_batch
from hierogram.samplers.forests.forest import Bitext, build_forests
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.keys import hash_words
from hierogram.samplers.grammar.numbers import ONE_SQUARE, ONE_USE
from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS
from hierogram.samplers.grammar.sizes import length_of, source_terminals_of, target_terminals_of
from hierogram.storage.records import PairRow, Settings
from hierogram.storage.records.columns import RuleDeltas

_ID_BITS = 44


@dataclass(frozen=True, slots=True)
class LoadedPairs(ForestPairs):
    """A batch, the spellings of its words, in the batch's own numbering, and the rows that it was made from."""

    batch: Batch
    source: Spellings
    target: Spellings
    rows: Sequence[PairRow]

    def rules(self, deltas: CountDeltas, chosen: NDArray[np.int64]) -> RuleDeltas:
        """Return the chosen entries of rule-count deltas of these pairs, as columns for the store."""
        sizes = deltas.rule_sizes[chosen]
        source_terminals = source_terminals_of(sizes).astype(np.int32)
        target_terminals = target_terminals_of(sizes).astype(np.int32)
        nonterminals = deltas.nonterminals[chosen]
        sources, targets = render_rules(deltas, chosen, self.source, self.target)
        return RuleDeltas(
            keys=deltas.keys[chosen],
            sources=sources,
            targets=targets,
            lengths=length_of(sizes).astype(np.int32),
            scopes=deltas.scopes[chosen],
            nonterminals=nonterminals,
            source_terminals=source_terminals,
            target_terminals=target_terminals,
            hiero=is_hiero(nonterminals, deltas.adjacent[chosen], source_terminals, target_terminals),
            counts=deltas.counts[chosen],
            expected_uses=deltas.sampled[chosen] / ONE_USE,
            expected_uses_variances=deltas.variances[chosen] / ONE_SQUARE,
        )


def is_hiero(
    nonterminals: NDArray[np.int32],
    adjacent: NDArray[np.int32],
    source_terminals: NDArray[np.int32],
    target_terminals: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Return which rules meet the constraints of Chiang 2007 that a rule's two sides show by themselves.

    At most two nonterminals, not adjacent on the source side, at most five source symbols, and words on both sides.
    """
    admissible: NDArray[np.bool_] = (
        (nonterminals <= HIERO_MAX_NONTERMINALS)
        & (adjacent == 0)
        & (source_terminals + nonterminals <= HIERO_MAX_SOURCE_SYMBOLS)
        & (source_terminals > 0)
        & (target_terminals > 0)
    )
    return admissible


def longest_rule(settings: Settings) -> int:
    """Return a bound on rules: all words of both sides, or nonterminals in their place, and a scope of one more."""
    return 2 * settings.max_tokens + 1


def number_words(texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """Return word numbers of all texts one after the other, the texts' offsets, and the words by number."""
    numbers: dict[str, int] = {}
    words: list[int] = []
    offsets = [0]
    for text in texts:
        words.extend([numbers.setdefault(word, len(numbers)) for word in text.split(" ")])
        offsets.append(len(words))
    return np.array(words, np.int32), np.array(offsets, np.int64), list(numbers)


def read_links(alignments: Sequence[str]) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int64]]:
    """Return source and target positions of all links of canonical Pharaoh lines, and the lines' offsets."""
    offsets = np.cumsum([0, *[line.count("-") for line in alignments]], dtype=np.int64)
    numbers = np.array(" ".join(alignments).replace("-", " ").split(), np.int16)
    return numbers[0::2].copy(), numbers[1::2].copy(), offsets


def streams_of(rows: Sequence[PairRow]) -> NDArray[np.int64]:
    """Return names of the pairs' random streams: the id, another one each time that its schedule begins again."""
    return np.array([row.id + (row.restarts << _ID_BITS) for row in rows], np.int64)


def _check_links(rows: Sequence[PairRow], bitext: Bitext) -> None:
    """Raise `AlignmentInputError` where a link is beyond a pair's words, since kernels would write beyond arrays."""
    links = np.diff(bitext.link_offset)
    beyond = bitext.link_source >= np.repeat(np.diff(bitext.source_offset), links)
    beyond |= bitext.link_target >= np.repeat(np.diff(bitext.target_offset), links)
    if beyond.any():
        link = int(np.flatnonzero(beyond)[0])
        row = rows[int(np.searchsorted(bitext.link_offset, link, "right")) - 1]
        named = f"{bitext.link_source[link]}-{bitext.link_target[link]}"
        raise AlignmentInputError(f"the link {named} of pair {row.id} is beyond its words")


def load_pairs(rows: Sequence[PairRow], settings: Settings) -> LoadedPairs:
    """Return the pairs with their forests built; raises `AlignmentInputError` where a link is beyond the words."""
    source, source_offset, source_words = number_words(row.source for row in rows)
    target, target_offset, target_words = number_words(row.target for row in rows)
    link_source, link_target, link_offset = read_links([row.alignment for row in rows])
    bitext = Bitext(source, source_offset, target, target_offset, link_source, link_target, link_offset)
    _check_links(rows, bitext)
    words = add_up(
        hash_words(source_words, settings.key_salt)[source],
        hash_words(target_words, settings.key_salt)[target],
        keys.ALL_BITS,
    )
    batch = make_batch(
        bitext,
        words,
        build_forests(bitext, settings.span_limit),
        streams_of(rows),
        longest_rule(settings),
    )
    return LoadedPairs(batch, spellings(source_words), spellings(target_words), rows)
