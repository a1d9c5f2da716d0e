"""What an export is written as, and under which names: names follow formats, and what contradicts itself is refused."""

from dataclasses import dataclass, replace
from pathlib import Path

from hierogram.daemon.exceptions import ExportError, UsageError
from hierogram.daemon.exports.compression import compression_of, suffix_of
from hierogram.daemon.exports.formats.format import Compression, Format
from hierogram.daemon.exports.formats.registry import check_kind, endings, find_format, promised_format, usual_format
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.kinds import Notation

_TEXT = ".txt"
"""An ending that promises text, in whatever format a kind of grammar usually has."""
GRAMMAR, GLUE = "grammar", "glue"
"""What files are called, before the suffixes, that have no other name."""


@dataclass(frozen=True, slots=True)
class HowWritten:
    """How a grammar is written: options, resolved and with format and features by name, the format, the compression."""

    options: ExportOptions
    format: Format
    compression: Compression

    @property
    def ending(self) -> str:
        """What the names of its files end in."""
        return self.format.suffix + suffix_of(self.compression)


def decided(options: ExportOptions, notation: Notation, path: Path | None = None) -> HowWritten:
    """How a kind of grammar is written, to the path if there is one.

    A format that is not named is that which the path's name ends in, else the usual one of the kind; likewise the
    compression, which is none where there is a path whose name says nothing. Raises `UsageError` where name and options
    contradict each other or the name has another ending, `ExportError` where the kind of grammar has no such format or
    features.
    """
    named = None if path is None else compression_of(path.name)
    stem = "" if path is None else path.name.removesuffix("" if named is None else suffix_of(named))
    promised = promised_format(stem)
    if options.format is not None:
        format = find_format(options.format)
        if promised not in (None, format):
            raise UsageError(f"{path}: its name promises {promised.name}, and --format is {format.name}: change either")
    else:
        if path is not None and promised is None and Path(stem).suffix not in ("", _TEXT):
            raise UsageError(
                f"{path}: no format ends in {Path(stem).suffix}: end the name in {endings()}, or name the format with "
                "--format"
            )
        format = promised or usual_format(notation)
    try:
        check_kind(format, notation)
        format.check_features(options.features)
        features = format.of_grammar(notation, options.features)
    except ValueError as error:
        raise ExportError(str(error)) from error
    compression = _compression(options, format, path, named)
    return HowWritten(replace(options.resolved(), format=format.name, features=features), format, compression)


def glue_name(name: str) -> str:
    """What the file of glue rules beside a grammar's is called: `.glue` comes before the compression's ending."""
    named = compression_of(name)
    ending = "" if named is None else suffix_of(named)
    return f"{name.removesuffix(ending)}.{GLUE}{ending}"


def _compression(options: ExportOptions, format: Format, path: Path | None, named: Compression | None) -> Compression:
    asked = None if options.compression is Compression.AUTO else options.compression
    if format.line is None:
        if named is not None or asked not in (None, Compression.NONE):
            said = f"{path}: " if named is not None else ""
            raise UsageError(f"{said}{format.name} is compressed within: leave the compression to it")
        return Compression.NONE
    if asked is not None and named not in (None, asked):
        raise UsageError(f"{path}: its name promises {named}, and --compression is {asked}: change either")
    return asked or named or (format.compression if path is None else Compression.NONE)
