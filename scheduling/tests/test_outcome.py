"""The outcome of a recording: completed only if nothing is missing, whatever the cause (R-15)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes.models import Node, Workload
from scheduling.bookings.making import book
from scheduling.models import Booking, Recorder
from scheduling.recording import lifecycle
from scheduling.recording.outcome import STOPPED_BY_HAND, conclude, merge_parts
from scheduling.recording.workload_spec import config_of
from station.models import Alert
from station.sealing import seal
from worker.wire import codec
from worker.wire.configuration import Source
from worker.wire.parts_and_gaps import NO_SIGNAL, Part, find_gaps, gap_between

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
SOURCE = Source("test")
WRITTEN, EMPTY = {"number": 1, "file": "x-001.ts", "bytes": 9}, {"number": 2, "file": "x-002.ts"}


@pytest.fixture(autouse=True)
def real_tolerance(settings: Any) -> None:
    settings.TOLERATED_GAP_SECONDS = 5.0


def made_part(booking: Booking, number: int, first: float, last: float, reason: str = "stopped") -> Part:
    return Part(
        number=number,
        file=f"x-{number:03d}.ts",
        first_frame_at=booking.opens_at + timedelta(seconds=first),
        last_frame_at=booking.opens_at + timedelta(seconds=last),
        frames=int((last - first) * 25),
        bytes=1000,
        seconds=last - first,
        end_reason=reason,
    )


def part(booking: Booking, number: int, first: float, last: float, reason: str = "stopped") -> dict[str, Any]:
    """A part as it is stored in the database."""
    return dict(codec.encode(made_part(booking, number, first, last, reason)))


def run(
    booking: Booking, node: Node, parts: list[dict[str, Any]], gaps: list[dict[str, Any]] | None = None
) -> Workload:
    """A booking in stopping at the end of its window, whose media worker reported these parts."""
    booking.move(State.ARMED, now=booking.opens_at)
    booking.move(State.STARTING, now=booking.opens_at)
    booking.move(State.STOPPING, now=booking.closes_at, outcome=booking.outcome)
    return Workload.objects.create(
        owner=booking.owner,
        generation=1,
        node=node,
        name="w",
        program="capture",
        control_port=9600,
        state="exited",
        created_at=booking.opens_at,
        progress={"parts": parts, "gaps": gaps or []},
        secrets_sealed=seal({"token": "t"}),
    )


@pytest.mark.parametrize(
    ("spans", "state"),
    [
        ([(0.5, 599.5)], State.COMPLETED),
        ([(0.5, 300), (302, 599.5)], State.COMPLETED),
        ([(0.5, 300)], State.PARTIAL),  # the source died in the middle and never came back
        ([(0.5, 300), (330, 599.5)], State.PARTIAL),  # a gap
        ([(60, 599.5)], State.PARTIAL),  # the picture came late
        ([], State.FAILED),
    ],
)
def test_the_outcome_follows_from_the_recorded_parts(
    booking: Booking, node: Node, spans: list[tuple[float, float]], state: str
) -> None:
    """R-15: a gap must never go unnoticed."""
    parts = [part(booking, number, *span) for number, span in enumerate(spans, 1)]
    workload = run(booking, node, parts)

    conclude(booking, workload, booking.closes_at)

    assert booking.state == state, booking.events.last().note
    assert Alert.objects.exists() is (state != State.COMPLETED)


def test_silence_inside_a_part_is_missing_too(booking: Booking, node: Node) -> None:
    gap = gap_between(booking.opens_at, booking.opens_at + timedelta(seconds=12), NO_SIGNAL)
    workload = run(booking, node, [part(booking, 1, 0.5, 599.5)], [codec.encode(gap)])

    conclude(booking, workload, booking.closes_at)

    assert booking.state == State.PARTIAL
    assert "12." in booking.events.last().note or "13." in booking.events.last().note


def test_parts_of_two_nodes_make_one_recording_with_a_gap(booking: Booking, node: Node) -> None:
    """R-21: the second node's journal knows nothing of the first's."""
    booking.parts = [part(booking, 1, 0.5, 300, "")]
    workload = run(booking, node, [part(booking, 2, 340, 599.5)])

    conclude(booking, workload, booking.closes_at)

    assert [(gap["seconds"], gap["reason"]) for gap in booking.gaps] == [(40.0, "worker_died")]
    assert booking.state == State.PARTIAL


def test_a_stop_by_hand_counts_only_until_then_and_nothing_recorded_raises_no_alert(
    booking: Booking, node: Node
) -> None:
    booking.outcome = STOPPED_BY_HAND
    workload = run(booking, node, [])

    conclude(booking, workload, booking.closes_at)

    assert booking.state == State.FAILED
    assert not Alert.objects.exists()


def test_gaps_between_parts_are_found_only_if_something_is_missing() -> None:
    base = datetime(2026, 1, 1, tzinfo=timezone.get_fixed_timezone(0))

    def made(first: float, last: float) -> Part:
        span = (base + timedelta(seconds=first), base + timedelta(seconds=last))
        return Part(1, "x.ts", first_frame_at=span[0], last_frame_at=span[1], end_reason="stalled")

    assert [gap.seconds for gap in find_gaps([made(0, 10), made(10.1, 20), made(25, 30)], [])] == [5.0]


def test_a_part_without_bytes_does_not_count(booking: Booking, node: Node) -> None:
    """R-15: without a source, each attempt creates a file and removes it again."""
    empty = {**part(booking, 2, 0, 0), "bytes": 0, "first_frame_at": None, "last_frame_at": None}
    workload = run(booking, node, [part(booking, 1, 0, 600), empty])
    conclude(booking, workload, booking.closes_at)
    assert [each["number"] for each in booking.parts] == [1]
    assert booking.state == State.COMPLETED


def test_a_number_of_a_part_is_never_used_twice(booking: Booking, node: Node) -> None:
    """R-21: node A recorded part 1, B never started, C continues with part 2."""
    booking.parts = [part(booking, 1, 0, 60)]
    assert config_of(booking, Workload(node=node, progress={}), SOURCE).first_part == 2
    four = {"parts": [codec.encode(Part(4, "x-004.ts"))]}
    assert config_of(booking, Workload(node=node, progress=four), SOURCE).first_part == 5


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [("Asia/Kathmandu", 20_700), ("UTC", 0), ("America/Phoenix", -25_200), ("Asia/Kolkata", 19_800)],
)
def test_a_split_recording_is_split_by_the_house_clock(
    booking: Booking, settings: Any, zone: str, seconds: int
) -> None:
    """R-16: files are split at the quarter hours of house time, whatever its offset from UTC."""
    assert config_of(booking, None, SOURCE).split_seconds == 0
    settings.HOUSE_TIME_ZONE = zone
    booking.recorder.split_minutes = Recorder.Split.QUARTER
    config = config_of(booking, None, SOURCE)
    assert (config.split_seconds, config.split_offset_seconds) == (900, seconds)


def test_a_recording_knows_that_it_follows_another_one(booking: Booking) -> None:
    """R-17: only if the other one records the same recorder up to that moment. The programme is passed on, too."""
    end = booking.closes_at
    following = book(booking.recorder, end, end + timedelta(minutes=10), now=booking.opens_at)
    Booking.objects.filter(pk=booking.pk).update(state=State.RECORDING)
    booking.recorder.programme = 7
    assert config_of(following, None, SOURCE).follows
    first = config_of(booking, None, SOURCE)
    assert (first.follows, first.programme) == (False, 7)
    following.opens_at += timedelta(minutes=1)
    assert not config_of(following, None, SOURCE).follows


def test_a_split_recording_is_complete(booking: Booking, node: Node) -> None:
    """R-16: files that follow each other without a gap are one complete recording."""
    workload = run(booking, node, [part(booking, 1, 0, 300), part(booking, 2, 300, 600)])
    conclude(booking, workload, booking.closes_at)
    assert (booking.state, booking.gaps, len(booking.parts)) == (State.COMPLETED, [], 2)


def test_two_nodes_that_used_one_number_do_not_overwrite_each_other(booking: Booking, node: Node) -> None:
    """R-21: a node without a connection recorded on; when it is back, the part that was reported first is kept."""
    here, there = booking.opens_at, booking.opens_at + timedelta(seconds=5)
    mine = replace(made_part(booking, 4, 0, 60), started_at=here, node=node.pk)
    theirs = replace(made_part(booking, 4, 5, 90), started_at=there)
    assert merge_parts([mine], [theirs], node.pk + 1) == [mine]
    longer = replace(made_part(booking, 4, 0, 75), started_at=here)
    assert merge_parts([mine], [longer], node.pk) == [replace(longer, node=node.pk)]


@pytest.mark.parametrize(
    ("progress", "is_so"),
    [
        ({"signal": True, "bytes": 9, "parts": [WRITTEN]}, True),
        ({"signal": True, "bytes": 9, "parts": [{**WRITTEN, "ended_at": "2026-01-01T00:00:00+00:00"}, EMPTY]}, False),
        ({"signal": False, "bytes": 9, "parts": [WRITTEN]}, False),
        ({}, False),
    ],
    ids=["its own bytes", "a predecessor's", "bars", "nothing"],
)
def test_only_what_is_being_written_counts_as_recording(progress: dict[str, Any], is_so: bool) -> None:
    """R-15: frames without bytes are no recording, nor are the files of an earlier media worker."""
    assert lifecycle.is_really_recording(Workload(progress=progress)) is is_so


def ended_as_full(booking: Booking, node: Node, parts: list[dict[str, Any]]) -> None:
    workload = run(booking, node, parts)
    Booking.objects.filter(pk=booking.pk).update(state=State.STARTING)
    booking.refresh_from_db()
    workload.exit_reason = "disk_full"
    lifecycle._after_worker_ended(booking, workload, booking.opens_at + timedelta(seconds=90))


def test_a_disk_that_is_full_before_the_first_byte_leads_to_another_node(booking: Booking, node: Node) -> None:
    """R-07, R-18: with bytes on the disk the recording ends; without any, another node may have space."""
    ended_as_full(booking, node, [])
    assert booking.state == State.RETRY_WAIT


def test_a_disk_that_ran_full_ends_the_recording(booking: Booking, node: Node) -> None:
    """R-18."""
    ended_as_full(booking, node, [part(booking, 1, 0, 60)])
    assert (booking.state, booking.outcome) == (State.STOPPING, "disk_full")
