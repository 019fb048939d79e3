"""States of a booking without a media worker (missed, retried, failed) with their alerts; and the scheduler's step."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.bookings.making import book
from scheduling.leader.loop import Loop
from scheduling.models import Booking, Recorder
from scheduling.recording import lifecycle, loop_step
from scheduling.recording.lifecycle import BACKOFF_SECONDS, advance, request_stop
from station.leader_term import Term
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
    """R-07: pauses of 1, 2, 5, 10, then 30 s until the window ends; then failed."""
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


def test_a_window_that_passed_completely_is_missed_with_the_reason(booking: Booking) -> None:
    """R-06: `missed` with the reason and an alert."""
    advance(booking, booking.closes_at + timedelta(seconds=1))

    assert booking.state == State.MISSED
    assert "before it could be started" in booking.events.last().note
    assert Alert.objects.get().title == f"Cam #{booking.pk} was missed"


def test_a_window_that_opened_without_a_scheduler_still_starts_and_records_how_late(booking: Booking) -> None:
    """R-05."""
    advance(booking, booking.opens_at + timedelta(seconds=90))

    assert booking.late_by_seconds == 90
    assert booking.state == State.RETRY_WAIT


def test_two_processes_that_advance_a_booking_move_it_once(booking: Booking) -> None:
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


def test_a_retry_wakes_the_loop(booking: Booking, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-07: another thread may set the time of the retry; without a wake-up the loop would sleep until its tick."""
    woken: list[str] = []
    monkeypatch.setattr(lifecycle, "wake_scheduler", lambda: woken.append("!"))
    advance(booking, booking.opens_at)
    assert woken == ["!"]


def good_step(term: Term, now: Any) -> Any:
    good_step.calls += 1  # type: ignore[attr-defined]
    return now + timedelta(seconds=90)


def bad_step(term: Term, now: Any) -> Any:
    raise ValueError("a bug in a step")


@pytest.mark.django_db(transaction=True)
def test_a_failing_step_does_not_stop_the_others(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    """R-03."""
    good_step.calls = 0  # type: ignore[attr-defined]
    settings.SCHEDULER_STEPS = [f"{__name__}.bad_step", f"{__name__}.good_step"]

    loop = Loop()
    loop.run_once()

    assert good_step.calls == 1  # type: ignore[attr-defined]
    assert loop._read is not None
    now = loop._read.now
    assert set(loop._due.values()) == {now + timedelta(seconds=1), now + timedelta(seconds=90)}
    assert "A step failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_safety_net_tick_bounds_the_sleep(settings: Any) -> None:
    """R-01: SCHEDULER_TICK_SECONDS."""
    settings.SCHEDULER_STEPS = []
    settings.SCHEDULER_TICK_SECONDS = 150
    settings.LEADER_HEARTBEAT_SECONDS = 600
    assert 50 < Loop().run_once() <= 150
    settings.LEADER_HEARTBEAT_SECONDS = 50
    assert 0 < Loop().run_once() <= 50  # the query is also the heartbeat


def test_a_start_does_not_wait_for_the_followers(
    booking: Booking, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The media worker is requested first: filing the recording takes time, and a start must be punctual."""
    order: list[str] = []
    settings.BOOKING_FOLLOWERS = ["follower"]
    monkeypatch.setattr(loop_step, "import_string", lambda path: lambda *_: order.append(path))
    monkeypatch.setattr(loop_step, "reconcile_soon", lambda *_: order.append("reconcile"))

    loop_step._look_at(Term(), booking)

    assert order == ["reconcile", "follower"]
