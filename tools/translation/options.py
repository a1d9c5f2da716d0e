"""Options of the decoder, shared by commands and the daemon."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from hierogram.daemon.exports.options import check_count_flags
from hierogram.daemon.shared_options import MAX_SCOPE, CurrentSample, MinCount, PosteriorMean, Tokenize, Tokenized
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

    @property
    def lm_folder(self) -> Path | None:
        """The folder of text in the target language, or None if `lm` is not a folder."""
        return Path(self.lm) if self.lm not in (None, NO_MODEL) and Path(self.lm).is_dir() else None

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
