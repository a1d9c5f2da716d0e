"""Language models as files: opened whatever their format, converted, and made of text, in the forms that names ask for.

The binary form is the model's arrays as kernels ask them, mapped into memory.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.compressing import written
from hierogram.daemon.corpora.lines import STANDARD_INPUT
from hierogram.daemon.corpora.texts import TOKENS, TextSide
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.language_models.arpa import ArpaWriter, NamedModel, read_arpa, write_arpa
from hierogram.daemon.language_models.estimation import OpenWriter, Report, estimate
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.mapped_arrays import is_of_kind, read_arrays, write_arrays
from hierogram.daemon.progress import Progress
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.model import NGRAM, STATE, UNIGRAM, LanguageModel
from hierogram.samplers.language_models.vocabulary import Vocabulary

_KIND, _VERSION = "language model", 1
_TYPES = {"unigrams": UNIGRAM, "ngrams": NGRAM, "states": STATE}


def open_language_model(path: str, shown: Progress) -> NamedModel:
    """Return the model of a file in our binary form, or of an ARPA file (gzip, zstd; `-` is standard input).

    Raises `InputError`.
    """
    if not is_binary(path):
        return read_arpa(path, shown)
    values, arrays = read_arrays(path, _KIND, _VERSION)
    if any(arrays[name].dtype != kind for name, kind in _TYPES.items()):
        raise InputError(f"{path}: was made by another version of hierogram: make it again")
    model = LanguageModel(
        arrays["unigrams"], arrays["ngrams"], arrays["states"], order=values["order"], begin=values["begin"]
    )
    return NamedModel(model, Vocabulary(*(arrays[name] for name in Vocabulary._fields)))


def is_binary(path: str) -> bool:
    """Return whether a file is in our binary form; False where it cannot be read."""
    return path != STANDARD_INPUT and is_of_kind(path, _KIND)


def write_binary(path: Path, named: NamedModel) -> None:
    """Write a model in our binary form; raises `ExportError`."""
    model, vocabulary = named
    arrays = {name: getattr(model, name) for name in _TYPES}
    values = {"order": model.order, "begin": model.begin}
    write_arrays(path, _KIND, _VERSION, values, {**arrays, **vocabulary._asdict()})


_ARPA_ENDINGS = (".arpa", ".arpa.gz", ".arpa.zst", ".gz", ".zst")
"""A file with such a name is to be an ARPA file; any other gets our binary form."""


def convert(path: str, outputs: Sequence[Path], shown: Progress) -> NamedModel:
    """Write a language model again, each output in the form that its name says, and return it.

    Raises `InputError` and `ExportError`.
    """
    named = open_language_model(path, shown)
    for output in outputs:
        (write_arpa if output.name.endswith(_ARPA_ENDINGS) else write_binary)(output, named)
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
        writers: list[OpenWriter] = []
        for output in outputs:
            if output.name.endswith(_ARPA_ENDINGS):
                writers.append(partial(ArpaWriter, stack.enter_context(written(output))))
            else:
                writers.append(partial(BinaryWriter, partial(write_binary, output)))
        return estimate(texts, options, writers, outputs[0].absolute().parent, shown, side)


class BinaryWriter:
    """Builds the model in memory, and hands it on when it is whole."""

    def __init__(self, take: Callable[[NamedModel], object], vocabulary: Vocabulary, counts: list[int]) -> None:
        self._take = take
        self._vocabulary, self._counts = vocabulary, counts
        self._log10, self._backoff = (np.zeros(len(vocabulary), np.float32) for _ in range(2))
        self._builder: ModelBuilder | None = None

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> None:
        """Take n-grams of one order; those of one word come first."""
        if words.shape[1] == 1:
            self._log10[words[:, 0]] = log10
            self._backoff[words[:, 0]] = backoff
            return
        twice = self._begun().add(words, log10, backoff)
        assert twice is None

    def finish(self) -> None:
        """Hand the model on."""
        self._take(NamedModel(self._begun().finish(), self._vocabulary))

    def _begun(self) -> ModelBuilder:
        if self._builder is None:
            self._builder = ModelBuilder(len(self._counts), self._log10, self._backoff, self._counts[1:])
        return self._builder
