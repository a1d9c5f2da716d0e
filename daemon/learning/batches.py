"""From stored pairs to what the samplers work on: word numbers, hashes, links, forests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.tree_batches import LoadedTrees, load_trees
from hierogram.samplers.counts.rendering import Spellings, spellings
from hierogram.samplers.forests.batch import Batch, make_batch
from hierogram.samplers.forests.forest import Bitext, build_forests
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.grammar.keys import ALL_BITS, hash_words
from hierogram.samplers.grammar.settings import TREES
from hierogram.storage.records import PairRow, Settings


@dataclass(frozen=True, slots=True)
class LoadedPairs:
    """A batch and the spellings of its words, in the batch's own numbering."""

    batch: Batch
    source: Spellings
    target: Spellings


def longest_rule(settings: Settings) -> int:
    """No rule is longer: all words of both sides, or nonterminals in their place, and a scope of one more."""
    return 2 * settings.max_tokens + 1


def number_words(texts: Iterable[str]) -> tuple[NDArray[np.int32], NDArray[np.int64], list[str]]:
    """Word numbers of all texts one after the other, the texts' offsets, and the words by number."""
    numbers: dict[str, int] = {}
    words: list[int] = []
    offsets = [0]
    for text in texts:
        words.extend([numbers.setdefault(word, len(numbers)) for word in text.split(" ")])
        offsets.append(len(words))
    return np.array(words, np.int32), np.array(offsets, np.int64), list(numbers)


def read_links(alignments: Sequence[str]) -> tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int64]]:
    """Source and target positions of all links of canonical Pharaoh lines, and the lines' offsets."""
    offsets = np.cumsum([0, *[line.count("-") for line in alignments]], dtype=np.int64)
    numbers = np.array(" ".join(alignments).replace("-", " ").split(), np.int16)
    return numbers[0::2].copy(), numbers[1::2].copy(), offsets


def load_batch(
    rows: Sequence[PairRow], settings: Settings, key_mask: np.uint64 = ALL_BITS
) -> LoadedPairs | LoadedTrees:
    """The pairs, or the trees of a tree grammar's store, as a batch with their forests built."""
    if settings.grammar == TREES:
        return load_trees([row.target for row in rows], [row.id for row in rows], settings.key_salt, key_mask)
    source, source_offset, source_words = number_words(row.source for row in rows)
    target, target_offset, target_words = number_words(row.target for row in rows)
    link_source, link_target, link_offset = read_links([row.alignment for row in rows])
    bitext = Bitext(source, source_offset, target, target_offset, link_source, link_target, link_offset)
    words = add_up(
        hash_words(source_words, settings.key_salt)[source],
        hash_words(target_words, settings.key_salt)[target],
        key_mask,
    )
    batch = make_batch(
        bitext,
        words,
        build_forests(bitext, settings.span_limit),
        np.array([row.id for row in rows], np.int64),
        longest_rule(settings),
    )
    return LoadedPairs(batch, spellings(source_words), spellings(target_words))


__all__ = [
    "ALL_BITS",
    "LoadedPairs",
    "LoadedTrees",
    "load_batch",
    "longest_rule",
    "number_words",
    "read_links",
]
