"""Cron expressions, evaluated as Vixie cron does: five fields or a nickname, in a time zone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

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
_FIELDS = 5


def read_zone(name: str) -> ZoneInfo:
    """Return a time zone by its IANA name; raises `ValueError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r}: time zone not found: expected an IANA name such as Europe/Berlin") from error


def cron_runs(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times of an expression after a time, in the zone, without end unless no day matches.

    When clocks go forward, a run in the skipped hour happens once, at its end. When clocks go back, a run in the
    repeated hour happens once, the first time. Expressions whose minute or hour begins with `*` follow the clock: they
    have no run in the skipped hour, and run through both repeated hours. Raises `ValueError`.
    """
    # Imported here because commands that need no schedule should start without it.
    from cronsim import CronSim, CronSimError

    fields = NICKNAMES.get(expression.strip().lower(), expression).split()
    if len(fields) != _FIELDS:
        known = "" if not expression.lstrip().startswith("@") else f"; nicknames are {', '.join(NICKNAMES)}"
        raise ValueError(f"invalid cron expression {expression!r}: expected {CRON_HELP}{known}")
    try:
        found = CronSim(" ".join(fields), after.astimezone(zone))
    except CronSimError as error:
        reason = str(error)[:1].lower() + str(error)[1:]
        raise ValueError(f"invalid cron expression {expression!r}: {reason}: expected {CRON_HELP}") from error
    # Times in the repeated hour are given as of its first pass, which may be over.
    return (time.astimezone(UTC).astimezone(zone) for time in found if time.astimezone(UTC) > after)
