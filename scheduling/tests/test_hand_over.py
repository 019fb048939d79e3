"""The leader is killed while recordings start: each start happens once, and the hand-over is measured (R-02)."""

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Node, Workload
from nodes.runtimes import runtime_for
from scheduling.bookings.making import book
from scheduling.leader.election import read_status
from scheduling.models import Booking, Leadership, Recorder
from station.clock import database_now
from testing.verdicts import assert_true_verdict
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash, pytest.mark.paced]

State = Booking.State
COUNT = 8
LENGTH = timedelta(seconds=12)


def leader_pid() -> int:
    status = read_status()
    return int(status.holder.rpartition(" ")[2]) if status.is_locked and status.holder else 0


def started() -> int:
    return Booking.objects.exclude(state__in=[State.PLANNED, State.ARMED]).count()


def book_a_volley(project: Any, first: datetime) -> None:
    """Bookings every half second, each on its own recorder."""
    now = database_now()
    for number in range(COUNT):
        recorder = Recorder.objects.create(
            name=f"Cam {number}", project=project, source_type="test", picture_size="160x90", video_bitrate="64k"
        )
        starts_at = first + number * timedelta(seconds=0.5)
        book(recorder, starts_at, starts_at + LENGTH, now=now, title=f"show {number}")
    Booking.objects.update(min_useful_seconds=2)


def test_a_leader_killed_in_the_middle_of_starts_is_replaced_and_each_start_happens_once(
    process_node: Node, project: Any, scheduler: Any, settings: Any, record_property: Any
) -> None:
    """R-02, R-04: kill -9 after the second start of eight; none is started twice, none is lost."""
    quiet = {"WORKER_PREVIEW": "false", "LAUNCH_AHEAD_SECONDS": "0"}
    processes = {process.pid: process for process in (scheduler(**quiet), scheduler(**quiet))}
    first = int(wait_until(lambda: leader_pid() if leader_pid() in processes else 0, 30, "one leads"))
    wait_until(lambda: read_status().standbys == 1, 30, "the other one is on standby")
    before = Leadership.objects.latest("epoch")
    book_a_volley(project, database_now() + timedelta(seconds=8))
    wait_until(lambda: started() >= 2, 30, "the second has been dispatched", pause=0.01)

    killed_at, clock = database_now(), time.monotonic()
    processes[first].kill()

    after = wait_until(lambda: Leadership.objects.filter(epoch__gt=before.epoch).first(), 30, "the other leads", 0.005)
    seen_seconds = time.monotonic() - clock
    assert after is not None
    assert after.taken_at is not None
    processes[first].wait()
    hand_over_seconds = (after.taken_at - killed_at).total_seconds()
    record_property("hand_over_seconds", round(hand_over_seconds, 3))
    print(f"hand-over after {hand_over_seconds:.3f} s, seen after {seen_seconds:.3f} s; started before: {started()}")
    assert after.epoch == before.epoch + 1
    assert 0 < hand_over_seconds < 5.0, "milliseconds on a quiet machine"
    wait_until(lambda: Booking.objects.filter(state=State.RECORDING).count() + over() == COUNT, 60, "all record")
    assert Workload.objects.count() == Workload.objects.filter(generation=1).count() == COUNT, "one media worker each"
    wait_until(lambda: over() == COUNT, 60, "all are over")
    for booking in Booking.objects.all():
        moves = [event.new for event in booking.events.all() if event.old != event.new]
        assert moves.count(State.STARTING) == moves.count(State.RECORDING) == 1, (booking, moves)
        assert booking.attempts == 1
        assert len(booking.parts) == 1
        assert assert_true_verdict(booking, Path(process_node.media_dir)) > 0
    names = {seen.name for seen in runtime_for(process_node).list_ours()}
    assert names <= set(Workload.objects.values_list("name", flat=True)), "nothing without a row"


def over() -> int:
    return sum(booking.is_over for booking in Booking.objects.all())
