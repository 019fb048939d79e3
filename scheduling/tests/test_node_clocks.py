"""Real recordings on a node whose clock is wrong or jumps: the whole window is recorded, and the report is true."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Node
from scheduling.bookings.making import book
from scheduling.leader.election import read_status
from scheduling.models import Booking, Recorder
from scheduling.recording.outcome import missing_seconds
from station.clock import database_now
from station.models import Alert
from testing.verdicts import held_seconds
from testing.waiting import wait_until
from worker.process.node_time import OFFSET_FILE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.paced]

LENGTH = timedelta(seconds=20)
# For a busy machine. The clock of the node is wrong by 10 s.
SLACK_SECONDS = 3.0
ENOUGH_TIME = {"LAUNCH_AHEAD_SECONDS": "10", "WORKER_PREVIEW": "false"}


@pytest.mark.parametrize(("at_start", "then"), [(10, 10), (-10, -10), (0, 10)])
def test_a_recording_is_complete_although_the_clock_of_its_node_is_wrong(
    recorder: Recorder, process_node: Any, scheduler: Any, settings: Any, tmp_path: Path, at_start: int, then: int
) -> None:
    """R-23: 10 s ahead, 10 s behind, or a jump in the middle; one alert, which ends when the clock is right again."""
    offset = tmp_path / "offset"
    offset.write_text(str(at_start))
    scheduler(**{OFFSET_FILE: str(offset), "NODE_DISK_CHECK_SECONDS": "1", **ENOUGH_TIME})
    wait_until(lambda: read_status().is_locked, 20, "it leads")
    now = database_now()
    starts = now + timedelta(seconds=14)
    booking = book(recorder, starts, starts + LENGTH, now=now)

    wait_until(lambda: _fresh(booking).state == Booking.State.RECORDING, 40, "it records", pause=0.2)
    offset.write_text(str(then))
    wait_until(lambda: abs((_node().clock_offset_seconds or 0) - then) < 0.5, 20, "the offset is stored")
    wait_until(lambda: _fresh(booking).is_over, 60, "it is over", pause=0.2)

    done = _fresh(booking)
    [part] = done.read_parts()
    assert part.first_frame_at is not None
    assert part.last_frame_at is not None
    held = held_seconds(done, settings.RECORDINGS_DIR)
    notes = list(done.events.values_list("note", flat=True))
    assert done.state == Booking.State.COMPLETED, notes
    assert abs((part.first_frame_at - starts).total_seconds()) < SLACK_SECONDS
    assert abs((part.last_frame_at - (starts + LENGTH)).total_seconds()) < SLACK_SECONDS
    assert missing_seconds(done, done.closes_at) < SLACK_SECONDS
    assert held == pytest.approx(LENGTH.total_seconds(), abs=SLACK_SECONDS)

    [alert] = Alert.objects.filter(key=f"node_clock:{process_node.pk}")
    assert (alert.state, alert.times_returned) == ("open", 0)
    offset.write_text("0")
    wait_until(lambda: Alert.objects.get(pk=alert.pk).state == "resolved", 20, "the alert is resolved")
    assert abs(_node().clock_offset_seconds or 0) < 0.5


def _fresh(booking: Booking) -> Booking:
    return Booking.objects.get(pk=booking.pk)


def _node() -> Node:
    return Node.objects.get()
