"""Options of language model estimation."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class EstimationOptions:
    """Options for estimating an n-gram model."""

    order: Annotated[int, Option("Order of the model: number of words of the longest n-grams.", min=1, max=15)] = 3
    max_words: Annotated[
        int | None, Option("Maximum size of the vocabulary. Rarer words become <unk>.", min=1, shown="all")
    ] = None
    min_word_count: Annotated[int, Option("Minimum number of occurrences. Rarer words become <unk>.", min=1)] = 1
    memory: Annotated[
        int, Option("Memory for counting and sorting, in MB. Larger data are sorted in files.", min=100)
    ] = 500
