"""Options of decoding, language models, tuning and evaluation, shared by commands and the daemon."""

from dataclasses import asdict, dataclass
from typing import Annotated

from hierogram.daemon.exports.options import check_count_flags
from hierogram.daemon.shared_options import MAX_SCOPE, CurrentSample, MinCount, PosteriorMean, Seed, Tokenize, Tokenized
from hierogram.storage.options import Option, OptionError, Options

NO_MODEL = "none"
"""Value of the option `lm` for no language model."""

BEST = Option(
    "Maximum number of translations per line. If it is above 1, lines are `number ||| translation ||| features ||| "
    "score`.",
    min=1,
)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(Options):
    """Options of decoding: grammar, language model, weights and search."""

    lm: Annotated[
        str | None,
        Option(
            "Language model of the target language (ARPA or binary), a folder of text in this language to add to the "
            "model of the store, or `none`.",
            metavar="FILE",
            shown="built from the target side of the store",
        ),
    ] = None
    weights: Annotated[
        str | None, Option("Feature weights written by `hierogram tune`.", metavar="FILE", shown="built in")
    ] = None
    posterior_mean: PosteriorMean = False
    current_sample: CurrentSample = False
    min_count: MinCount = 0.0
    max_scope: Annotated[int, MAX_SCOPE] = 2
    pops: Annotated[int, Option("Number of hypotheses per span. 0 searches exactly.", min=0)] = 200
    glossary: Annotated[
        str | None, Option("Fixed translations, one per line: words, a tab, their translation.", metavar="FILE")
    ] = None

    def __post_init__(self) -> None:
        check_count_flags(self.posterior_mean, self.current_sample)

    def to_translate(self) -> "TranslateOptions":
        """Return the same settings as `TranslateOptions`."""
        return TranslateOptions(**asdict(self))


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(DecodingOptions):
    """Decoding options, and options of text: tokenization, unknown words, markup."""

    tokenize: Tokenize = None
    tokenized: Tokenized = False
    format: Annotated[
        str | None, Option("Format of GRAMMAR.", metavar="NAME", shown="from the manifest or suffix of GRAMMAR")
    ] = None
    oov_similarity: Annotated[
        float,
        Option(
            "Translate an unknown word like the most similar known word, if they share at least this fraction of "
            "letters. 0 leaves unknown words unchanged, except compounds.",
            min=0, max=1,
        ),
    ] = 0.75  # fmt: skip
    markup: Annotated[bool, Option('The text contains markup such as <np translation="the house">la maison</np>.')] = (
        False
    )

    def __post_init__(self) -> None:
        DecodingOptions.__post_init__(self)
        if self.tokenize is not None and self.tokenized:
            raise OptionError("tokenize", "cannot be combined with --tokenized")


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
