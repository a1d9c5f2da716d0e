"""Options of exports and scheduled jobs, declared once for command line, configuration and store."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hierogram.daemon.exports.formats import FEATURES, FORMATS, find_format
from hierogram.daemon.exports.publication import Versions, open_folder
from hierogram.daemon.files import Compression
from hierogram.daemon.shared_options import MAX_SCOPE, OUTPUT, CurrentSample, MinCount, PosteriorMean
from hierogram.storage.options import Option, OptionError, Options, check
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.settings import INFINITY

CRON_HELP = "minute, hour, day of month, month, day of week, such as '30 3 * * mon-fri', or @daily"
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def read_zone(name: str) -> ZoneInfo:
    """Return the time zone with this IANA name. Raises `ValueError` if it is not found."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r}: time zone not found: expected an IANA name such as Europe/Berlin") from error


def cron_runs(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after` at which a cron expression runs, in `zone`.

    The iterator is infinite unless no day matches. When clocks go forward, a run in the skipped hour happens once, at
    its end. When clocks go back, a run in the repeated hour happens once, the first time. Expressions whose minute or
    hour begins with `*` do not run in the skipped hour, and run in both occurrences of the repeated hour.
    Raises `ValueError` if the expression is invalid.
    """
    # Import here, so that commands without a schedule start faster.
    from cronsim import CronSim, CronSimError

    fields = NICKNAMES.get(expression.strip().lower(), expression).split()
    if len(fields) != 5:
        hint = f"; nicknames are {', '.join(NICKNAMES)}" if expression.lstrip().startswith("@") else ""
        raise ValueError(f"invalid cron expression {expression!r}: expected {CRON_HELP}{hint}")
    try:
        schedule = CronSim(" ".join(fields), after.astimezone(zone))
    except CronSimError as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise ValueError(f"invalid cron expression {expression!r}: {reason}: expected {CRON_HELP}") from error
    # For a fixed time in a repeated hour, CronSim returns the first occurrence, so skip it if it is not after `after`.
    return (time.astimezone(UTC).astimezone(zone) for time in schedule if time.astimezone(UTC) > after)


@contextmanager
def _as_option_error(option: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise OptionError(option, str(error)) from error


KEEP = Option("Keep the N newest versions.", min=1, metavar="N", shown="all")
Keep = Annotated[int | None, KEEP]
FOLDER = Option(
    "Folder, or URL of object storage (s3://bucket/prefix), to which each export writes a new version.",
    metavar="FOLDER",
)
Cron = Annotated[str | None, Option(f"Cron expression for runs by `hierogram serve`: {CRON_HELP}.", metavar="TIME")]
Every = Annotated[
    str | None, Option("Interval between exports by `hierogram serve`: 90s, 30m, 6h, 1d, 2w.", metavar="SPAN")
]
MaxAge = Annotated[
    str | None,
    Option(
        "Delete versions older than this, such as 2w, after each scheduled export. The latest version is kept.",
        metavar="SPAN",
        shown="never",
    ),
]
DEFAULT_ZONE = "UTC"
_ZONE = Option("Time zone of the cron times, such as Europe/Berlin.", metavar="ZONE", shown=DEFAULT_ZONE)
Timezone = Annotated[str | None, _ZONE]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")

SMOOTHING = 0.7
"""Default discount D of smoothing (docs/model.md) in translation grammars of stores with word links."""

MIN_EXPECTED = 0.1
"""Default minimum of the expected occurrences of a source side in new text."""

_FORMAT = Option(
    "Format of the rules", values=FORMATS.keys(), flags=("--format", "-f"), metavar="NAME",
    shown="from the file suffix, else cdec; fragments for trees",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    """Options of an export: format, counts and filters. Raises `OptionError`.

    Filters are applied in this order: `corpus`, `min_expected`, `filter_for`, `min_count`, `max_scope`, `hiero`,
    `per_source`. The default format depends on the file name and the store's kind of grammar.
    """

    format: Annotated[str | None, _FORMAT] = None
    features: Annotated[
        tuple[str, ...] | None,
        Option(
            "Features to write, if the format has no fixed features",
            values=tuple(feature.name for feature in FEATURES),
            metavar="NAME,...",
            shown="all",
        ),
    ] = None
    compression: Annotated[
        Compression,
        Option(
            "Compression",
            values={
                Compression.AUTO: (
                    "by the suffix .zst or .gz of the output file; without a file name, the default of the format"
                ),
                **dict.fromkeys((Compression.ZSTD, Compression.GZIP, Compression.NONE), ""),
            },
            metavar="NAME",
        ),
    ] = Compression.AUTO
    posterior_mean: PosteriorMean = False
    current_sample: CurrentSample = False
    smoothing: Annotated[
        float | None,
        Option(
            "Discount of smoothed probabilities. 0 writes relative frequencies.",
            min=0,
            max=1,
            shown=f"{SMOOTHING} for translation grammars with word links, else 0",
        ),
    ] = None
    min_expected: Annotated[
        float,
        Option(
            "In a translation grammar, omit rules used less than twice whose source side is expected less than R times "
            "in new text of the store's length. Rules of minimal derivations are kept.",
            min=0,
            below=INFINITY,
            metavar="R",
        ),
    ] = MIN_EXPECTED
    corpus: Annotated[
        str | None,
        Option(
            "Keep only rules that pairs of this corpus use, with counts of this corpus.", metavar="NAME", shown="all"
        ),
    ] = None  # fmt: skip
    min_count: MinCount = 0.0
    max_scope: Annotated[int | None, MAX_SCOPE] = 2
    hiero: Annotated[bool, Option("Keep only rules that satisfy the constraints of Chiang (2007).")] = False
    filter_for: Annotated[
        Path | None, Option("Keep only rules that can match a sentence of this test set.", metavar="FILE")
    ] = None
    per_source: Annotated[
        int | None, Option("Keep only the N rules with the highest counts per source side.", min=1, metavar="N")
    ] = None

    def __post_init__(self) -> None:
        check(self)
        object.__setattr__(self, "compression", Compression(self.compression))
        object.__setattr__(self, "filter_for", None if self.filter_for is None else Path(self.filter_for))
        check_count_flags(self.posterior_mean, self.current_sample)
        if self.format is None:
            return
        with _as_option_error("features"):
            find_format(self.format).check_features(self.features)
        if self.compression is not Compression.AUTO:
            with _as_option_error("compression"):
                find_format(self.format).check_compression(self.compression)

    @property
    def count_kind(self) -> CountKind:
        """`CURRENT_SAMPLE` or `POSTERIOR_MEAN` if the option is set, otherwise `TRANSLATION`."""
        if self.current_sample:
            return CountKind.CURRENT_SAMPLE
        return CountKind.POSTERIOR_MEAN if self.posterior_mean else CountKind.TRANSLATION


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Destination of an export: a file, standard output, or a version in a folder. Raises `OptionError`."""

    output: Annotated[Path | None, replace(OUTPUT, shown="grammar with the suffix of the format")] = None
    to: Annotated[str | None, FOLDER] = None
    name: Annotated[str, Option("Name prefix of the versions.", metavar="NAME")] = "grammar"
    keep: Keep = None

    def __post_init__(self) -> None:
        check(self)
        _check_version_prefix(self.name)
        if self.to is not None and self.output is not None:
            raise OptionError("to", "cannot be combined with --output")
        if self.to is None and self.keep is not None:
            raise OptionError("keep", "requires --to FOLDER")

    @property
    def is_standard_output(self) -> bool:
        """True if the grammar is written to standard output."""
        return self.output == Path("-")


def check_count_flags(posterior_mean: bool, current_sample: bool) -> None:
    """Raise `OptionError` if both flags are set."""
    if posterior_mean and current_sample:
        raise OptionError("posterior_mean", "cannot be combined with --current-sample")


def _check_version_prefix(name: str) -> None:
    if not _NAME.match(name):
        raise OptionError(
            "name",
            f'{name!r}: must consist of 1 to 100 letters, digits, ".", "_" or "-", and begin with a letter or a digit',
        )


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])\Z")
_MAX_SPAN = 5_000 * _UNITS["w"]


def parse_span(text: str) -> timedelta:
    """Parse an interval such as `90s`, `30m`, `6h`, `1d` or `2w`, from 1s to 5000w. Raises `ValueError`."""
    match = _SPAN.match(text)
    seconds = float(match.group(1)) * _UNITS[match.group(2)] if match else 0.0
    if not 1 <= seconds <= _MAX_SPAN:
        raise ValueError(
            f"invalid interval {text!r}: expected a value such as 90s, 30m, 6h, 1d or 2w, from 1s to 5000w"
        )
    return timedelta(seconds=seconds)


@dataclass(frozen=True, kw_only=True)
class ExportJob(ExportOptions):
    """Scheduled export of versions with the prefix `name` to the folder `to`, if something has changed.

    Either `cron`, in the time zone `timezone`, or `every` determines the times. Raises `OptionError`, and `ValueError`
    unless exactly one of `cron` and `every` is given.
    """

    format: Annotated[str | None, replace(_FORMAT, shown="cdec; fragments for trees")] = None
    name: Annotated[str, Option("Name of the job and prefix of its versions.", positional=True)]
    to: Annotated[str, FOLDER]
    cron: Cron = None
    timezone: Annotated[str | None, replace(_ZONE, shown="timezone of the configuration file")] = None
    every: Every = None
    keep: Keep = None
    max_age: MaxAge = None

    def __post_init__(self) -> None:
        ExportOptions.__post_init__(self)
        _check_version_prefix(self.name)
        for name in ("every", "max_age"):
            if getattr(self, name) is not None:
                with _as_option_error(name):
                    parse_span(getattr(self, name))
        if (self.cron is None) == (self.every is None):
            raise ValueError("a job must have either cron or every")
        with _as_option_error("timezone"):
            zone = self.zone
        if self.cron is not None:
            with _as_option_error("cron"):
                if next(cron_runs(self.cron, zone, datetime.now(UTC)), None) is None:
                    raise ValueError(f"{self.cron!r} never runs: no day matches")

    @property
    def zone(self) -> ZoneInfo:
        """Time zone of `cron` and of displayed times. Raises `ValueError`."""
        return read_zone(DEFAULT_ZONE if self.timezone is None else self.timezone)

    def runs_after(self, now: datetime, due: datetime | None = None) -> Iterator[datetime]:
        """Yield the run times after `now` in the job's time zone. Intervals start at `due` (default `now`)."""
        if self.cron is not None:
            yield from cron_runs(self.cron, self.zone, now)
            return
        assert self.every is not None
        span = parse_span(self.every)
        start = (now.replace(microsecond=0) if due is None else due).astimezone(UTC)
        for number in count(max((now - start) // span + 1, 0)):
            yield (start + number * span).astimezone(self.zone)

    def options(self) -> ExportOptions:
        """Return the export options of the job, without its name, destination, schedule and expiry."""
        return ExportOptions(**{field.name: getattr(self, field.name) for field in fields(ExportOptions)})

    def versions(self) -> Versions:
        """Return folder, name prefix and expiry of the job's versions. Raises the errors of `open_folder`."""
        max_age = None if self.max_age is None else parse_span(self.max_age)
        return Versions(open_folder(self.to), self.name, self.keep, max_age)
