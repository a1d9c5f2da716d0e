"""Registry of formats by name. A new format is a module in this folder and an entry in `FORMATS`."""

from hierogram.daemon.compressing import split_suffix
from hierogram.daemon.exports.formats.decoders import CDEC, MOSES
from hierogram.daemon.exports.formats.format import Format
from hierogram.daemon.exports.formats.pipeline import BICLEANER, BICLEANER_REVERSE, PRIORS, SHORTLIST, TTABLE, VMAP
from hierogram.daemon.exports.formats.tables import JSONL, PARQUET, TSV
from hierogram.daemon.exports.formats.trees import FRAGMENTS, PCFG
from hierogram.samplers.grammar.kinds import Notation

FORMATS: dict[str, Format] = {
    format.name: format for format in (CDEC, MOSES, FRAGMENTS, PCFG, JSONL, TSV, PARQUET)
}
"""Formats of grammars. The default of a kind of grammar is the first one that can write it."""


FILES: dict[str, Format] = {
    format.name: format for format in (BICLEANER, BICLEANER_REVERSE, SHORTLIST, VMAP, PRIORS, TTABLE)
}
"""Formats of files for other tools, which contain only part of a grammar."""

EVERY: dict[str, Format] = {**FORMATS, **FILES}


def find_format(name: str) -> Format:
    """Return the format with a name. Raises `ValueError`."""
    if name not in EVERY:
        raise ValueError(f"unknown format {name!r}: expected {', '.join(EVERY)}")
    return EVERY[name]


def default_format(notation: Notation) -> Format:
    """Return the default format of a kind of grammar."""
    return next(format for format in FORMATS.values() if format.supports(notation))


def check_kind(format: Format, notation: Notation) -> None:
    """Raise `ValueError` if the format cannot write this kind of grammar."""
    if not format.supports(notation):
        suited = ", ".join(candidate.name for candidate in EVERY.values() if candidate.supports(notation))
        raise ValueError(notation.cannot(f"be exported as {format.name}: use {suited}"))


def format_from_name(name: str) -> Format | None:
    """Return the format of a file name's ending, with or without an ending of compression, or None."""
    stem, _ = split_suffix(name)
    return next((format for format in EVERY.values() if stem.endswith(format.suffix)), None)
