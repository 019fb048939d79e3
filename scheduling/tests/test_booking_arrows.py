"""Two rare moves of a booking: from armed back to planned, and the end of a cancelled recording."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Workload
from nodes.workloads.reconcile import reconcile
from scheduling.bookings.changing import cancel
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from scheduling.recording.controls import start_now
from scheduling.recording.lifecycle import advance
from station.clock import database_now
from testing.media import decode
from testing.waiting import wait_until

State = Booking.State
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
EIGHT = datetime(2030, 5, 6, 20, 0, tzinfo=UTC)


@pytest.mark.django_db
def test_an_armed_booking_whose_opening_moves_is_planned_again(project: Any) -> None:
    """R-12, R-17: the dispatcher that holds it for the old instant does not start it; it is armed again later."""
    camera = Recorder.objects.create(name="Cam", project=project, source_type="test", pad_before_seconds=300)
    now = EIGHT - HOUR
    armed = book(camera, EIGHT, EIGHT + HOUR, now=now)
    assert Booking.move_batch([armed.pk], State.PLANNED, State.ARMED, now=now) == [armed.pk]

    book(camera, EIGHT - HOUR, EIGHT - 2 * MINUTE, now=now, title="Late extra")

    armed.refresh_from_db()
    assert (armed.state, armed.opens_at) == (State.PLANNED, EIGHT - 2 * MINUTE)
    [note] = armed.events.filter(old=State.ARMED, new=State.PLANNED).values_list("note", flat=True)
    assert "Late extra" in note


def test_a_cancelled_recording_ends_cancelled_and_keeps_its_file(recorder: Recorder, settings: Any) -> None:
    """R-10: its media worker is stopped once; what was recorded stays and can be played."""
    settings.WORKER_PREVIEW = False
    outcome = start_now(recorder, by="anna")
    assert isinstance(outcome.target, Booking), outcome.text
    assert outcome.is_good, outcome.text
    assert cancel(outcome.target, now=database_now(), by="anna")

    def is_cancelled() -> bool:
        for workload in Workload.objects.to_look_at():
            reconcile(workload.pk)
        booking = Booking.objects.select_related("recorder__project").get()
        advance(booking, database_now())
        return bool(booking.state == State.CANCELLED)

    wait_until(is_cancelled, 30, "its media worker is gone, and it is cancelled", pause=0.2)
    booking = Booking.objects.get()
    assert [event.new for event in booking.events.filter(new__startswith="cancel")] == ["cancelling", "cancelled"]
    [part] = booking.parts
    path = Path(settings.RECORDINGS_DIR) / booking.folder / part["file"]
    assert decode(path) >= part["frames"] > 0
