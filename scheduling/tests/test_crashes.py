"""kill -9 of the controlling process at every step of a start and a stop: nothing doubled, orphaned or stuck (R-11)."""

import signal
from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from nodes import failpoints
from nodes.models import Node, Workload
from nodes.runtimes import runtime_for
from scheduling.models import Booking, Recorder
from testing.processes import manage
from testing.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.crash,
]
QUICK = {"NODE_CALL_SECONDS": "5"}  # a crashed controller's lease runs out sooner

START_POINTS = [name for name in failpoints.ALL if name.startswith("start.")]
STOP_POINTS = [name for name in failpoints.ALL if name.startswith("stop.")]


@pytest.fixture
def node(any_node: Any) -> Node:
    return any_node


@pytest.fixture
def studio(node: Node, project: Any) -> Recorder:
    return Recorder.objects.create(
        name="Studio", project=project, source_type="test", picture_size="160x90", video_bitrate="200k"
    )


def nothing_is_stuck(now: datetime) -> bool:
    """No live row is past its deadline by more than a turn of the loop."""
    late = [
        row
        for model in (Booking, Workload)
        for row in model.objects.filter(deadline_at__lt=now)
        if not row.is_over and (now - row.deadline_at).total_seconds() > 5
    ]
    return not late


def containers(node: Node) -> list[str]:
    return [seen.name for seen in runtime_for(node).list_ours() if seen.identity and seen.identity.owner != "probe"]


@pytest.mark.parametrize("point", START_POINTS)
def test_killed_during_start_the_recording_still_happens_once(
    node: Node, studio: Recorder, scheduler: Any, point: str
) -> None:
    """R-11: kill -9 anywhere in a start; the next process finishes it, with one container."""
    crashed = manage("record", "Studio", FAILPOINT=point, **QUICK)
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr

    scheduler()

    booking = Booking.objects.get()
    wait_until(
        lambda: Booking.objects.get().state == Booking.State.RECORDING, 45, f"recording after a crash at {point}"
    )
    wait_until(lambda: len(containers(node)) == 1, 30, "one container and no orphan")
    assert containers(node) == [Workload.objects.of(booking.owner)[0].name]
    assert Workload.objects.live().count() == 1
    assert nothing_is_stuck(timezone.now())


@pytest.mark.parametrize("point", STOP_POINTS)
def test_killed_during_stop_the_recording_still_ends_cleanly(
    node: Node, studio: Recorder, scheduler: Any, point: str
) -> None:
    """R-11, R-08: kill -9 anywhere in a stop; the stop is completed and nothing is left on the node."""
    started = manage("record", "Studio")
    assert started.returncode == 0, started.stderr
    crashed = manage("stop_recording", "Studio", FAILPOINT=point, **QUICK)
    assert crashed.returncode == -signal.SIGKILL, crashed.stderr

    scheduler()

    wait_until(lambda: Booking.objects.get().is_over, 45, f"ended after a crash at {point}")
    wait_until(lambda: containers(node) == [], 30, "nothing is left on the node")
    wait_until(lambda: not Workload.objects.to_look_at().exists(), 30, "every row is cleaned up")
    booking = Booking.objects.get()
    assert booking.state == Booking.State.COMPLETED, [str(event) for event in booking.events.all()]
    assert booking.frames > 0


def test_a_killed_scheduler_does_not_disturb_the_recording_and_its_successor_adopts_it(
    node: Node, studio: Recorder, scheduler: Any
) -> None:
    """A restart of the scheduler never interrupts a recording."""
    first = scheduler()
    started = manage("record", "Studio")
    assert started.returncode == 0, started.stderr
    first.kill()
    first.wait()
    before = Workload.objects.get()
    frames = before.progress["frames"]

    scheduler()

    wait_until(lambda: Workload.objects.get().progress["frames"] > frames + 25, 30, "the successor sees it continue")
    after = Workload.objects.get()
    assert (after.pk, after.generation) == (before.pk, 1)
    assert len(after.progress["parts"]) == 1
    assert after.progress["gaps"] == []
