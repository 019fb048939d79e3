"""A recording split into thousands of parts costs the database little while it grows (R-16)."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from nodes.models import Node, Workload
from scheduling.models import Booking
from scheduling.recording.outcome import conclude, copy_progress
from scheduling.tests.test_outcome import part, run
from worker.wire import codec

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
PARTS = 2016  # a week in pieces of five minutes


def wal_bytes(update: str) -> int:
    """How much this statement writes to the log. (Other sessions write too, so the log's length says nothing.)"""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, WAL, FORMAT JSON) {update}")
        return int(cursor.fetchone()[0][0]["Plan"]["WAL Bytes"])


def parts_until(booking: Booking, count: int) -> list[dict[str, Any]]:
    made = [part(booking, number, 300 * (number - 1), 300 * number, "split") for number in range(1, count + 1)]
    for each in made[:-1]:
        each["ended_at"] = each["last_frame_at"]
    return made


def report(booking: Booking, workload: Workload, parts: list[dict[str, Any]]) -> None:
    """One poll: the media worker reports these parts, and a fresh process copies them."""
    workload.progress = {"parts": parts, "gaps": []}
    copy_progress(Booking.objects.get(pk=booking.pk), workload)


@pytest.fixture
def week(booking: Booking, node: Node) -> tuple[Booking, Workload, list[dict[str, Any]]]:
    """A booking that has recorded 2,016 parts and goes on."""
    workload = run(booking, node, [])
    Booking.objects.filter(pk=booking.pk).update(
        state=State.RECORDING, opens_at=booking.opens_at, closes_at=booking.opens_at + timedelta(days=8)
    )
    parts = parts_until(booking, PARTS)
    report(booking, workload, parts)
    return Booking.objects.get(pk=booking.pk), workload, parts[-3:]


def grow(part: dict[str, Any], times: int = 1) -> None:
    part["frames"] += 50 * times
    part["bytes"] += 100_000 * times
    part["seconds"] += 2.0 * times


def test_a_poll_writes_only_the_part_that_grows(week: Any, django_assert_num_queries: Any) -> None:
    """R-16: with 2,016 parts each poll wrote 46 KB. The first write to a page after a checkpoint is larger."""
    booking, workload, tail = week
    written = []
    for _ in range(4):
        grow(tail[-1])
        with django_assert_num_queries(2) as asked:
            report(booking, workload, tail)
        written.append(wal_bytes(asked.captured_queries[1]["sql"]))

    assert min(written) < 4_000, written
    stored = Booking.objects.get(pk=booking.pk)
    [last] = stored.read_parts()[PARTS - 1 :]
    assert (last.frames, last.bytes) == (tail[-1]["frames"], tail[-1]["bytes"])
    assert stored.size_bytes == (PARTS - 1) * 1000 + tail[-1]["bytes"]


def test_the_next_part_and_the_end_are_complete(week: Any) -> None:
    """R-16: what was stored beside the parts is in them when the recording is over."""
    booking, workload, tail = week
    grow(tail[-1], 5)
    report(booking, workload, tail)
    tail[-1]["ended_at"] = tail[-1]["last_frame_at"]
    new = {**tail[-1], "number": PARTS + 1, "file": "x-2017.ts", "ended_at": None, "bytes": 1}
    report(booking, workload, [*tail, new])
    stored = Booking.objects.get(pk=booking.pk)
    assert len(stored.parts) == PARTS + 1
    assert stored.parts[PARTS - 1] == {**tail[-1], "node": workload.node_id}
    assert stored.growing == []

    grow(new)
    report(booking, workload, [*tail, new])
    assert Booking.objects.get(pk=booking.pk).growing != []
    Booking.objects.filter(pk=booking.pk).update(state=State.STOPPING)
    stored = Booking.objects.get(pk=booking.pk)
    conclude(stored, workload, booking.closes_at)

    stored.refresh_from_db()
    assert (stored.growing, stored.parts[-1]["bytes"]) == ([], new["bytes"])
    assert codec.encode(stored.read_parts()) == stored.parts
