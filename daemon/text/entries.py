"""Options of dictionary entries: weight and links."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated

from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.options import Option
from hierogram.storage.records.pairs import NewPairs


@dataclass(frozen=True, slots=True)
class DictionaryOptions:
    """Options of dictionary entries. If `block` is false, the aligner links the words of entries with several words."""

    weight: Annotated[int, Option("Dictionary: number of pairs that an entry counts as.", min=1, max=1_000)] = 1
    block: Annotated[bool, Option("Dictionary: link all words of an entry with each other if it has several.")] = False

    def of(self, pairs: NewPairs) -> NewPairs:
        """Return each distinct entry `weight` times, with the links of its words."""
        indices = [k for k in range(len(pairs)) if pairs.occurrences[k] == 0 for _ in range(self.weight)]
        repeated = pairs.at(indices)
        copies = list(range(self.weight)) * (len(repeated) // self.weight)
        sizes = zip(repeated.source_lengths, repeated.target_lengths, strict=True)
        known_links = {
            k: KnownLinks(frozenset(product(range(height), range(width))))
            for k, (height, width) in enumerate(sizes)
            if self.block or height == width == 1
        }
        return replace(repeated, occurrences=copies, known=known_links)
