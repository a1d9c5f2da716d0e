"""Options of tuning and evaluation."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Seed
from hierogram.storage.options import Option

METRICS = {"bleu": "", "chrf": "", "ter": "lower is better"}
TOKENIZERS = {
    "none": "the text is tokenised already",
    "13a": "sacrebleu's default",
    "intl": "",
    "char": "",
    "zh": "Chinese",
}


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """Options of tuning weights [Hopkins & May 2011]."""

    iterations: Annotated[int, Option("Most times that weights are trained.", min=1)] = 15
    best: Annotated[int, Option("Candidates of each sentence in each iteration.", min=2)] = 100
    length: Annotated[
        float,
        Option(
            "Words of translations to those of references that the weight of words is fitted to; 0: not.",
            min=0,
        ),
    ] = 1.0
    held_out: Annotated[
        int,
        Option(
            "Pairs of the store that are held back to tune on, where no FILE is named; a tenth at most.",
            min=1,
        ),
    ] = 200
    seed: Seed = 1


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Options of comparing translations."""

    metrics: Annotated[tuple[str, ...], Option("Metrics, separated by commas.", values=METRICS)] = tuple(METRICS)
    tokenizer: Annotated[str, Option("How BLEU divides text into tokens.", values=TOKENIZERS)] = "13a"
