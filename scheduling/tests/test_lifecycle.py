"""The life of a booking where nothing runs: missed, retried, given up, its alerts; and the loop around it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.bookings import book
from scheduling.lifecycle import BACKOFF_SECONDS, advance, request_stop
from scheduling.loop import Loop
from scheduling.models import Booking, Recorder
from station.models import Alert

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State


@pytest.fixture
def camera(project: Any) -> Recorder:
    """A recorder that no node can take."""
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.fixture
def booking(camera: Recorder) -> Booking:
    now = timezone.now()
    return book(camera, now, now + timedelta(hours=1), now=now, by="anna")


def test_without_a_node_it_is_tried_again_and_every_error_is_kept(booking: Booking) -> None:
    """R-07: backoff 1, 2, 5, 10, then 30 s, until the window ends; then failed."""
    now = booking.opens_at
    waits = []
    for _ in range(7):
        advance(booking, now)
        assert booking.state == State.RETRY_WAIT
        assert booking.next_attempt_at is not None
        waits.append((booking.next_attempt_at - now).total_seconds())
        now = booking.next_attempt_at

    assert waits == [*BACKOFF_SECONDS, 30, 30]
    assert [error["error"] for error in booking.errors] == ["No place to run: No node is set up."] * 7
    assert Alert.objects.get().key == f"not_starting:{booking.owner}"

    advance(booking, booking.closes_at)

    assert booking.state == State.FAILED
    assert booking.outcome == "failed"
    assert Alert.objects.filter(key=f"failed:{booking.owner}").exists()
    assert Alert.objects.get(key=f"not_starting:{booking.owner}").state == "resolved"


def test_a_window_wholly_missed_says_so(booking: Booking) -> None:
    """R-06: `missed` with the reason and an alert."""
    advance(booking, booking.closes_at + timedelta(seconds=1))

    assert booking.state == State.MISSED
    assert "before it could be started" in booking.events.last().note
    assert Alert.objects.get().title == f"Cam #{booking.pk} was missed"


def test_a_window_that_opened_while_nobody_looked_still_starts_and_says_how_late(booking: Booking) -> None:
    """R-05."""
    advance(booking, booking.opens_at + timedelta(seconds=90))

    assert booking.late_by_seconds == 90
    assert booking.state == State.RETRY_WAIT


def test_two_lookers_move_it_once(booking: Booking) -> None:
    twin = Booking.objects.get(pk=booking.pk)
    advance(booking, booking.opens_at)
    advance(twin, booking.opens_at)

    assert [event.new for event in booking.events.all()] == ["planned", "armed", "starting", "retry_wait"]


def test_stop_ends_a_booking_that_waits_to_retry(booking: Booking) -> None:
    now = booking.opens_at
    advance(booking, now)

    assert request_stop(booking, now=now, by="anna")
    advance(booking, now)

    assert booking.state == State.FAILED
    assert request_stop(booking, now=now, by="anna") is False


def good_step(now: Any) -> Any:
    good_step.calls += 1  # type: ignore[attr-defined]
    return now + timedelta(seconds=2)


def bad_step(now: Any) -> Any:
    raise ValueError("a bug in a step")


@pytest.mark.django_db(transaction=True)
def test_a_failing_step_does_not_stop_the_others(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    """R-03."""
    good_step.calls = 0  # type: ignore[attr-defined]
    settings.SCHEDULER_STEPS = [f"{__name__}.bad_step", f"{__name__}.good_step"]

    seconds = Loop().run_once()

    assert good_step.calls == 1  # type: ignore[attr-defined]
    assert 0 < seconds <= 2
    assert "A step failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_safety_net_tick_bounds_the_sleep(settings: Any) -> None:
    """R-01: SCHEDULER_TICK_SECONDS."""
    settings.SCHEDULER_STEPS = []
    settings.SCHEDULER_TICK_SECONDS = 15
    settings.LEADER_HEARTBEAT_SECONDS = 60
    assert 14 < Loop().run_once() <= 15
    settings.LEADER_HEARTBEAT_SECONDS = 5
    assert 4 < Loop().run_once() <= 5  # asking is also the sign of life
