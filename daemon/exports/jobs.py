"""Jobs of the schedule: what is exported, where to, and when."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, field_validator, model_validator

from hierogram.daemon.exports.options import ExportOptions

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


class ExportJob(ExportOptions):
    """A scheduled export: a new version in the folder `to`, named `name`, whenever it is time.

    `cron` is five fields (minute, hour, day of month, month, day of week), in UTC; `every` a span of time as `6h`: one
    of the two.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="Name of the job and of its versions.")
    to: Path = Field(description="Folder of the versions; made if it does not exist.")
    cron: str | None = Field(default=None, description="When: minute, hour, day of month, month, day of week, in UTC.")
    every: str | None = Field(default=None, description="Or how often: 90s, 30m, 6h, 1d, 2w.")
    keep: int | None = Field(default=None, ge=1, description="Versions to keep; all, if unset.")
    max_age: str | None = Field(default=None, description="Age at which a version goes, as in every; never, if unset.")

    @field_validator("every", "max_age")
    @classmethod
    def _check_span(cls, value: str | None) -> str | None:
        if value is not None:
            parse_span(value)
        return value

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise ValueError("a job has either cron or every")
        self.trigger()
        return self

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
        return ExportOptions(**{name: getattr(self, name) for name in ExportOptions.model_fields})

    def described(self) -> dict[str, Any]:
        """The job as plain values, without those that are as by default; the inverse of `ExportJob(**described)`."""
        return self.model_dump(mode="json", exclude_defaults=True)
