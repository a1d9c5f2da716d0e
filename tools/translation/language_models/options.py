"""Options of language model estimation."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.storage.options import Option


@dataclass(frozen=True, slots=True)
class EstimationOptions:
    """Options of estimating an n-gram model."""

    order: Annotated[int, Option("Words of the longest n-grams.", min=1, max=15)] = 3
    max_words: Annotated[
        int | None,
        Option("Most words that the vocabulary keeps, by frequency; others are <unk>.", min=1, shown="all"),
    ] = None
    min_word_count: Annotated[int, Option("Words that occur less often are <unk>.", min=1)] = 1
    memory: Annotated[
        int, Option("Memory for counting and sorting, in MB; what does not fit goes to files.", min=100)
    ] = 500
