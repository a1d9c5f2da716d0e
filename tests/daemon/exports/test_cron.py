"""Cron expressions run at the times of Vixie cron, including at clock changes."""

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from hierogram.daemon.exports.options import ExportJob, cron_runs, read_zone
from hierogram.storage.options import OptionError

# Expected runs after Thursday, 1 January 2026, 12:00 UTC. The 4th is a Sunday.
DATES = [
    # Weekdays: 0 and 7 are Sunday.
    ("0 3 * * 0", "01-04 03:00, 01-11 03:00, 01-18 03:00"),
    ("0 3 * * 7", "01-04 03:00, 01-11 03:00, 01-18 03:00"),
    ("0 3 * * 0,7", "01-04 03:00, 01-11 03:00, 01-18 03:00"),
    ("0 3 * * sun", "01-04 03:00, 01-11 03:00, 01-18 03:00"),
    ("0 3 * * SUN", "01-04 03:00, 01-11 03:00, 01-18 03:00"),
    ("0 3 * * 1", "01-05 03:00, 01-12 03:00, 01-19 03:00"),
    ("0 3 * * mon", "01-05 03:00, 01-12 03:00, 01-19 03:00"),
    ("0 3 * * 2", "01-06 03:00, 01-13 03:00, 01-20 03:00"),
    ("0 3 * * 3", "01-07 03:00, 01-14 03:00, 01-21 03:00"),
    ("0 3 * * 4", "01-08 03:00, 01-15 03:00, 01-22 03:00"),
    ("0 3 * * 5", "01-02 03:00, 01-09 03:00, 01-16 03:00"),
    ("0 3 * * 6", "01-03 03:00, 01-10 03:00, 01-17 03:00"),
    ("0 3 * * 1-5", "01-02 03:00, 01-05 03:00, 01-06 03:00, 01-07 03:00, 01-08 03:00, 01-09 03:00, 01-12 03:00"),
    ("0 3 * * mon-fri", "01-02 03:00, 01-05 03:00, 01-06 03:00"),
    ("0 3 * * 6-7", "01-03 03:00, 01-04 03:00, 01-10 03:00"),
    ("0 3 * * 5-7", "01-02 03:00, 01-03 03:00, 01-04 03:00, 01-09 03:00"),
    ("0 3 * * 0-2", "01-04 03:00, 01-05 03:00, 01-06 03:00, 01-11 03:00"),
    ("0 3 * * tue,thu", "01-06 03:00, 01-08 03:00, 01-13 03:00"),
    ("0 3 * * 1-5/2", "01-02 03:00, 01-05 03:00, 01-07 03:00, 01-09 03:00"),
    ("0 3 * * */2", "01-03 03:00, 01-04 03:00, 01-06 03:00, 01-08 03:00"),
    ("0 3 * * 0-7", "01-02 03:00, 01-03 03:00, 01-04 03:00"),
    ("* * * * *", "01-01 12:01, 01-01 12:02"),
    ("*/15 * * * *", "01-01 12:15, 01-01 12:30, 01-01 12:45, 01-01 13:00"),
    ("5-59/20 * * * *", "01-01 12:05, 01-01 12:25, 01-01 12:45, 01-01 13:05"),
    ("0,30 8-10 * * *", "01-02 08:00, 01-02 08:30, 01-02 09:00, 01-02 09:30"),
    ("10 */6 * * *", "01-01 12:10, 01-01 18:10, 01-02 00:10"),
    ("00 03 * * *", "01-02 03:00, 01-03 03:00"),
    ("59 23 31 12 *", "12-31 23:59"),
    ("0 0 1 * *", "02-01 00:00, 03-01 00:00"),
    ("0 0 1,15 * *", "01-15 00:00, 02-01 00:00"),
    ("0 0 31 * *", "01-31 00:00, 03-31 00:00, 05-31 00:00"),
    ("0 0 1 feb *", "02-01 00:00"),
    ("0 0 1 jan-mar *", "02-01 00:00, 03-01 00:00, 2027-01-01 00:00"),
    ("0 0 1 */3 *", "04-01 00:00, 07-01 00:00, 10-01 00:00"),
    ("0 0 29 2 *", "2028-02-29 00:00, 2032-02-29 00:00"),
    # A day must match the day of month or the weekday if neither begins with a star, and otherwise both.
    ("0 0 13 * 5", "01-02 00:00, 01-09 00:00, 01-13 00:00, 01-16 00:00"),
    ("0 0 1,15 * sun", "01-04 00:00, 01-11 00:00, 01-15 00:00, 01-18 00:00"),
    ("0 0 1-7 * 1", "01-02 00:00, 01-03 00:00, 01-04 00:00, 01-05 00:00, 01-06 00:00, 01-07 00:00, 01-12 00:00"),
    ("0 0 */2 * 5", "01-09 00:00, 01-23 00:00, 02-13 00:00"),
    ("0 0 13 * *", "01-13 00:00, 02-13 00:00"),
    ("0 0 30 2 1", "02-02 00:00, 02-09 00:00"),
    ("@yearly", "2027-01-01 00:00"),
    ("@annually", "2027-01-01 00:00"),
    ("@monthly", "02-01 00:00, 03-01 00:00"),
    ("@weekly", "01-04 00:00, 01-11 00:00"),
    ("@daily", "01-02 00:00, 01-03 00:00"),
    ("@midnight", "01-02 00:00, 01-03 00:00"),
    ("@hourly", "01-01 13:00, 01-01 14:00"),
    (" @Daily ", "01-02 00:00"),
    # `L` and `#` are extensions of Vixie cron.
    ("0 0 L * *", "01-31 00:00, 02-28 00:00"),
    ("0 0 * * 5#2", "01-09 00:00, 02-13 00:00"),
]


@pytest.mark.parametrize(("expression", "expected"), DATES)
def test_a_cron_expression_runs_at_the_expected_times(expression: str, expected: str) -> None:
    dates = [date if len(date) > 11 else f"2026-{date}" for date in expected.split(", ")]
    found = islice(cron_runs(expression, ZoneInfo("UTC"), datetime(2026, 1, 1, 12, tzinfo=UTC)), len(dates))
    assert [f"{time:%Y-%m-%d %H:%M}" for time in found] == dates


# In Berlin clocks go from 02:00 to 03:00 on 29 March 2026, and from 03:00 to 02:00 on 25 October. In New York they go
# from 02:00 to 03:00 on 8 March, and from 02:00 to 01:00 on 1 November.
CLOCK_CHANGES = [
    ("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", "03-28 02:30+0100, 03-29 03:00+0200, 03-30 02:30+0200"),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+0200, 03-30 02:00+0200, 03-30 03:00+0200"),
    ("0 3 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+0200, 03-30 03:00+0200"),
    ("30 2 29 3 *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+0200, 2027-03-29 02:30+0200"),
    ("0 * * * *", "Europe/Berlin", "2026-03-29 00:30", "03-29 03:00+0200, 03-29 04:00+0200"),
    ("*/30 * * * *", "Europe/Berlin", "2026-03-29 00:10", "03-29 01:30+0100, 03-29 03:00+0200, 03-29 03:30+0200"),
    ("@daily", "Europe/Berlin", "2026-03-28 12:00", "03-29 00:00+0100, 03-30 00:00+0200, 03-31 00:00+0200"),
    ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 02:30+0200, 10-26 02:30+0100"),
    ("0,30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 02:00+0200, 10-25 02:30+0200, 10-26 02:00+0100"),
    ("0 1-3 * * *", "Europe/Berlin", "2026-10-24 20:00", "10-25 01:00+0200, 10-25 02:00+0200, 10-25 03:00+0100"),
    ("0 * * * *", "Europe/Berlin", "2026-10-24 23:30", "10-25 02:00+0200, 10-25 02:00+0100, 10-25 03:00+0100"),
    ("30 2 * * *", "America/New_York", "2026-03-07 12:00", "03-08 03:00-0400, 03-09 02:30-0400"),
    ("30 1 * * *", "America/New_York", "2026-10-31 12:00", "11-01 01:30-0400, 11-02 01:30-0500"),
    ("0 3 * * 0", "America/New_York", "2026-03-02 12:00", "03-08 03:00-0400, 03-15 03:00-0400"),
    ("0 0 * * 7", "America/New_York", "2026-10-31 12:00", "11-01 00:00-0400, 11-08 00:00-0500"),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", "10-04 02:30+1100, 10-05 02:15+1100"),
    ("15 0 * * *", "Asia/Beirut", "2026-03-28 00:00", "03-29 01:00+0300, 03-30 00:15+0300"),
]
WILDCARD_CHANGES = [
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", "03-28 02:00+0100, 03-28 02:30+0100, 03-30 02:00+0200"),
    ("0 */2 * * *", "Europe/Berlin", "2026-03-28 22:30", "03-29 00:00+0100, 03-29 04:00+0200, 03-29 06:00+0200"),
    ("30 */1 * * *", "America/New_York", "2026-03-08 06:00", "03-08 01:30-0500, 03-08 03:30-0400"),
    ("*/30 2 * * *", "Europe/Berlin", "2026-10-24 23:00", "10-25 02:00+0200, 10-25 02:30+0200, 10-25 02:00+0100"),
    ("0 */2 * * *", "Europe/Berlin", "2026-10-24 21:30", "10-25 00:00+0200, 10-25 02:00+0200, 10-25 02:00+0100"),
    ("* 1 * * *", "America/New_York", "2026-11-01 05:58", "11-01 01:59-0400, 11-01 01:00-0500, 11-01 01:01-0500"),
]
"""As in cron, runs whose minute or hour begins with `*` skip a missing hour and run twice in a repeated hour."""


@pytest.mark.parametrize(("expression", "zone", "after", "expected"), [*CLOCK_CHANGES, *WILDCARD_CHANGES])
def test_clock_changes_affect_runs_as_in_cron(expression: str, zone: str, after: str, expected: str) -> None:
    dates = [date if len(date) > 16 else f"2026-{date}" for date in expected.split(", ")]
    found = islice(cron_runs(expression, ZoneInfo(zone), datetime.fromisoformat(f"{after}+00:00")), len(dates))
    assert [f"{time:%Y-%m-%d %H:%M%z}" for time in found] == dates


@pytest.mark.parametrize("minutes", [31, 45, 59, 61, 75, 89])
def test_run_in_the_repeated_hour_is_not_scheduled_twice(minutes: int) -> None:
    # The run was at 00:30 UTC; until 02:00 UTC the clock shows times before 03:00.
    now = datetime(2026, 10, 25, minutes // 60, minutes % 60, tzinfo=UTC)
    assert next(cron_runs("30 2 * * *", ZoneInfo("Europe/Berlin"), now)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 3 * * 8", "bad day-of-week"),
        ("60 3 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 3 0 * *", "bad day-of-month"),
        ("0 3 * 13 *", "bad month"),
        ("0 3 * * sunday", "bad day-of-week"),
        ("0 3 * * 6-1", "bad day-of-week"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("*/0 * * * *", "bad minute"),
        ("0 3 * *", "expected minute, hour, day of month, month, day of week"),
        ("0 0 3 * * *", "expected minute, hour, day of month, month, day of week"),
        ("@reboot", "nicknames are @yearly"),
        ("", "expected minute, hour"),
    ],
)
def test_an_invalid_expression_is_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        next(cron_runs(expression, ZoneInfo("UTC"), datetime.now(UTC)))


@pytest.mark.parametrize("name", ["Mars", "Europe", "", "../UTC", "/etc/localtime", "x\0"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="time zone not found: expected an IANA name such as Europe/Berlin"):
        read_zone(name)


def test_a_job_with_an_empty_time_zone_is_refused() -> None:
    with pytest.raises(OptionError, match="timezone: '': time zone not found"):
        ExportJob(name="news", to="/srv/grammars", cron="@daily", timezone="")


def test_intervals_are_counted_from_the_last_due_run() -> None:
    job = ExportJob(name="a", to="/tmp/a", every="6h", timezone="Europe/Berlin")
    due = datetime(2026, 3, 28, 20, tzinfo=UTC)
    assert [f"{time:%d %H:%M%z}" for time in islice(job.runs_after(due, due), 2)] == ["29 04:00+0200", "29 10:00+0200"]
    late = datetime(2026, 3, 29, 9, tzinfo=UTC)
    assert next(job.runs_after(late, due)) == datetime(2026, 3, 29, 14, tzinfo=UTC)
    assert next(job.runs_after(late)) == datetime(2026, 3, 29, 15, tzinfo=UTC)
