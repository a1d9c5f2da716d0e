"""Options of exports, and jobs of the schedule: declared once for command line, configuration and store."""

import re
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import FEATURES
from hierogram.daemon.exports.formats.registry import EVERY, find_format
from hierogram.daemon.exports.publication import Versions
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.samplers.grammar.rules import HIERO_MAX_NONTERMINALS, HIERO_MAX_SOURCE_SYMBOLS
from hierogram.storage.options import Option, OptionError, check
from hierogram.storage.records import INFINITY

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger

MEANS_HELP = "how often rules are expected to be used, instead of the grammar for translating."
DRAWN_HELP = "counts of the present derivations, one draw, instead of the grammar for translating."
VersionName = Annotated[str, Option("Name of the versions.", metavar="NAME")]
Keep = Annotated[int | None, Option("Versions to keep.", least=1, shown="all")]

HIERO_MAX_SPAN = 10
"""Words of an initial phrase on either side, at most [Chiang 2007]."""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


class Counted(StrEnum):
    """Say what a rule's count is: its weight for translating, expected uses, or those of one draw."""

    TRANSLATION = "translation"
    MEANS = "means"
    DRAWN = "drawn"

    @property
    def unit(self) -> int:
        """Counts are whole numbers of this part of a use."""
        return 1 if self is Counted.DRAWN else ONE_USE


SMOOTHING = 0.7
"""Discount of a use in the probabilities of translation grammars."""


MIN_EXPECTED = 0.1
"""Expected occurrences of a source side in new text, below which a rule that is met once is left out."""


class Normalization(StrEnum):
    """Over which rules probabilities are relative frequencies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The rules that are exported, and their format.

    Filters work in the order of the fields. `hiero` stands for Chiang's (2007) constraints together: at most two
    nonterminals, none side by side on the source side, at most five source symbols, an aligned pair of words, and
    phrases of at most ten words. Without a format it is the usual one of the store's kind of grammar. Raises
    `OptionError`.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    format: Annotated[
        str | None,
        Option(
            "Format", values=EVERY.keys(), flags=("--format", "-f"), metavar="NAME",
            shown="by the file's name, else cdec; fragments of a store of trees",
        ),
    ] = None  # fmt: skip
    features: Annotated[
        tuple[str, ...] | None,
        Option(
            "Features to write, separated by commas, where the format leaves a choice",
            values=tuple(feature.name for feature in FEATURES),
            metavar="NAMES",
            shown="all",
        ),
    ] = None
    compression: Annotated[
        Compression,
        Option(
            "Compression, which auto takes from the file's name (.zst, .gz), else from the format",
            values=tuple(Compression),
            metavar="NAME",
            expert=True,
        ),
    ] = Compression.AUTO
    level: Annotated[int | None, Option("Level of the compression.", least=1, most=22, shown="3 or 6", expert=True)] = (
        None
    )
    long_distance: Annotated[bool, Option("zstd: look for repeats up to 128 MiB back.", expert=True)] = False
    compression_threads: Annotated[
        int, Option("zstd: threads beside the writing one.", least=0, most=256, expert=True)
    ] = 0
    means: Annotated[bool, Option(f"Write {MEANS_HELP}")] = False
    drawn: Annotated[bool, Option(f"Write {DRAWN_HELP}")] = False
    smoothing: Annotated[
        float | None,
        Option(
            "Discount of each use in probabilities; 0: they are relative frequencies.",
            least=0,
            most=1,
            shown=f"{SMOOTHING} for translation grammars, else 0",
            expert=True,
        ),
    ] = None
    min_expected: Annotated[
        float,
        Option(
            "Leave out rules for translating that are met once, if text as long as the store's is expected to have "
            "their source side less often.",
            least=0,
            below=INFINITY,
            expert=True,
        ),
    ] = MIN_EXPECTED
    corpus: Annotated[str | None, Option("Only what the pairs of this corpus use, counted again.", metavar="NAME")] = (
        None
    )
    min_count: Annotated[float, Option("Leave out rules with a lower count.", least=0, below=INFINITY)] = 0.0
    max_scope: Annotated[int | None, Option("Leave out rules that parse slower than O(n^K).", least=0, metavar="K")] = 2
    hiero: Annotated[bool, Option("The next five as in Chiang (2007): 2, yes, 5, yes, 10.")] = False
    max_nonterminals: Annotated[int | None, Option("Nonterminals on a side, at most.", least=0, expert=True)] = None
    no_adjacent: Annotated[bool, Option("No nonterminals side by side on the source side.", expert=True)] = False
    max_source_symbols: Annotated[
        int | None, Option("Words and nonterminals of the source side, at most.", least=1, expert=True)
    ] = None
    aligned: Annotated[bool, Option("At least one aligned pair of words within the rule.", expert=True)] = False
    max_span: Annotated[
        int | None,
        Option("Words that a rule's phrase spans on a side, as far as its sides show it.", least=1, expert=True),
    ] = None
    filter_for: Annotated[
        Path | None, Option("Only rules that can match a sentence of this test set.", metavar="FILE")
    ] = None
    per_source: Annotated[
        int | None, Option("Only the best N rules of a source side, by count.", least=1, metavar="N")
    ] = None
    normalization: Annotated[
        Normalization,
        Option(
            "Probabilities among all rules, or those that the filters leave",
            values=tuple(Normalization),
            metavar="WHEN",
            expert=True,
        ),
    ] = Normalization.BEFORE

    def __post_init__(self) -> None:
        for name, kind in (("compression", Compression), ("normalization", Normalization)):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError as error:
                raise OptionError(name, f"{getattr(self, name)!r} is not there; there are {', '.join(kind)}") from error
        check(self)
        check_counted(self.means, self.drawn)
        if self.format is None:
            return
        format = find_format(self.format)
        try:
            format.check_features(self.features)
        except ValueError as error:
            raise OptionError("features", str(error)) from error
        if format.line is None and self.compression not in (Compression.AUTO, Compression.NONE):
            raise OptionError("compression", f"{self.format} is compressed within: leave the compression to it")

    @property
    def counted(self) -> Counted:
        """Return what is counted."""
        return counted(self.means, self.drawn)

    def resolved(self) -> "ExportOptions":
        """Return the same, the preset spelled out; a limit that is given stays where it is stricter."""
        if not self.hiero:
            return self
        return replace(
            self,
            max_nonterminals=_stricter(self.max_nonterminals, HIERO_MAX_NONTERMINALS),
            no_adjacent=True,
            max_source_symbols=_stricter(self.max_source_symbols, HIERO_MAX_SOURCE_SYMBOLS),
            aligned=True,
            max_span=_stricter(self.max_span, HIERO_MAX_SPAN),
        )


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where an export goes: to a file, to standard output, or as a version into a folder. Raises `OptionError`."""

    output: Annotated[
        Path | None,
        Option(
            "File to write; - is standard output, without a manifest. Its name says format and compression.",
            flags=("--output", "-o"), metavar="FILE", shown="grammar, and the format's endings",
        ),
    ] = None  # fmt: skip
    to: Annotated[
        Path | None, Option("Instead of a file: a folder, to write a new version into.", metavar="FOLDER")
    ] = None
    name: VersionName = "grammar"
    keep: Keep = None
    sentences: Annotated[
        Path | None, Option("With --to: a cdec grammar for each sentence of FILE, in a folder.", metavar="FILE")
    ] = None

    def __post_init__(self) -> None:
        check(self)
        check_name(self.name)
        if self.to is not None and self.output is not None:
            raise OptionError("to", "writes a folder of versions, and --output a file: give one of them")
        if self.to is None:
            for name in ("keep", "sentences"):
                if getattr(self, name) is not None:
                    raise OptionError(name, "is about the versions in a folder: give --to FOLDER too")

    @property
    def is_standard_output(self) -> bool:
        """Return whether the grammar goes to standard output."""
        return self.output == Path("-")


def counted(means: bool, drawn: bool) -> Counted:
    """Return what is counted by the flags, of which one at most is set."""
    return Counted.MEANS if means else Counted.DRAWN if drawn else Counted.TRANSLATION


def check_counted(means: bool, drawn: bool) -> None:
    """Raise `OptionError` where both flags are set."""
    if means and drawn:
        raise OptionError("means", "and --drawn are two grammars: give one of them")


def check_name(name: str) -> None:
    """Raise `OptionError` where versions cannot have the name, which begins the names of their folders."""
    if not _NAME.match(name):
        raise OptionError("name", f"{name!r}: letters, digits, and . _ - after the first, at most 100")


def _stricter(given: int | None, preset: int) -> int:
    return preset if given is None else min(given, preset)


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])\Z")


def parse_span(text: str) -> timedelta:
    """Return a span of time: `90s`, `30m`, `6h`, `1d`, `2w`; raises `ValueError`."""
    match = _SPAN.match(text)
    if not match or not float(match.group(1)):
        raise ValueError(f"{text!r} is not a span of time: say 90s, 30m, 6h, 1d or 2w")
    return timedelta(seconds=float(match.group(1)) * _UNITS[match.group(2)])


@dataclass(frozen=True, kw_only=True)
class ExportJob(ExportOptions):
    """A scheduled export: a new version in the folder `to`, named `name`, whenever it is time.

    `cron` is five fields (minute, hour, day of month, month, day of week), in UTC; `every` a span of time as `6h`: one
    of the two. Raises `OptionError`, and `ValueError` where there is none or both.
    """

    name: Annotated[str, Option("Name of the job, and of the versions that it makes.", positional=True)]
    to: Annotated[Path, Option("Folder of the versions; made if it does not exist.", metavar="FOLDER")]
    cron: Annotated[str | None, Option("When, in UTC: minute, hour, day of month, month, day of week.")] = None
    every: Annotated[str | None, Option("Or how often: 90s, 30m, 6h, 1d, 2w.")] = None
    keep: Keep = None
    max_age: Annotated[str | None, Option("Age at which a version goes, as in --every.", shown="never")] = None

    def __post_init__(self) -> None:
        ExportOptions.__post_init__(self)
        check_name(self.name)
        for name in ("every", "max_age"):
            if getattr(self, name) is not None:
                try:
                    parse_span(getattr(self, name))
                except ValueError as error:
                    raise OptionError(name, str(error)) from error
        if (self.cron is None) == (self.every is None):
            raise ValueError("a job has either cron or every")
        if self.trigger().get_next_fire_time(None, datetime.now(UTC)) is None:
            raise OptionError("cron", f"{self.cron!r} is never: no year has such a day")

    def trigger(self) -> "BaseTrigger":
        """Return when it is time, for APScheduler."""
        from apscheduler.triggers.cron import CronTrigger
        from apscheduler.triggers.interval import IntervalTrigger

        if self.cron is not None:
            return CronTrigger.from_crontab(self.cron, timezone="UTC")
        assert self.every is not None
        return IntervalTrigger(seconds=parse_span(self.every).total_seconds(), timezone="UTC")

    def options(self) -> ExportOptions:
        """Return what is exported."""
        return ExportOptions(**{field.name: getattr(self, field.name) for field in fields(ExportOptions)})

    def versions(self) -> Versions:
        """Return where the versions go, and which of them stay."""
        return Versions(self.to, self.name, self.keep, None if self.max_age is None else parse_span(self.max_age))
