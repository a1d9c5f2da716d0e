"""Files of language models: opened whatever their format, and written in our binary form.

The binary form is the model's arrays as kernels ask them, mapped into memory.
"""

from pathlib import Path

from hierogram.daemon.corpora.lines import STANDARD_INPUT
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.language_models.arpa import NamedModel, read_arpa
from hierogram.daemon.mapped_arrays import first_line, read_arrays, write_arrays
from hierogram.daemon.progress import Progress
from hierogram.samplers.language_models.model import NGRAM, STATE, UNIGRAM, LanguageModel
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
