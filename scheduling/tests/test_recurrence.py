"""Rules and time zones: golden tables for clock-change days, and properties over every change of every zone (R-09)."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.rules.recurrence import Kind, Rule, describe, describe_changes, occurrences, windows_between
from station.clock import cron
from station.clock.zones import UnknownZone, next_changes, to_local, to_utc, zone_names, zone_of

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

# zone, the change in local and UTC terms, then a rule's local start and length in minutes on that day and its window in
# UTC: the start, the end by the wall clock, and the end by elapsed time. Worked out by hand from the published rules.
GOLDEN = [
    # Clocks go forward 02:00 -> 03:00 at 01:00 UTC: 02:30 does not exist and becomes the time of the change.
    ("Europe/Berlin", "2026-03-29 02:30", 60, "2026-03-29 01:00", "2026-03-29 01:30", "2026-03-29 02:00"),
    ("Europe/Berlin", "2026-03-29 01:30", 60, "2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"),
    ("Europe/Berlin", "2026-03-29 20:00", 60, "2026-03-29 18:00", "2026-03-29 19:00", "2026-03-29 19:00"),
    # Back 03:00 -> 02:00 at 01:00 UTC: 02:30 comes twice, the first counts; its wall-clock end is after the second.
    ("Europe/Berlin", "2026-10-25 02:30", 60, "2026-10-25 00:30", "2026-10-25 02:30", "2026-10-25 01:30"),
    ("Europe/Berlin", "2026-10-25 01:30", 60, "2026-10-24 23:30", "2026-10-25 00:30", "2026-10-25 00:30"),
    ("Europe/Berlin", "2026-10-25 20:00", 60, "2026-10-25 19:00", "2026-10-25 20:00", "2026-10-25 20:00"),
    # Forward 02:00 -> 03:00 at 07:00 UTC; back 02:00 -> 01:00 at 06:00 UTC.
    ("America/New_York", "2026-03-08 02:30", 60, "2026-03-08 07:00", "2026-03-08 07:30", "2026-03-08 08:00"),
    ("America/New_York", "2026-03-08 01:30", 60, "2026-03-08 06:30", "2026-03-08 07:00", "2026-03-08 07:30"),
    ("America/New_York", "2026-11-01 01:30", 60, "2026-11-01 05:30", "2026-11-01 07:30", "2026-11-01 06:30"),
    ("America/New_York", "2026-11-01 00:30", 60, "2026-11-01 04:30", "2026-11-01 05:30", "2026-11-01 05:30"),
    # Half an hour: back 02:00 -> 01:30 at 15:00 UTC the day before; forward 02:00 -> 02:30 at 15:30 UTC.
    ("Australia/Lord_Howe", "2026-04-05 01:45", 60, "2026-04-04 14:45", "2026-04-04 16:15", "2026-04-04 15:45"),
    ("Australia/Lord_Howe", "2026-04-05 01:15", 30, "2026-04-04 14:15", "2026-04-04 14:45", "2026-04-04 14:45"),
    ("Australia/Lord_Howe", "2026-10-04 02:15", 60, "2026-10-03 15:30", "2026-10-03 16:15", "2026-10-03 16:30"),
    ("Australia/Lord_Howe", "2026-10-04 01:30", 60, "2026-10-03 15:00", "2026-10-03 15:30", "2026-10-03 16:00"),
    # Ramadan: back 03:00 -> 02:00 at 02:00 UTC in February, forward 02:00 -> 03:00 at 02:00 UTC in March.
    ("Africa/Casablanca", "2026-02-15 02:30", 60, "2026-02-15 01:30", "2026-02-15 03:30", "2026-02-15 02:30"),
    ("Africa/Casablanca", "2026-02-15 20:00", 60, "2026-02-15 20:00", "2026-02-15 21:00", "2026-02-15 21:00"),
    ("Africa/Casablanca", "2026-03-22 02:30", 60, "2026-03-22 02:00", "2026-03-22 02:30", "2026-03-22 03:00"),
    ("Africa/Casablanca", "2026-03-22 20:00", 60, "2026-03-22 19:00", "2026-03-22 20:00", "2026-03-22 20:00"),
    # At midnight: back 24:00 -> 23:00 at 03:00 UTC; forward 00:00 -> 01:00 at 04:00 UTC.
    ("America/Santiago", "2026-04-04 23:30", 60, "2026-04-05 02:30", "2026-04-05 04:30", "2026-04-05 03:30"),
    ("America/Santiago", "2026-04-05 00:00", 60, "2026-04-05 04:00", "2026-04-05 05:00", "2026-04-05 05:00"),
    ("America/Santiago", "2026-09-06 00:00", 60, "2026-09-06 04:00", None, "2026-09-06 05:00"),
    ("America/Santiago", "2026-09-06 00:30", 60, "2026-09-06 04:00", "2026-09-06 04:30", "2026-09-06 05:00"),
    # Never changes; its UTC offset includes 45 minutes.
    ("Asia/Kathmandu", "2026-03-29 02:30", 60, "2026-03-28 20:45", "2026-03-28 21:45", "2026-03-28 21:45"),
    ("Asia/Kathmandu", "2026-10-25 02:30", 60, "2026-10-24 20:45", "2026-10-24 21:45", "2026-10-24 21:45"),
]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def rule_for(kind: Kind, zone: str, local: datetime, minutes: int, *, is_elapsed: bool) -> Rule:
    return Rule(
        kind=kind,
        zone=zone,
        first_on=local.date() - 3 * DAY,
        length=timedelta(minutes=minutes),
        start_time=local.time(),
        weekdays=frozenset([local.weekday()]),
        cron=f"{local.minute} {local.hour} * * *",
        is_elapsed=is_elapsed,
    )


@pytest.mark.parametrize("kind", [Kind.DAILY, Kind.WEEKLY, Kind.CRON])
@pytest.mark.parametrize("is_elapsed", [False, True], ids=["wall-clock", "elapsed"])
@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row[0]} {row[1]}")
def test_golden_windows_of_the_change_days(row: tuple, is_elapsed: bool, kind: Kind) -> None:
    """R-09: daily, weekly and cron on both change days, by the wall clock and by elapsed time."""
    zone, local_text, minutes, starts, wall_ends, elapsed_ends = row
    local = datetime.fromisoformat(local_text)
    rule = rule_for(kind, zone, local, minutes, is_elapsed=is_elapsed)
    ends = elapsed_ends if is_elapsed else wall_ends

    found = [
        each for each in windows_between(rule, utc(starts) - 2 * DAY, utc(starts) + DAY) if each.local_start == local
    ]

    if ends is None:  # the clock skips the whole window
        assert found == []
        return
    assert [(each.starts_at, each.ends_at) for each in found] == [(utc(starts), utc(ends))]


@cache
def changes_of_all_zones() -> list[tuple[str, datetime]]:
    start, span = datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=7 * 366)
    return [
        (name, change.at)
        for name in zone_names()
        for change in next_changes(name, start, count=100, within=span)
        if change.at.year <= 2030
    ]


def test_the_list_of_clock_changes_is_complete() -> None:
    berlin = [at for name, at in changes_of_all_zones() if name == "Europe/Berlin"]
    assert len(berlin) == 14
    assert berlin[0] == utc("2024-03-31 01:00")
    assert len({name for name, _ in changes_of_all_zones()}) > 100


@pytest.mark.parametrize(
    ("minutes", "expression"), [(15, "*/15 * * * *"), (30, "*/30 * * * *"), (60, "0 * * * *"), (60, "30 * * * *")]
)
def test_touching_windows_touch_in_utc_at_every_change_of_every_zone(minutes: int, expression: str) -> None:
    """No gap, no overlap, all of one length, strictly ordered at every clock change (2024 to 2030, all zones)."""
    for name, at in changes_of_all_zones():
        if minutes == 60 and name in {"Australia/Lord_Howe", "Australia/LHI"}:
            continue  # they change by half an hour, so that one hour of the clock has 30 or 90 minutes
        rule = Rule(Kind.CRON, name, (at - 3 * DAY).date(), timedelta(minutes=minutes), cron=expression)
        windows = windows_between(rule, at - 3 * HOUR, at + 3 * HOUR)
        assert windows, name
        for before, after in pairwise(windows):
            assert before.starts_at < before.ends_at == after.starts_at, (name, before, after)
            assert before.ends_at - before.starts_at == timedelta(minutes=minutes), (name, before)


def test_days_of_24_wall_clock_hours_follow_each_other_at_every_change_of_every_zone() -> None:
    for name, at in changes_of_all_zones():
        rule = Rule(Kind.DAILY, name, (at - 5 * DAY).date(), DAY, start_time=time(2, 30))
        windows = windows_between(rule, at - 3 * DAY, at + 3 * DAY)
        assert len(windows) >= 5
        for before, after in pairwise(windows):
            assert before.ends_at == after.starts_at, (name, before, after)
            assert timedelta(hours=21) <= before.ends_at - before.starts_at <= timedelta(hours=27)


def test_to_utc_never_goes_backwards() -> None:
    """Minute by minute through every change: a later local time never gives an earlier UTC time."""
    for name, at in changes_of_all_zones():
        zone = zone_of(name)
        local = to_local(at, zone) - 2 * HOUR
        instants = [to_utc(local + timedelta(minutes=5 * step), zone) for step in range(48)]
        assert instants == sorted(instants), name


zones = st.sampled_from(zone_names())
rules = st.builds(
    Rule,
    kind=st.sampled_from([Kind.ONCE, Kind.DAILY, Kind.WEEKLY, Kind.CRON]),
    zone=zones,
    first_on=st.dates(date(2024, 1, 1), date(2030, 12, 31)),
    length=st.timedeltas(timedelta(seconds=1), timedelta(days=3)).map(
        lambda each: timedelta(seconds=int(each.total_seconds()))
    ),
    start_time=st.times().map(lambda each: each.replace(microsecond=0)),
    weekdays=st.frozensets(st.integers(0, 6)),
    cron=st.sampled_from(
        [
            "0 2 * * *",
            "30 * * * *",
            "*/40 */2 * * *",
            "30 1,2 * * SUN",
            "*/20 0-3 * * *",
            "0 0 29 2 *",
            "15 20 1 * MON",
            "5 4 31 * *",
        ]
    ),
    until_on=st.none() | st.dates(date(2024, 1, 1), date(2031, 12, 31)),
    count=st.none() | st.integers(1, 50),
    is_elapsed=st.booleans(),
)
instants = st.integers(0, 8 * 365 * 24 * 60).map(
    lambda minutes: datetime(2023, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)


@given(rules, instants)
def test_occurrences_are_strictly_after_ordered_and_do_not_overlap(rule: Rule, after: datetime) -> None:
    found = list(islice(occurrences(rule, after), 30))
    for window in found:
        assert window.starts_at > after
        assert window.ends_at > window.starts_at
        assert window.local_start.date() >= rule.first_on
        assert rule.until_on is None or window.local_start.date() <= rule.until_on
    for before, following in pairwise(found):
        assert before.starts_at < following.starts_at
        assert before.ends_at <= following.starts_at
    if rule.count is not None:
        assert len(list(islice(occurrences(rule, datetime(2023, 1, 1, tzinfo=UTC)), 60))) <= rule.count


@given(rules, instants)
def test_asking_from_the_middle_gives_the_same_answer(rule: Rule, after: datetime) -> None:
    """The start of the query does not change the windows: planning may stop and continue anywhere."""
    found = list(islice(occurrences(rule, after), 6))
    for position, window in enumerate(found[:-1]):
        assert next(occurrences(rule, window.starts_at)) == found[position + 1]


def test_count_counts_exceptions_too_and_until_is_inclusive() -> None:
    first = date(2026, 5, 1)
    rule = Rule(
        Kind.DAILY,
        "Europe/Berlin",
        first,
        HOUR,
        time(20),
        count=3,
        exceptions=frozenset(["2026-05-02T20:00:00"]),
    )
    found = [each.local_start.day for each in occurrences(rule, utc("2026-04-01 00:00"))]
    assert found == [1, 3]
    kept = [each.is_exception for each in occurrences(rule, utc("2026-04-01 00:00"), with_exceptions=True)]
    assert kept == [False, True, False]

    until = Rule(Kind.DAILY, "Europe/Berlin", first, HOUR, time(20), until_on=date(2026, 5, 2))
    assert [each.local_start.day for each in occurrences(until, utc("2026-04-01 00:00"))] == [1, 2]


def test_an_hourly_rule_counts_and_skips_each_pass_of_a_repeated_hour_by_itself() -> None:
    """R-09: the two recordings at 02:30 are two occurrences with keys of their own."""
    rule = Rule(Kind.CRON, "Europe/Berlin", date(2026, 10, 25), HOUR, cron="30 * * * *", count=4)
    night = list(occurrences(rule, utc("2026-10-24 12:00")))
    assert [each.key[11:] for each in night] == ["00:30:00", "01:30:00", "02:30:00", "02:30:00/2"]
    assert [each.starts_at.hour for each in night] == [22, 23, 0, 1]
    rest = replace(rule, exceptions=frozenset([night[3].key]))
    assert list(occurrences(rest, utc("2026-10-24 12:00"))) == night[:3]


def test_of_two_starts_that_the_change_makes_one_the_programme_that_the_clock_shows_is_recorded_whole() -> None:
    rule = Rule(Kind.CRON, "Europe/Berlin", date(2026, 3, 29), HOUR, cron="0,30 2,3 * * *")
    first = next(occurrences(rule, utc("2026-03-28 12:00")))
    assert (first.key, first.starts_at) == ("2026-03-29T03:00:00", utc("2026-03-29 01:00"))


def test_a_rule_that_never_happens_ends_instead_of_looping() -> None:
    weekly = Rule(Kind.WEEKLY, "UTC", date(2026, 1, 1), HOUR, time(1), weekdays=frozenset())
    assert list(occurrences(weekly, utc("2026-01-01 00:00"))) == []
    past = Rule(Kind.DAILY, "UTC", date(2026, 1, 1), HOUR, time(1), until_on=date(2025, 1, 1))
    assert list(occurrences(past, utc("2026-01-01 00:00"))) == []
    for length in (timedelta(0), -HOUR):
        empty = Rule(Kind.CRON, "UTC", date(2026, 1, 1), length, cron="* * * * *")
        assert list(occurrences(empty, utc("2026-01-01 00:00"))) == []


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 0 31 2 *", "No day in the calendar"),
        ("5-1 * * * *", "runs backwards"),
        ("R * * * *", "between 0 and 59, not R"),
        ("* * * * * *", "there are 6"),
        ("５ * * * *", "is not a valid "),
        ("@daily", "there are 1"),
        ("60 * * * *", "between 0 and 59"),
        ("0/5 * * * *", "a step needs * or a range"),
        ("*/0 * * * *", "must be between 1 and 59"),
        ("0 0 L * *", "not L"),
        ("0 0 * * MON#2", "is not a valid "),
        ("", "there are 0"),
        ("0 0 * JAN-13 *", "between 1 and 12"),
    ],
)
def test_an_invalid_cron_expression_is_refused_with_a_message(expression: str, words: str) -> None:
    """S-07."""
    with pytest.raises(cron.BadCron, match=words.replace("*", r"\*")):
        cron.normalise(expression)


def test_a_cron_expression_is_described() -> None:
    assert cron.describe("15 20 * * mon-fri") == "At 20:15, Monday through Friday"


@pytest.mark.parametrize("name", ["localtime", "Factory", "posixrules", "Mars/Base", "", "Etc/GMT+5", "../etc/passwd"])
def test_only_zones_of_real_places_are_accepted(name: str) -> None:
    """S-07."""
    with pytest.raises(UnknownZone):
        zone_of(name)


def test_the_next_clock_changes_are_described() -> None:
    rule = Rule(Kind.DAILY, "Europe/Berlin", date(2026, 1, 1), HOUR, time(2, 30))
    spring, autumn = describe_changes(rule, utc("2026-03-01 00:00"))
    assert spring == (
        "On 2026-03-29 the clocks go forward from 02:00 to 03:00: "
        "the 02:30 recording starts at 03:00, ends at 03:30 and lasts 30 min instead of 1 h."
    )
    assert autumn.endswith("the 02:30 recording ends at 03:30 and lasts 2 h instead of 1 h.")
    hourly = Rule(Kind.CRON, "Europe/Berlin", date(2026, 1, 1), HOUR, cron="*/30 * * * *")
    spring, autumn = describe_changes(replace(hourly, length=HOUR / 2), utc("2026-03-01 00:00"))
    assert spring.endswith("from 02:00 to 03:00: there is no recording at 02:00, 02:30.")
    assert autumn.endswith("from 03:00 to 02:00: it records twice at 02:00, 02:30.")
    evening = Rule(Kind.DAILY, "Europe/Berlin", date(2026, 1, 1), HOUR, time(20))
    assert describe_changes(evening, utc("2026-03-01 00:00"))[0].endswith("nothing changes for this schedule.")
    still = Rule(Kind.DAILY, "Asia/Kathmandu", date(2026, 1, 1), HOUR, time(20))
    assert describe_changes(still, utc("2026-03-01 00:00")) == [
        "Asia/Kathmandu does not change its clocks in the next year."
    ]
    assert describe(still) == "Every day at 20:00, Asia/Kathmandu"
