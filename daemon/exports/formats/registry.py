"""The formats by name. A new one is a module here and an entry in `FORMATS`."""

from hierogram.daemon.compressing import divided_name
from hierogram.daemon.exports.formats.decoders import CDEC, JOSHUA, MOSES, THRAX
from hierogram.daemon.exports.formats.format import Format
from hierogram.daemon.exports.formats.pipeline import BICLEANER, BICLEANER_REVERSE, PRIORS, SHORTLIST, TTABLE, VMAP
from hierogram.daemon.exports.formats.tables import JSONL, PARQUET, TSV
from hierogram.daemon.exports.formats.trees import FRAGMENTS, PCFG
from hierogram.samplers.grammar.kinds import Notation

FORMATS: dict[str, Format] = {
    format.name: format for format in (CDEC, MOSES, JOSHUA, THRAX, FRAGMENTS, PCFG, JSONL, TSV, PARQUET)
}
"""A kind of grammar is written in the first of these that serves it, unless another one is named."""


FILES: dict[str, Format] = {
    format.name: format for format in (BICLEANER, BICLEANER_REVERSE, SHORTLIST, VMAP, PRIORS, TTABLE)
}
"""Files for other tools, which hold less than a grammar."""

EVERY: dict[str, Format] = {**FORMATS, **FILES}


def find_format(name: str) -> Format:
    """Return the format with the name; raises `ValueError` where there is none."""
    if name not in EVERY:
        raise ValueError(f"there is no format {name!r}; there are {', '.join(EVERY)}")
    return EVERY[name]


def usual_format(notation: Notation) -> Format:
    """Return the format in which a kind of grammar is written unless another one is named."""
    return next(format for format in FORMATS.values() if format.serves(notation))


def check_kind(format: Format, notation: Notation) -> None:
    """Raise `ValueError` where the format is not one for this kind of grammar."""
    if not format.serves(notation):
        suited = ", ".join(other.name for other in EVERY.values() if other.serves(notation))
        raise ValueError(notation.cannot(f"be exported as {format.name}: there are {suited}"))


def promised_format(name: str) -> Format | None:
    """Return the format that a file's name, with or without a compression's ending, ends in; None where none fits."""
    stem, _ = divided_name(name)
    return next((format for format in EVERY.values() if stem.endswith(format.suffix)), None)
