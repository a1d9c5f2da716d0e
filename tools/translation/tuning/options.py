"""Options of tuning and evaluation."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed
from hierogram.storage.options import Option

METRICS = {"bleu": "", "chrf": "", "ter": "lower is better"}
TOKENIZERS = {"none": "tokenized text", "13a": "default of sacrebleu", "intl": "", "char": "", "zh": "Chinese"}


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """Options for tuning weights [Hopkins & May 2011]."""

    iterations: Annotated[int, Option("Maximum number of rounds after the first.", min=1)] = 15
    best: Annotated[int, Option("Candidates per sentence in each round.", min=2)] = 100
    length: Annotated[
        float,
        Option(
            "Target ratio of translation length to reference length. The weight of the word count is fitted to reach "
            "it. 0 disables the fit.",
            min=0,
        ),
    ] = 1.0
    held_out: Annotated[
        int, Option("Without FILE: number of pairs to hold out for tuning, up to a tenth of the store.", min=1)
    ] = 200
    seed: Seed = 1


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Options for comparing translations."""

    metrics: Annotated[tuple[str, ...], Option("Metrics, separated by commas.", values=METRICS)] = tuple(METRICS)
    tokenizer: Annotated[str, Option("Tokenization of BLEU.", values=TOKENIZERS)] = "13a"
