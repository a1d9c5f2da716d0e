"""Options that several commands, library functions and sections of the configuration share."""

from typing import Annotated

from hierogram.storage.options import Option

AsJson = Annotated[bool, Option("Write JSON for programs.", flags=("--json",))]
CORPUS = Option("Corpus of the pairs.", metavar="NAME")
Corpus = Annotated[str | None, CORPUS]
CurrentSample = Annotated[
    bool, Option("Uses in the present derivations, one draw, instead of the grammar for translating, or of means.")
]
HOST = Option("Address to listen at; any but loopback needs a token.", metavar="ADDRESS", shown="127.0.0.1")
Languages = Annotated[
    str | None, Option("Languages of source and target, as in fr,en.", metavar="SRC,TGT", shown="the store's")
]
LIMIT = Option("Show up to N results.", min=1, metavar="N")
MAX_SCOPE = Option("Leave out rules that parse slower than O(n^K).", min=0, metavar="K")
MinCount = Annotated[float, Option("Leave out rules with a lower count.", min=0, below=float("inf"))]
OUTPUT = Option(
    "File to write; - is standard output. The suffix .gz or .zst compresses it; other suffixes may select the format.",
    flags=("--output", "-o"), metavar="FILE",
)  # fmt: skip
PORT = Option("Port to listen at; 0 takes any free one.", min=0, max=65535, shown="8470")
PosteriorMean = Annotated[bool, Option("Expected uses of rules, instead of the grammar for translating.")]
REFERENCE = Option(
    "References, line for line; may be given again. A sentence without a reference in one file has an empty line.",
    metavar="FILE", flags=("--reference", "-r"),
)  # fmt: skip
Seed = Annotated[int, Option("Seed of the random streams.", min=0)]
SWEEPS = Option(
    "Sweeps over all pairs or trees after their burn-in, which takes new pairs 26 sweeps and new trees 200 by default.",
    min=0,
)
SPOOL = Option("Folder to watch for files; it is made if it does not exist.", metavar="FOLDER")
Threads = Annotated[
    int | None, Option("Threads; the result does not depend on them.", min=1, shown="one per core, or one per worker")
]
TOKENIZE = Option(
    "Tokenize text by the rules of two languages, fr,en, or of one.", metavar="LANGUAGES", shown="as the store does"
)
Tokenize = Annotated[str | None, TOKENIZE]
Tokenized = Annotated[bool, Option("Text is tokens separated by spaces: leave it as it is.")]
