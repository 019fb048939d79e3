"""Cron expressions against a small evaluator of their own: what is stored, said and done is the same (R-09, J-04)."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from station.clock import cron
from station.clock.cron_instants import instants
from station.clock.zones import next_changes, to_local, zone_names, zone_of

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LIMITS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
NAMES = {"month": cron.MONTHS, "weekday": cron.WEEKDAYS}


def value_of(text: str, field: str) -> int:
    names = NAMES.get(field, ())
    return names.index(text) + LIMITS[field][0] if text in names else int(text)


def allows(text: str, field: str, value: int) -> bool:
    """One field by the letter of crontab(5): a list of *, values and ranges, each with a step or without."""
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        low = LIMITS[field][0] if span == "*" else value_of(first, field)
        high = LIMITS[field][1] if span == "*" else value_of(last or first, field)
        if field == "weekday" and span == "*":
            high = 6
        if field == "weekday" and last == "SUN" and low:  # FRI-SUN; SUN-SUN is one day
            high = 7
        values = range(low, high + 1, int(step or 1))
        if value in values or (field == "weekday" and value == 0 and 7 in values):
            return True
    return False


def matches(expression: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = expression.split()
    is_day = allows(day, "day", local.day)
    is_weekday = allows(weekday, "weekday", local.isoweekday() % 7)
    is_free = any(item in {"*", "*/1"} for text in (day, weekday) for item in text.split(","))
    on_day = (is_day and is_weekday) if is_free else (is_day or is_weekday)
    is_time = allows(minute, "minute", local.minute) and allows(hour, "hour", local.hour)
    return is_time and allows(month, "month", local.month) and on_day


def found_by_looking(expression: str, after: datetime, count: int, until: datetime) -> list[datetime]:
    found: list[datetime] = []
    minute, hour = expression.split()[:2]
    day = after.replace(hour=0, minute=0)
    hours = [each for each in range(24) if allows(hour, "hour", each)]
    minutes = [each for each in range(60) if allows(minute, "minute", each)]
    while day < until and len(found) < count:
        if matches(f"* * {' '.join(expression.split()[2:])}", day):
            times = [day.replace(hour=each, minute=other) for each in hours for other in minutes]
            found += [moment for moment in times if moment > after]
        day += timedelta(days=1)
    return found[:count]


@st.composite
def items(draw: st.DrawFn, field: str) -> str:
    low, high = LIMITS[field]
    first = draw(st.integers(low, high))
    last = draw(st.just(first) | st.integers(first, high))

    def written(value: int) -> str:
        names = NAMES.get(field, ())
        is_named = bool(names) and value - low < len(names) and draw(st.booleans())
        return names[value - low] if is_named else str(value)

    step = f"/{draw(st.integers(1, high))}"
    forms = ["*", "*/", "value", "range", "range/"]
    form = draw(st.sampled_from(forms))
    if form.startswith("*"):
        return f"*{step}" if form == "*/" else "*"
    if form == "value":
        return written(first)
    return f"{written(first)}-{written(last)}{step if form == 'range/' else ''}"


def fields(field: str) -> st.SearchStrategy[str]:
    return st.just("*") | st.lists(items(field), min_size=1, max_size=3).map(",".join)


expressions = st.tuples(*(fields(name) for name in LIMITS)).map(" ".join)
moments = st.integers(0, 4 * 366 * 1440).map(lambda minutes: datetime(2024, 1, 1) + minutes * MINUTE)  # noqa: DTZ001


@given(expressions, moments)
def test_every_expression_means_what_crontab_says(expression: str, after: datetime) -> None:
    """Every field with single values, ranges of one value, steps, names, lists; days and weekdays together."""
    until = after + timedelta(days=3 * 366)
    try:
        times = cron.local_times(expression, after)
    except cron.BadCron:
        return
    wanted = found_by_looking(expression, after, 5, until)
    assert [each for each in islice(times, 5) if each < until][: len(wanted)] == wanted


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("step", ["", "/1", "/3"])
def test_a_range_of_one_value_is_that_value_in_every_field(number: int, step: str) -> None:
    """`12-12` in the field of the month is December, not every month."""
    _name, low, high, words = cron.FIELDS[number]
    for value in range(low, high + 1):
        single = ["0", "3", "*", "*", "*"]
        single[number] = str(value)
        written = [str(value), *([words[value - low]] if value - low < len(words) else [])]
        for text in written:
            ranged = [*single]
            ranged[number] = f"{text}-{text}{step}"
            after = datetime(2026, 2, 27)  # noqa: DTZ001
            one, other = (list(islice(cron.local_times(" ".join(each), after), 4)) for each in (single, ranged))
            assert one == other, ranged
            assert cron.describe(" ".join(single)) == cron.describe(" ".join(ranged))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 3 * 12-12 *", "At 03:00, only in December"),
        ("0 3 * * FRI-SUN", "At 03:00, Friday through Sunday"),
        ("0 */7 * * *", "At 00:00, 07:00, 14:00 and 21:00"),
        ("0 */6 * * *", "Every 6 hours"),
        ("*/15 * * * *", "Every 15 minutes"),
        ("0 3 */15 * *", "At 03:00, on day 1, 16, and 31 of the month"),
        ("0 3 * * 0,7", "At 03:00, only on Sunday"),
        ("0 3 1 * 1-5", "At 03:00, on day 1 of the month, Monday through Friday (on each day that matches either)"),
        ("0 3 15 * 1", "At 03:00, on day 15 of the month, or on Monday (on each day that matches either)"),
        ("0 0-23 * * *", "Every hour"),
        ("0 3 * 1-12 *", "At 03:00"),
    ],
)
def test_the_words_say_what_it_does(expression: str, words: str) -> None:
    """R-09: no step that starts again unevenly is called “every”; day and weekday together are explained."""
    assert cron.describe(expression) == words


@given(expressions)
def test_every_accepted_expression_has_words(expression: str) -> None:
    try:
        cron.normalise(expression)
    except cron.BadCron:
        return
    assert cron.describe(expression)


def by_real_time(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Every minute that the clock on the wall shows, in the order in which it shows them."""
    place, moment, found = zone_of(zone), begin + MINUTE, []
    while moment <= end:
        if matches(expression, to_local(moment, place)):
            found.append(moment)
        moment += MINUTE
    return found


def changes() -> list[tuple[str, datetime]]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    named = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll")
    return [(name, change.at) for name in named for change in next_changes(name, start)]


@pytest.mark.parametrize("expression", ["0 * * * *", "30 * * * *", "*/20 * * * *", "10 */2 * * *", "30 0-23 * * *"])
def test_a_rule_for_every_hour_runs_in_real_time(expression: str) -> None:
    """R-09: both passes of a repeated hour, and nothing at the jump that the clock does not show; as cron does."""
    for zone, at in changes():
        begin, end = at - 5 * HOUR, at + 5 * HOUR
        wanted = by_real_time(expression, zone, begin, end)
        for start in (begin, at - 90 * MINUTE, at - 20 * MINUTE, at, at + 20 * MINUTE, at + 61 * MINUTE):
            found = [each.at for each in islice(instants(expression, zone, start), 80) if each.at <= end]
            assert found == [each for each in wanted if each > start], (zone, at, start)


@given(st.sampled_from(zone_names()), moments, st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 0,1,2,3 * * *"]))
def test_instants_are_ordered_and_the_same_from_wherever_one_asks(zone: str, naive: datetime, expression: str) -> None:
    after = naive.replace(tzinfo=UTC)
    found = list(islice(instants(expression, zone, after), 8))
    assert all(one.at < other.at for one, other in pairwise(found))
    assert found[0].at > after
    for position, each in enumerate(found[:-1]):
        assert next(instants(expression, zone, each.at)) == found[position + 1]


def test_a_rule_for_chosen_hours_runs_once_on_each_change_day() -> None:
    """R-09: a time that comes twice counts once, a time that is left out becomes the moment of the change."""
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert next(instants("30 2 * * *", "Europe/Berlin", spring)).at == datetime(2026, 3, 29, 1, tzinfo=UTC)
    nights = [each.at for each in islice(instants("30 2 * * *", "Europe/Berlin", autumn), 2)]
    assert nights == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 26, 1, 30, tzinfo=UTC)]
