"""When a job with an interval is due: the floor of now minus the delay, on one fixed grid (J-04)."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.definitions import fire_times

moments = st.integers(0, 4 * 10**15).map(lambda micros: fire_times.ORIGIN + timedelta(microseconds=micros))


def floor_of(now: datetime, seconds: int, delay: int) -> datetime:
    """The rule in plain arithmetic: the last grid point not after `now - delay`, and the delay on top of it."""
    elapsed = (now - fire_times.ORIGIN).total_seconds() - delay
    return fire_times.ORIGIN + timedelta(seconds=math.floor(elapsed / seconds) * seconds + delay)


@given(st.integers(1, 86400), st.integers(0, 7200), st.integers(0, 4 * 10**9))
def test_the_latest_fire_is_the_floor_of_now_minus_the_delay(seconds: int, delay: int, second: int) -> None:
    """J-04: for any interval, delay and moment; the next fire time is one interval later."""
    grid, now = fire_times.Every(seconds, delay), fire_times.ORIGIN + timedelta(seconds=second, days=400)
    floor = floor_of(now, seconds, delay)

    assert grid.latest(floor - timedelta(seconds=5 * seconds), now) == floor
    assert fire_times.first_after(grid, now) == floor + timedelta(seconds=seconds)
    assert fire_times.between(grid, floor, now, 10) == [floor]


@given(moments, moments)
def test_two_processes_that_ask_at_different_moments_find_the_same_instants(one: datetime, other: datetime) -> None:
    """J-04: the grid starts at midnight UTC, not when a process started."""
    grid = fire_times.Every(90, 7)
    first, second = sorted((one, other))
    second = min(second, first + timedelta(hours=1))
    asked_early = [fire for fire in fire_times.between(grid, first, second, 100) if fire > first]
    assert fire_times.between(grid, first + timedelta(microseconds=1), second, 100) == asked_early


@pytest.mark.parametrize(
    ("now", "fire"),
    [
        ("2026-05-01 12:00:00", "11:15:30"),  # 12:00 minus the delay is before the grid point at 12:00
        ("2026-05-01 12:00:29.999999", "11:15:30"),
        ("2026-05-01 12:00:30", "12:00:30"),  # the very instant
        ("2026-05-01 12:44:59", "12:00:30"),
        ("2026-05-01 12:45:30", "12:45:30"),
        ("2026-05-02 00:00:29", "23:15:30"),  # across midnight
    ],
)
def test_every_three_quarters_of_an_hour_half_a_minute_late(now: str, fire: str) -> None:
    """J-04: by example; counted from 1970, a 45-minute interval is due at 12:00 on 1 May 2026."""
    grid, moment = fire_times.Every(45 * 60, 30), datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert grid.latest(moment - timedelta(hours=5), moment).strftime("%H:%M:%S") == fire
