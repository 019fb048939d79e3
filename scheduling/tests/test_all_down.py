"""Windows that pass while everything is down are recorded as missed, with an alert; the series continues (R-06)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules.planning import plan_ahead
from station.clock import database_now, house_zone
from station.models import Alert
from station.models.alert import Severity
from testing.processes import manage
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

State = Booking.State
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def daily(recorder: Recorder) -> Schedule:
    """Daily, one hour long, last started two hours ago; planned three days ago, and no scheduler ran since."""
    now = database_now()
    begins = timezone.localtime(now - 2 * HOUR, house_zone()).replace(microsecond=0)
    schedule = Schedule.objects.create(
        name="Noon",
        recorder=recorder,
        kind="daily",
        zone=str(house_zone()),
        first_on=begins.date() - 30 * DAY,
        start_time=begins.time(),
        length=HOUR,
        plan_due_at=now - 3 * DAY,
    )
    plan_ahead(schedule, now - 3 * DAY)
    Schedule.objects.filter(pk=schedule.pk).update(plan_due_at=now)
    return schedule


def test_windows_that_passed_while_everything_was_down_are_missed_and_the_series_continues(
    daily: Schedule, scheduler: Any
) -> None:
    """R-06: three windows passed without a scheduler; a real one starts and records each as missed, once."""
    now = database_now()
    past = daily.bookings.filter(closes_at__lt=now).order_by("starts_at")
    assert [booking.state for booking in past] == [State.PLANNED] * 3, "no scheduler has run yet"
    upcoming = set(daily.bookings.filter(starts_at__gt=now).values_list("pk", flat=True))

    scheduler()

    wait_until(lambda: not past.exclude(state=State.MISSED).exists(), 60, "all three are missed")
    for booking in past:
        event = booking.events.get(new=State.MISSED)
        assert event.old in {State.PLANNED, State.ARMED}
        assert "its window closed at" in event.note
        assert "before it could be started" in event.note
        assert (booking.attempts, booking.parts) == (0, [])
        alert = Alert.objects.get(key=f"missed:{booking.owner}")
        assert (alert.severity, alert.state, alert.text) == (Severity.CRITICAL, Alert.State.OPEN, event.note)
        assert alert.project == booking.recorder.project
    following = daily.bookings.filter(starts_at__gt=now)
    wait_until(lambda: following.count() >= 13, 30, "the series is planned fourteen days ahead")
    assert set(following.values_list("state", flat=True)) == {State.PLANNED}
    assert upcoming <= set(following.values_list("pk", flat=True)), "bookings planned before are kept"
    gaps = [later - earlier for earlier, later in zip(*[iter(starts(daily))] * 2, strict=False)]
    assert all(timedelta(hours=23) <= gap <= timedelta(hours=25) for gap in gaps), "no day is missing or doubled"


def starts(schedule: Schedule) -> list[Any]:
    return list(schedule.bookings.order_by("starts_at").values_list("starts_at", flat=True))


def test_a_second_scheduler_does_not_report_a_missed_window_again(daily: Schedule) -> None:
    """R-06: the first turn records it; a later turn in another process adds nothing."""
    for _ in range(2):
        turn = manage("runscheduler", "--once")
        assert turn.returncode == 0, turn.stderr

    missed = daily.bookings.filter(state=State.MISSED)
    assert missed.count() == 3
    assert Alert.objects.filter(key__startswith="missed:").count() == 3
    assert {alert.times_seen for alert in Alert.objects.filter(key__startswith="missed:")} == {1}
    assert all(booking.events.filter(new=State.MISSED).count() == 1 for booking in missed)
