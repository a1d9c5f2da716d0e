"""Options of the decoder, shared by commands and the daemon. This module imports neither numpy nor numba."""

from dataclasses import asdict, dataclass
from typing import Annotated

from hierogram.daemon.exports.options import check_counted
from hierogram.daemon.shared_options import (
    MAX_SCOPE,
    CurrentSample,
    MinCount,
    PosteriorMean,
    Tokenize,
    Tokenized,
)
from hierogram.storage.options import Option, OptionError, Options


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(Options):
    """Resources and search of the decoder: those of a command, and of the daemon."""

    lm: Annotated[
        str | None,
        Option(
            "Language model of the target side, ARPA or binary; `none`: translate without one.",
            metavar="FILE",
            shown="built from the store's target side",
        ),
    ] = None
    weights: Annotated[
        str | None, Option("Weights of features, as `hierogram tune` writes them.", metavar="FILE", shown="built in")
    ] = None
    posterior_mean: PosteriorMean = False
    current_sample: CurrentSample = False
    min_count: MinCount = 0.0
    max_scope: Annotated[int, MAX_SCOPE] = 2
    pops: Annotated[int, Option("Places popped for each span; 0: all, the search is exact.", min=0)] = 200
    glossary: Annotated[
        str | None, Option("Given translations: words, a tab, their translation, a line each.", metavar="FILE")
    ] = None

    def __post_init__(self) -> None:
        check_counted(self.posterior_mean, self.current_sample)

    def to_translate(self) -> "TranslateOptions":
        """Return the same settings as `TranslateOptions`."""
        return TranslateOptions(**asdict(self))


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(DecodingOptions):
    """Options of translating sentences; `tune` takes the same."""

    tokenize: Tokenize = None
    tokenized: Tokenized = False
    format: Annotated[
        str | None, Option("Format of GRAMMAR, where neither its manifest nor its name says it.", metavar="NAME")
    ] = None
    oov_similarity: Annotated[
        float | None,
        Option(
            "A word that no rule knows is translated as a known one that has at least this share of its letters; "
            "0: it is passed through.",
            min=0, max=1, shown="0; 0.75 in small stores",
        ),
    ] = None  # fmt: skip
    low_resource: Annotated[
        bool,
        Option(
            "Without --weights, translate as it suits stores of a few thousand pairs; always so in parts of words.",
        ),
    ] = False
    markup: Annotated[bool, Option('The text holds markup: <np translation="the house">la maison</np>.')] = False

    def __post_init__(self) -> None:
        DecodingOptions.__post_init__(self)
        if self.tokenize is not None and self.tokenized:
            raise OptionError("tokenize", "divides text, and --tokenized leaves it as it is: give one of them")
