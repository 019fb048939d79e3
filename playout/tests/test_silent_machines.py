"""Fifty machines with two hundred channels, half of them silent: the loop and the recordings do not notice (P-18)."""

import statistics
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Node
from playout.models import Channel
from scheduling.bookings.making import book
from scheduling.leader.election import read_status
from scheduling.leader.turn_times import PUBLISH_SECONDS
from scheduling.models import Booking, Leadership, Recorder
from station.clock import database_now
from testing.plant_rows import running_plant
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.alone]

NODES, CHANNELS, BOOKINGS = 50, 200, 10
# The longest turn of most reports, and of any. On a quiet machine with two cores 0.05 to 0.16 s were measured, with the
# stand-ins of all machines on the same two cores.
LONGEST_TURN_SECONDS, DISTURBED_TURN_SECONDS = 0.25, 0.75
MOST_THREADS = 300
# The first byte after the window opened. A media worker is launched three seconds ahead. Measured: 0.02 s, and 1.4 s
# once in ten runs.
LATE_BYTE_SECONDS = 3.0


@pytest.fixture
def plant(tmp_path: Path, project: Any, process_node: Node) -> Iterator[list[Node]]:
    silent = NODES // 2
    with running_plant(tmp_path / "plant", project, good=NODES - silent, silent=silent, channels=CHANNELS) as nodes:
        yield nodes


class Watch:
    """The longest turn in each report of the leader, and how many threads it had at most."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.turns: dict[datetime, float] = {}
        self.threads = 0

    def while_waiting(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        def watched() -> bool:
            self.threads = max(self.threads, threads_of(self._pid))
            report = Leadership.objects.exclude(turns_at=None).first()
            if report is not None and report.turns_at is not None:
                self.turns[report.turns_at] = report.worst_turn_seconds
            return condition()

        return watched

    def worst_since(self, moment: datetime) -> list[float]:
        return [seconds for at, seconds in self.turns.items() if at > moment]


def threads_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Threads:")).split()[1])


def book_recordings(project: Any, node: Node) -> datetime:
    now = database_now()
    small = {"source_type": "test", "picture_size": "160x90", "video_bitrate": "64k"}
    for number in range(BOOKINGS):
        recorder = Recorder.objects.create(name=f"Cam {number}", project=project, node=node, **small)
        starts_at = now + timedelta(seconds=12 + 2 * number)
        book(recorder, starts_at, starts_at + timedelta(seconds=40), now=now, title=f"show {number}")
    return now


def test_silent_machines_delay_neither_the_loop_nor_a_recording(
    plant: list[Node], process_node: Node, project: Any, scheduler: Any
) -> None:
    """P-18: a hundred channels move at once to the other machines, and no recording is late. Every turn is short, while
    they move and after that, although half of the machines stay silent. Threads are bounded."""
    process = scheduler(WORKER_PREVIEW="false", LAUNCH_AHEAD_SECONDS="3")
    wait_until(lambda: read_status().is_locked, 30, "there is a leader")
    watch = Watch(process.pid)
    # The first turn in a new database declares all jobs; it is reported alone.
    wait_until(watch.while_waiting(lambda: bool(watch.turns)), 30, "the first turn is over")
    [began_at] = watch.turns
    now = book_recordings(project, process_node)
    silent = Node.objects.filter(pk__in=[node.pk for node in plant[NODES // 2 :]])
    off_air = Channel.objects.exclude(state="on_air")
    wait_until(watch.while_waiting(lambda: not silent.filter(state="up").exists()), 30, "silent nodes are down")
    wait_until(watch.while_waiting(lambda: not off_air.exists()), 60, "all channels are on air")
    moved_at = database_now()
    going_on = Booking.objects.exclude(state__in=Booking.OVER)
    wait_until(watch.while_waiting(lambda: not going_on.exists()), 60, "all recordings have ended")
    settled_at = max(moved_at, database_now()) + timedelta(seconds=PUBLISH_SECONDS)
    wait_until(watch.while_waiting(lambda: bool(watch.worst_since(settled_at))), 60, "the leader reports")
    turns = watch.worst_since(began_at)
    late = [booking.late_by_seconds or 0.0 for booking in Booking.objects.all()]
    print(
        f"worst turns {', '.join(f'{each * 1000:.0f}' for each in turns)} ms, {watch.threads} threads, "
        f"late {max(late) * 1000:.0f} ms, moved in {(moved_at - now).total_seconds():.1f} s"
    )
    bad = [booking for booking in Booking.objects.all() if booking.state != Booking.State.COMPLETED]
    assert not bad, [(booking.state, booking.errors, [str(event) for event in booking.events.all()]) for booking in bad]
    assert max(late) < 0.5
    for booking in Booking.objects.all():
        times = (booking.dispatched_at, booking.container_at, booking.first_frame_at, booking.first_byte_at)
        after = [(moment - booking.opens_at).total_seconds() if moment else None for moment in times]
        assert (after[-1] or 0.0) < LATE_BYTE_SECONDS, f"{booking}: dispatched, running, frame, byte at {after}"
    assert 0 < statistics.median(turns) < LONGEST_TURN_SECONDS
    assert max(turns) < DISTURBED_TURN_SECONDS
    assert watch.threads < MOST_THREADS
