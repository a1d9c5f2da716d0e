"""Options shared by commands, library functions and configuration sections."""

from dataclasses import dataclass, replace
from typing import Annotated

from hierogram.storage.options import Option

AsJson = Annotated[bool, Option("Print JSON.", flags=("--json",))]
CORPUS = Option("Corpus to which pairs are added.", metavar="NAME")
Corpus = Annotated[str | None, Option("Count only the pairs of this corpus.", metavar="NAME", shown="all corpora")]
CurrentSample = Annotated[bool, Option("Count the uses of rules in the current derivations, which are one sample.")]
HOST = Option(
    "Address to listen on. Addresses other than loopback require a token.", metavar="ADDRESS", shown="127.0.0.1"
)
Languages = Annotated[
    str | None, Option("Source and target language, such as fr,en.", metavar="SRC,TGT", shown="the store's")
]
LIMIT = Option("Show up to N results.", min=1, metavar="N")
LIBRARY_LIMIT = replace(LIMIT, min=0)
"""Limit of library functions. Unlike commands, they accept 0, because callers may compute the limit."""
MAX_SCOPE = Option(
    "Omit rules with a larger scope. Parsing with rules of scope k takes time O(n^k).", min=0, metavar="K"
)
MinCount = Annotated[float, Option("Omit rules with a lower count.", min=0, below=float("inf"))]
OUTPUT = Option(
    "File to write, or - for standard output. The suffix .gz or .zst selects compression; other suffixes may select "
    "the format.",
    flags=("--output", "-o"), metavar="FILE",
)  # fmt: skip
PORT = Option("Port to listen on; 0 picks any free port.", min=0, max=65535, shown="8470")
PosteriorMean = Annotated[
    bool, Option("Count only expected uses (posterior means), without the other counts of a translation grammar.")
]
REFERENCE = Option(
    "References, line by line; may be repeated. An empty line means that this file has no reference for the sentence.",
    metavar="FILE", flags=("--reference", "-r"),
)  # fmt: skip
Seed = Annotated[int, Option("Random seed.", min=0)]
SWEEPS = Option(
    "Sweeps over all pairs or trees after the burn-in. The settings of the store determine the burn-in.",
    min=0, shown="24; 74 for trees and ITGs",
)  # fmt: skip
STANDARD_STREAM = "-"
"""Name of standard input and standard output."""
SPOOL = Option("Folder to watch for files; created if it does not exist.", metavar="FOLDER", shown="none")
THREADS = Option("Number of threads. Results do not depend on it.", min=1, shown="one per core")
Threads = Annotated[int | None, THREADS]
_THREADS_OF_PROCESS = "Number of threads of each process. Results do not depend on it."
ProcessThreads = Annotated[int | None, Option(_THREADS_OF_PROCESS, min=1, shown="one per core; with workers, 1")]
_TOKENIZE = "Tokenize text by the rules of one or two languages, such as fr,en."
Tokenize = Annotated[str | None, Option(_TOKENIZE, metavar="LANGUAGES", shown="as in the store")]
Tokenized = Annotated[bool, Option("Text is already tokenized: split it at spaces only.")]


@dataclass(frozen=True, kw_only=True)
class RuleQuery:
    """Query for rules with a given source or target side, most used first."""

    source: Annotated[str | None, Option("Exact source side of the rules.", metavar="SIDE")] = None
    target: Annotated[str | None, Option("Exact target side of the rules.", metavar="SIDE")] = None
    limit: Annotated[int, LIMIT] = 20


@dataclass(frozen=True, slots=True)
class DictionaryOptions:
    """Options of dictionary entries. Without `block`, the aligner links the words of multi-word entries."""

    weight: Annotated[int, Option("Dictionary: number of pairs that an entry counts as.", min=1, max=1_000)] = 1
    block: Annotated[bool, Option("Dictionary: link all words of multi-word entries with each other.")] = False
