"""Edit and cancel a booking in every state (R-10, R-12)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes.models import Workload
from scheduling.bookings.changing import NotPossible, cancel, change_end, extend, move_window, restore
from scheduling.bookings.controls import skip
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import start_now
from station.models import AuditEntry
from testing.media import decode
from testing.waiting import wait_until
from worker.wire.status import CaptureStatus

State = Booking.State
HOUR = timedelta(hours=1)


@pytest.fixture
def camera(project: Any) -> Recorder:
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.PLANNED, State.ARMED])
def test_cancel_before_the_start_frees_the_window_and_can_be_undone(camera: Recorder, state: str) -> None:
    """R-10."""
    now = timezone.now()
    booking = book(camera, now + HOUR, now + 2 * HOUR, now=now)
    if state == State.ARMED:
        booking.move(State.ARMED, now=now)

    assert cancel(booking, now=now, by="anna")
    assert cancel(booking, now=now, by="anna") is False
    assert booking.state == State.CANCELLED
    other = book(camera, now + HOUR, now + 2 * HOUR, now=now)
    with pytest.raises(BookingRefused, match=str(other)):
        restore(booking, now=now, by="anna")
    cancel(other, now=now, by="anna")
    restore(booking, now=now, by="anna")
    assert booking.state == State.PLANNED


@pytest.mark.django_db
def test_the_audit_entry_of_a_booking_belongs_to_its_project(camera: Recorder) -> None:
    """S-01: otherwise only administrators would see who skipped it."""
    now = timezone.now()
    skip(book(camera, now + HOUR, now + 2 * HOUR, now=now), by="anna")

    assert AuditEntry.objects.get().project == camera.project


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.STARTING, State.RETRY_WAIT, State.RECORDING])
def test_cancel_of_a_running_booking_stops_its_own_media_worker_once(camera: Recorder, state: str) -> None:
    """R-10: never another booking's media worker, and only one stop."""
    from nodes.models import Node
    from nodes.workloads import want

    now = timezone.now()
    node = Node.objects.create(name="n", address="process", media_dir="/tmp/n")
    booking = book(camera, now, now + HOUR, now=now)
    Booking.objects.update(state=state)
    booking.refresh_from_db()
    mine = want(booking.owner, node=node, program="capture", spec={}, secret={}, now=now)
    others = want("booking:999999", node=node, program="capture", spec={}, secret={}, now=now)

    assert cancel(booking, now=now, by="anna")
    assert cancel(booking, now=now, by="anna") is False

    mine.refresh_from_db()
    others.refresh_from_db()
    assert (booking.state, mine.is_wanted, others.is_wanted) == (State.CANCELLING, False, True)
    assert mine.events.filter(note__contains="no longer wanted").count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("state", [State.COMPLETED, State.PARTIAL, State.FAILED, State.MISSED, State.STOPPING])
def test_a_booking_that_is_over_or_ending_cannot_be_cancelled_or_extended(camera: Recorder, state: str) -> None:
    now = timezone.now()
    booking = book(camera, now, now + HOUR, now=now)
    Booking.objects.update(state=state)
    booking.refresh_from_db()
    assert cancel(booking, now=now, by="anna") is False
    with pytest.raises(NotPossible, match="cannot be changed"):
        extend(booking, 900, now=now, by="anna")


@pytest.mark.django_db
def test_moving_a_planned_booking_checks_again_whether_the_recorder_is_free(camera: Recorder) -> None:
    now = timezone.now()
    booking = book(camera, now + HOUR, now + 2 * HOUR, now=now)
    taken = book(camera, now + 3 * HOUR, now + 4 * HOUR, now=now, title="Film")
    with pytest.raises(BookingRefused, match="Film"):
        move_window(booking, now + 2.5 * HOUR, now + 3.5 * HOUR, now=now, by="anna")
    move_window(booking, now + 2 * HOUR, now + 3 * HOUR, now=now, by="anna")
    booking.refresh_from_db()
    assert booking.closes_at == taken.opens_at
    with pytest.raises(BookingRefused, match="To end the recording now, stop it"):
        change_end(booking, booking.starts_at + HOUR / 2, now=booking.starts_at + HOUR, by="anna")


def test_a_live_recording_is_extended_and_shortened_without_a_break(recorder: Recorder, scheduler: Any) -> None:
    """R-12: the media worker gets the new end, keeps its file, and ends at the new time by itself."""
    scheduler()
    outcome = start_now(recorder, by="anna", length=timedelta(seconds=600))
    booking = outcome.target
    assert booking is not None
    assert outcome.is_good, outcome.text

    def end_of_worker() -> datetime | None:
        return Workload.objects.get().status(CaptureStatus).ends_at

    extend(booking, 900, now=timezone.now(), by="anna")
    wait_until(lambda: end_of_worker() == booking.closes_at, 15, "the media worker has the later end")

    change_end(booking, timezone.now() + timedelta(seconds=4), now=timezone.now(), by="anna")
    wait_until(lambda: Booking.objects.get().is_over, 30, "it ends at the new time")

    booking.refresh_from_db()
    assert booking.state == State.COMPLETED
    assert len(booking.parts) == 1
    notes = " ".join(booking.events.values_list("note", flat=True))
    assert "extended from" in notes
    assert "shortened from" in notes
    from django.conf import settings

    [path] = settings.RECORDINGS_DIR.rglob("*.ts")
    assert decode(path) > 25


def test_a_start_by_hand_lasts_until_the_next_booking(recorder: Recorder) -> None:
    """Start by hand records at once, and a later booking keeps its window."""
    now = timezone.now()
    upcoming = book(recorder, now + HOUR, now + 2 * HOUR, now=now)
    outcome = start_now(recorder, by="anna")
    assert outcome.is_good, outcome.text
    assert outcome.target is not None
    assert outcome.target.ends_at == upcoming.starts_at
