"""Options of the decoder, declared once: importing this module imports neither numpy nor numba."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.exports.options import DRAWN_HELP, MEANS_HELP, check_counted
from hierogram.storage.options import Option, OptionError


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Options of translating sentences; `tune` takes the same."""

    lm: Annotated[
        str | None, Option("Language model of the target side, ARPA or binary.", metavar="FILE", shown="none")
    ] = None
    weights: Annotated[
        str | None, Option("Weights of features, as `hierogram tune` writes them.", metavar="FILE", shown="built in")
    ] = None
    tokenize: Annotated[
        str | None,
        Option(
            "Divide text into tokens, by the rules of two languages: fr,en. A store, and what it exports, do as the "
            "store's settings say without this.",
            metavar="SRC,TGT", shown="by the store",
        ),
    ] = None  # fmt: skip
    tokenized: Annotated[bool, Option("Text is tokens separated by spaces: leave it as it is.")] = False
    format: Annotated[
        str | None, Option("Format of GRAMMAR, where neither its manifest nor its name says it.", metavar="NAME")
    ] = None
    means: Annotated[bool, Option(f"From a store: {MEANS_HELP}")] = False
    drawn: Annotated[bool, Option(f"From a store: {DRAWN_HELP}")] = False
    min_count: Annotated[float, Option("From a store: leave out rules with a lower count.", least=0, expert=True)] = 0.0
    max_scope: Annotated[int, Option("Leave out rules that match slower than O(n^K).", least=0, metavar="K")] = 2
    span: Annotated[int, Option("Words that a rule of the grammar covers, at most.", least=1, expert=True)] = 20
    pops: Annotated[int, Option("Places popped for each span; 0: all, the search is exact.", least=0, expert=True)] = (
        200
    )
    max_words: Annotated[int, Option("Longer sentences are translated in parts.", least=1, most=1000, expert=True)] = (
        100
    )
    alike: Annotated[
        float | None,
        Option(
            "A word that no rule knows is translated as a known one that has at least this share of its letters; "
            "0: it is passed through.",
            least=0, most=1, expert=True, shown="0; 0.75 in small stores",
        ),
    ] = None  # fmt: skip
    small: Annotated[
        bool,
        Option(
            "Without --weights, translate as it suits stores of a few thousand pairs; always so in parts of words.",
            expert=True,
        ),
    ] = False
    glossary: Annotated[
        str | None, Option("Given translations: words, a tab, their translation, a line each.", metavar="FILE")
    ] = None
    markup: Annotated[bool, Option('The text holds markup: <np translation="the house">la maison</np>.')] = False

    def __post_init__(self) -> None:
        """Raise `OptionError` where options contradict each other."""
        check_counted(self.means, self.drawn)
        if self.tokenize is not None and self.tokenized:
            raise OptionError("tokenize", "divides text, and --tokenized leaves it as it is: give one of them")
