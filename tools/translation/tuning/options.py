"""Options of tuning and of evaluation."""

from dataclasses import dataclass
from typing import Annotated

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

    iterations: Annotated[int, Option("Most times that weights are trained.", least=1)] = 15
    starts: Annotated[
        int,
        Option(
            "Times that it begins at the starting weights, with the candidates so far; again where rounds find little.",
            least=1,
            expert=True,
        ),
    ] = 3
    best: Annotated[int, Option("Candidates of each sentence in each iteration.", least=2)] = 100
    drawn_pairs: Annotated[
        int, Option("Pairs of candidates that are drawn of each sentence.", least=1, expert=True)
    ] = 5000
    kept_pairs: Annotated[
        int, Option("Pairs of these that are kept: those with the largest gap.", least=1, expert=True)
    ] = 50
    gap: Annotated[float, Option("Least gap in sentence BLEU of a pair, 0 to 1.", least=0, below=1, expert=True)] = 0.05
    interpolation: Annotated[
        float,
        Option(
            "Largest share of the trained weights in the next ones, beside the best so far.",
            above=0,
            most=1,
            expert=True,
        ),
    ] = 1.0
    length: Annotated[
        float,
        Option(
            "Words of translations to those of references that the weight of words is fitted to; 0: not.",
            least=0,
            expert=True,
        ),
    ] = 1.0
    prior: Annotated[
        float,
        Option("The starting weights count as if this number of sentences had spoken for them.", least=0, expert=True),
    ] = 0.0
    held_out: Annotated[
        int,
        Option(
            "Pairs of the store that are held back to tune on, where no FILE is named; a tenth at most.",
            least=1,
            expert=True,
        ),
    ] = 200
    seed: Annotated[int, Option("Seed of the pairs that are drawn.", least=0)] = 1


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Options of comparing translations."""

    metrics: Annotated[tuple[str, ...], Option("Metrics, separated by commas.", values=METRICS)] = tuple(METRICS)
    tokenizer: Annotated[str, Option("How BLEU divides text into tokens.", values=TOKENIZERS)] = "13a"
    lowercase: Annotated[bool, Option("Compare by BLEU and chrF without case; TER always does.", expert=True)] = False
    resamples: Annotated[int, Option("Bootstrap resamples.", least=100, expert=True)] = 1000
    seed: Annotated[int, Option("Seed of the resamples.", least=0, expert=True)] = 12345
