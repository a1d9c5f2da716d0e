"""Language models as files: opened whatever their format, converted, and made of text, in the forms that names ask for.

The binary form is the model's arrays as kernels ask them, mapped into memory.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from hierogram.daemon.compressing import CompressedFile, written
from hierogram.daemon.corpora.lines import STANDARD_INPUT
from hierogram.daemon.corpora.texts import TOKENS, TextSide
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.language_models.arpa import ArpaWriter, NamedModel, read_arpa, write_arpa
from hierogram.daemon.language_models.estimation import Report as Report
from hierogram.daemon.language_models.estimation import Taker, estimate
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.mapped_arrays import first_line, read_arrays, write_arrays
from hierogram.daemon.progress import Progress
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.model import NGRAM, STATE, UNIGRAM, LanguageModel, NGrams
from hierogram.samplers.language_models.vocabulary import Vocabulary

_KIND, _VERSION = "language model", 1
_TYPES = {"unigrams": UNIGRAM, "ngrams": NGRAM, "states": STATE}


def open_language_model(path: str, shown: Progress) -> NamedModel:
    """The model of a file in our binary form, or of an ARPA file (gzip, zstd; `-` is standard input).

    Raises `InputError`.
    """
    return _mapped(path) if is_binary(path) else read_arpa(path, shown)


def is_binary(path: str) -> bool:
    """Whether a file is in our binary form; False where it cannot be read."""
    if path == STANDARD_INPUT:
        return False
    # Of any version, so that an old one is not taken for a damaged ARPA file.
    start = first_line(_KIND, 0).rpartition(b" ")[0]
    try:
        with open(path, "rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def write_binary(path: Path, named: NamedModel) -> None:
    """Write a model in our binary form; raises `ExportError`."""
    model, vocabulary = named
    arrays = {name: getattr(model, name) for name in _TYPES}
    values = {"order": model.order, "begin": model.begin}
    write_arrays(path, _KIND, _VERSION, values, {**arrays, **vocabulary._asdict()})


def _mapped(path: str) -> NamedModel:
    values, arrays = read_arrays(path, _KIND, _VERSION)
    if any(arrays[name].dtype != kind for name, kind in _TYPES.items()):
        raise InputError(f"{path}: was made by another version of hierogram: make it again")
    model = LanguageModel(
        arrays["unigrams"], arrays["ngrams"], arrays["states"], order=values["order"], begin=values["begin"]
    )
    return NamedModel(model, Vocabulary(*(arrays[name] for name in Vocabulary._fields)))


_ARPA_ENDINGS = (".arpa", ".arpa.gz", ".arpa.zst", ".gz", ".zst")


def is_arpa_name(name: str) -> bool:
    """Whether a file of this name is to be an ARPA file; else it gets our binary form."""
    return name.endswith(_ARPA_ENDINGS)


def convert(path: str, outputs: Sequence[Path], shown: Progress) -> NamedModel:
    """Write a language model again, each output in the form that its name says; the model.

    Raises `InputError` and `ExportError`.
    """
    named = open_language_model(path, shown)
    for output in outputs:
        (write_arpa if is_arpa_name(output.name) else write_binary)(output, named)
    return named


def make(
    texts: Sequence[str],
    outputs: Sequence[Path],
    options: EstimationOptions,
    shown: Progress,
    side: TextSide = TOKENS,
) -> Report:
    """Estimate a language model and write it, each output in the form that its name says.

    Sentences go through `side`, which divides them into tokens where they are not.
    Raises `InputError` and `ExportError`.
    """
    with ExitStack() as stack:
        takers: list[Taker] = []
        for output in outputs:
            arpa = is_arpa_name(output.name)
            takers.append(_ArpaTaker(stack.enter_context(written(output))) if arpa else _BinaryTaker(output))
        return estimate(texts, options, _Several(takers), outputs[0].absolute().parent, shown, side)


class _Several:
    """Hands everything on to several."""

    def __init__(self, takers: Sequence[Taker]) -> None:
        self._takers = takers

    def begin(self, vocabulary: Vocabulary, counts: list[int]) -> None:
        for taker in self._takers:
            taker.begin(vocabulary, counts)

    def add(self, ngrams: NGrams) -> None:
        for taker in self._takers:
            taker.add(ngrams)

    def finish(self) -> None:
        for taker in self._takers:
            taker.finish()


class _ArpaTaker:
    """Writes an ARPA file."""

    def __init__(self, file: CompressedFile) -> None:
        self._file = file

    def begin(self, vocabulary: Vocabulary, counts: list[int]) -> None:
        self._writer = ArpaWriter(self._file, vocabulary, counts)

    def add(self, ngrams: NGrams) -> None:
        self._writer.add(*ngrams)

    def finish(self) -> None:
        self._writer.finish()


class ModelTaker:
    """Builds the model in memory: `named` when all has been handed over."""

    named: NamedModel

    def begin(self, vocabulary: Vocabulary, counts: list[int]) -> None:
        """See `Taker.begin`."""
        self._vocabulary, self._counts = vocabulary, counts
        self._log10, self._backoff = (np.zeros(len(vocabulary), np.float32) for _ in range(2))
        self._builder: ModelBuilder | None = None

    def add(self, ngrams: NGrams) -> None:
        """See `Taker.add`."""
        if ngrams.words.shape[1] == 1:
            self._log10[ngrams.words[:, 0]] = ngrams.log10
            self._backoff[ngrams.words[:, 0]] = ngrams.backoff
            return
        twice = self._begun().add(*ngrams)
        assert twice is None

    def finish(self) -> None:
        """See `Taker.finish`."""
        self.named = NamedModel(self._begun().finish(), self._vocabulary)

    def _begun(self) -> ModelBuilder:
        if self._builder is None:
            self._builder = ModelBuilder(len(self._counts), self._log10, self._backoff, self._counts[1:])
        return self._builder


class _BinaryTaker(ModelTaker):
    """Writes a file in our binary form."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def finish(self) -> None:
        super().finish()
        write_binary(self._path, self.named)
