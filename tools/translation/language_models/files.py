"""Language model files in the binary or ARPA format. Suffixes determine the format of outputs."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.files import open_output
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import STANDARD_INPUT
from hierogram.daemon.text.pipeline import TOKENS, TextSide
from hierogram.samplers.language_models.model import NGRAM, STATE, UNIGRAM, LanguageModel
from hierogram.samplers.language_models.vocabulary import Vocabulary
from hierogram.tools.translation.language_models.arpa import ArpaWriter, NamedModel, read_arpa, write_arpa
from hierogram.tools.translation.language_models.estimation import BinaryWriter, OpenWriter, Report, estimate
from hierogram.tools.translation.language_models.mapped_arrays import has_kind, read_arrays, write_arrays
from hierogram.tools.translation.language_models.options import EstimationOptions

_KIND, _VERSION = "language model", 2
_TYPES = {"unigrams": UNIGRAM, "ngrams": NGRAM, "states": STATE}


def open_language_model(path: str, bar: Progress) -> NamedModel:
    """Open a model in the binary format, or an ARPA file or standard input (`-`). Raises `InputError`."""
    if path == STANDARD_INPUT or not has_kind(path, _KIND):
        return read_arpa(path, bar)
    values, arrays = read_arrays(path, _KIND, _VERSION)
    if any(arrays[name].dtype != dtype for name, dtype in _TYPES.items()):
        raise InputError(f"{path}: created by another version of hierogram: create the file again")
    unigrams, ngrams, states = (arrays[name] for name in _TYPES)
    model = LanguageModel(unigrams, ngrams, states, values["order"], values["begin"])
    return NamedModel(model, Vocabulary(*(arrays[name] for name in Vocabulary._fields)))


def write_binary(path: Path, named_model: NamedModel) -> None:
    """Write a model in the binary format. Raises `ExportError` if the file cannot be written."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(named_model.model, name) for name in _TYPES}
    values = {"order": named_model.model.order, "begin": named_model.model.begin}
    write_arrays(path, _KIND, _VERSION, values, arrays | named_model.vocabulary._asdict())


_ARPA_ENDINGS = (".arpa", ".arpa.gz", ".arpa.zst", ".gz", ".zst")
"""Suffixes of ARPA files. A file with another suffix is in the binary format."""


def convert(path: str, outputs: Sequence[Path], bar: Progress) -> NamedModel:
    """Convert a language model to the format of each output's suffix. Returns the model."""
    named_model = open_language_model(path, bar)
    for output in outputs:
        (write_arpa if output.name.endswith(_ARPA_ENDINGS) else write_binary)(output, named_model)
    return named_model


def build_model(
    texts: Sequence[str], outputs: Sequence[Path], options: EstimationOptions, bar: Progress, side: TextSide = TOKENS
) -> Report:
    """Estimate a language model as in `estimate`, and write it to each output in the format of its suffix."""
    with ExitStack() as stack:
        writers: list[OpenWriter] = []
        for output in outputs:
            if output.name.endswith(_ARPA_ENDINGS):
                writers.append(partial(ArpaWriter, stack.enter_context(open_output(output))))
            else:
                writers.append(partial(BinaryWriter, partial(write_binary, output)))
        return estimate(texts, options, writers, outputs[0].absolute().parent, bar, side)
