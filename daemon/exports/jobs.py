"""Jobs of the schedule: what is exported, where to, and when."""

import re
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hierogram.daemon.exports.options import ExportOptions, Keep, check_name
from hierogram.daemon.exports.publication import Versions
from hierogram.daemon.plain_options import as_plain
from hierogram.storage.options import Option, OptionError

if TYPE_CHECKING:
    from apscheduler.triggers.base import BaseTrigger

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])\Z")


def parse_span(text: str) -> timedelta:
    """A span of time: `90s`, `30m`, `6h`, `1d`, `2w`; raises `ValueError`."""
    match = _SPAN.match(text)
    if not match or not float(match.group(1)):
        raise ValueError(f"{text!r} is no span of time: say 90s, 30m, 6h, 1d or 2w")
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
        self.trigger()

    def trigger(self) -> "BaseTrigger":
        """When it is time, for APScheduler."""
        from apscheduler.triggers.cron import CronTrigger
        from apscheduler.triggers.interval import IntervalTrigger

        if self.cron is not None:
            return CronTrigger.from_crontab(self.cron, timezone="UTC")
        assert self.every is not None
        return IntervalTrigger(seconds=parse_span(self.every).total_seconds(), timezone="UTC")

    def options(self) -> ExportOptions:
        """What is exported."""
        return ExportOptions(**{field.name: getattr(self, field.name) for field in fields(ExportOptions)})

    def versions(self) -> Versions:
        """Where the versions go, and which of them stay."""
        return Versions(self.to, self.name, self.keep, None if self.max_age is None else parse_span(self.max_age))

    def described(self) -> dict[str, Any]:
        """The job as plain values, without those that are as by default; `from_plain` makes it again."""
        return as_plain(self)
