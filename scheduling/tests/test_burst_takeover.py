"""Leaders are killed in the middle of a burst: each booking has one media worker at a time, and is recorded (R-11).

Counted from what the node really ran: the engine's events, or the ffmpegs that media workers started.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from nodes import failpoints
from nodes.models import Node, Workload
from scheduling.bookings.making import book
from scheduling.leader.election import LOCK
from scheduling.models import Booking, Leadership, Recorder
from station.clock import database_now
from testing.waiting import wait_until
from testing.what_ran import Containers, Processes, engine_events

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.crash]

State = Booking.State
BOOKINGS = 12
AHEAD_SECONDS = 6
# In the order of a start; each leader dies when it is there for the third time.
POINTS = [name for name in failpoints.ALL if name.startswith("start.")]
TIMES = 3


@contextmanager
def watched(node: Node, folder: Path) -> Iterator[Processes | Containers]:
    if node.parsed_address.is_process:
        yield Processes(folder)
    else:
        with engine_events(node.address, folder / "events") as containers:
            yield containers


def queue_up(scheduler: Any, points: list[str], **settings: str) -> list[Any]:
    """A scheduler for each point, in the order in which they will lead. The first one leads."""
    processes = []
    for place, point in enumerate(points):
        processes.append(scheduler(FAILPOINT=point, LAUNCH_AHEAD_SECONDS=str(AHEAD_SECONDS), **settings))
        wait_until(lambda place=place: sessions_at_lock() == place + 1, 60, "it leads, or waits to lead")
    return processes


def sessions_at_lock() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s", [LOCK[0]])
        return int((cursor.fetchone() or [0])[0])


def book_burst(node: Node, project: Any) -> list[Booking]:
    now = database_now()
    starts_at = now + timedelta(seconds=AHEAD_SECONDS + 3)
    small = {"source_type": "test", "picture_size": "160x90", "video_bitrate": "64k"}
    recorders = [
        Recorder.objects.create(name=f"Cam {number}", project=project, node=node, **small) for number in range(BOOKINGS)
    ]
    return [book(each, starts_at, starts_at + timedelta(seconds=8), now=now, title=each.name) for each in recorders]


def test_a_burst_through_four_killed_leaders_has_one_media_worker_per_booking(
    any_node: Node, project: Any, scheduler: Any, tmp_path: Path
) -> None:
    """R-11: four leaders in a row are killed, each at another point of a start. No media worker begins twice, none
    begins while an earlier one of its booking lives, and every booking is recorded."""
    with watched(any_node, tmp_path) as node_says:
        settings = {"FFMPEG": str(node_says.ffmpeg)} if isinstance(node_says, Processes) else {}
        leaders = queue_up(
            scheduler, [*(f"{point}:{TIMES}" for point in POINTS), ""], WORKER_PREVIEW="false", **settings
        )
        bookings = book_burst(any_node, project)
        for point, leader in zip(POINTS, leaders[:-1], strict=True):
            wait_until(lambda leader=leader: leader.poll() is not None, 60, f"a leader dies at {point}")
            assert leader.returncode == -signal.SIGKILL
        wait_until(lambda: not Booking.objects.exclude(state__in=Booking.OVER).exists(), 90, "all have ended")
        began = node_says.began()

    assert leaders[-1].poll() is None
    assert Leadership.objects.count() == len(POINTS) + 1
    times = Counter(each.name for each in began)
    assert set(times.values()) == {1}, f"a media worker began more than once: {times}"
    assert [each for each in began if each.rivals] == [], "it began while an earlier one lived"
    assert {each.owner for each in began} == {booking.owner for booking in bookings}
    assert set(times) <= set(Workload.objects.values_list("name", flat=True)), "nothing ran that no row knows"
    rows = list(Booking.objects.all())
    print(f"{len(began)} media workers for {len(rows)} bookings, which are {Counter(row.state for row in rows)}")
    assert {row.state for row in rows} <= {State.COMPLETED, State.PARTIAL}, [(row.state, row.errors) for row in rows]
    assert all(row.frames for row in rows)
