"""Ten recordings at once on two Docker nodes: on time, and with the right length (R-17, R-19, R-21)."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from station.clock import database_now
from testing.media import decode
from testing.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.alone, pytest.mark.django_db(transaction=True)]

COUNT = 10
WINDOW = timedelta(seconds=60)
PADDING = 10
FRAMES_PER_SECOND = 25


def test_ten_recordings_in_the_same_second_are_on_time_and_complete(
    make_docker_node: Any, project: Any, scheduler: Any
) -> None:
    """R-19: all first frames at or before the planned start; each file as long as the padded window, to 0.5 s."""
    nodes = [make_docker_node("a"), make_docker_node("b")]
    recorders = [
        Recorder.objects.create(
            name=f"Cam {number}",
            project=project,
            source_type="test",
            picture_size="160x90",
            video_bitrate="100k",
            pad_before_seconds=PADDING,
            node=nodes[number % 2],
        )
        for number in range(COUNT)
    ]
    # Ten recordings fit on two cores, ten previews in addition do not: ffmpeg would fall behind.
    scheduler(WORKER_PREVIEW="false")
    now = database_now()
    starts = (now + timedelta(seconds=20 + PADDING)).replace(microsecond=0)
    for recorder in recorders:
        book(recorder, starts, starts + WINDOW, now=now)

    def are_over() -> bool:
        return all(booking.is_over for booking in Booking.objects.all())

    wait_until(are_over, 180, "all ten are over", pause=1.0)

    bookings = list(Booking.objects.select_related("recorder__node"))
    assert {booking.state for booking in bookings} == {"completed"}, [
        (booking.state, list(booking.events.values_list("note", flat=True))) for booking in bookings
    ]
    wanted = WINDOW.total_seconds() + PADDING
    report = []
    for booking in bookings:
        assert booking.first_frame_at is not None
        assert booking.recorder.node is not None
        [part] = booking.parts
        seconds = decode(Path(booking.recorder.node.media_dir) / booking.folder / part["file"]) / FRAMES_PER_SECOND
        report.append((_seconds(booking.first_frame_at, booking.starts_at), seconds))
    print("first frame before start, file seconds:", report)
    assert all(ahead >= 0 for ahead, _ in report), report
    assert all(abs(seconds - wanted) <= 0.5 for _, seconds in report), report


def _seconds(first: datetime, second: datetime) -> float:
    return round((second - first).total_seconds(), 3)
