"""The clock of a node, compared with the database's clock: how it is measured, stored, shown and reported (R-23)."""

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import Client
from django.urls import reverse

from nodes import workloads
from nodes.machines import health, node_clock
from nodes.machines.node_clock import Offset, Span, StationReading, note, offset_of
from nodes.models import Node, Workload
from nodes.workloads import poll, worker_clock
from nodes.workloads.media_worker_client import WorkerSilent
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from worker.process.node_time import OFFSET_FILE
from worker.wire.commands import SetClock
from worker.wire.status import CaptureStatus, ClockReading

pytestmark = [pytest.mark.django_db]

NOW = datetime.fromisoformat("2026-03-29T20:15:00+00:00")
EXACT = 0.002


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node.objects.create(name="a", address="process", media_dir=str(tmp_path))


def alerts(node: Node) -> list[tuple[str, int]]:
    found = Alert.objects.filter(key=f"node_clock:{node.pk}")
    return list(found.values_list("state", "times_seen"))


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_the_offset_is_known_to_half_the_time_of_the_two_calls() -> None:
    """R-23: the clock was read in the middle of its call, the database's in the middle of the next one."""
    station = StationReading(NOW, Span(100.2, 100.3))
    offset = offset_of(after(10.0), Span(100.0, 100.1), station)
    assert offset.seconds == pytest.approx(10.2)
    assert offset.uncertainty_seconds == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "is_over"),
    [(0.6, 0.05, True), (-0.6, 0.05, True), (0.6, 0.2, None), (0.4, 0.2, None), (0.4, 0.05, False), (-10, 2, True)],
)
def test_a_slow_answer_proves_only_a_large_offset(seconds: float, uncertainty: float, is_over: bool | None) -> None:
    """R-23."""
    assert Offset(seconds, uncertainty).is_over(0.5) is is_over


def test_one_alert_is_raised_while_the_clock_is_wrong_and_resolved_when_it_is_right(node: Node) -> None:
    """R-23: polls that bring no news write nothing."""
    for second in range(30):
        note(node, Offset(10.0, EXACT), after(second))
    assert alerts(node) == [("open", 1)]
    assert node.clock_measured_at == NOW
    alert = Alert.objects.get()
    assert alert.title == "The clock of node a is 10.0 s ahead of the station's time"
    assert "chronyc" in alert.text

    note(node, Offset(0.4, 0.3), after(31))
    assert alerts(node) == [("open", 1)], "too vague to tell"
    note(node, Offset(0.1, EXACT), after(32))
    assert alerts(node) == [("resolved", 1)]
    assert Node.objects.get().clock_offset_seconds == 0.1


def test_a_vague_measurement_does_not_replace_a_better_one(node: Node) -> None:
    """R-23: measuring the disk takes a second on a Docker node, a poll takes milliseconds."""
    note(node, Offset(0.10, EXACT), NOW)
    note(node, Offset(0.30, 0.4), after(120))
    assert node.clock_offset_seconds == 0.10
    note(node, Offset(0.12, EXACT), after(121))
    assert node.clock_offset_seconds == 0.12
    note(node, Offset(0.30, 0.4), after(121 + 601))
    assert node.clock_offset_seconds == 0.30, "the better one is too old"
    note(node, Offset(3.0, 0.4), after(723))
    assert node.clock_offset_seconds == 3.0, "the clock has jumped"
    note(node, Offset(3.0, 0.4), after(-3600))
    assert node.clock_measured_at == after(-3600), "the database's clock was set back"


def test_an_offset_within_its_uncertainty_is_not_passed_on(node: Node) -> None:
    """R-23: a node whose clock may be right is not given a correction that is wrong for certain."""
    assert node_clock.known_offset_seconds(node) == 0.0
    note(node, Offset(0.3, 0.4), NOW)
    assert node_clock.known_offset_seconds(node) == 0.0
    note(node, Offset(-10.0, 0.4), NOW)
    assert node_clock.known_offset_seconds(node) == -10.0


@pytest.mark.django_db(transaction=True)
def test_a_locked_row_of_a_node_does_not_delay_its_polls(node: Node) -> None:
    """R-23: the offset is stored by a later poll."""
    other = connections.create_connection("default")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT 1 FROM nodes_node FOR UPDATE")
        began = time.monotonic()
        note(node, Offset(10.0, EXACT), NOW)
        assert time.monotonic() - began < 1
        assert alerts(node) == []
        other.rollback()
    finally:
        other.close()
    note(node, Offset(10.0, EXACT), NOW)
    assert alerts(node) == [("open", 1)]


def test_the_clock_of_an_idle_node_is_measured_with_its_disk(
    node: Node, admin_user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-23: before the first recording, and shown on its page. Deleting the node resolves its alert."""
    offset = tmp_path / "offset"
    offset.write_text("-10")
    monkeypatch.setenv(OFFSET_FILE, str(offset))
    health.check_disk(node)
    node.refresh_from_db()
    assert node.clock_offset_seconds == pytest.approx(-10.0, abs=0.5)
    assert alerts(node) == [("open", 1)]

    client = Client()
    client.force_login(admin_user)
    page = client.get(reverse("admin:nodes_node_change", args=[node.pk])).content.decode()
    assert f"{node.clock_offset_seconds:+.2f} s" in page
    assert "(wrong)" in page
    client.post(reverse("admin:nodes_node_delete", args=[node.pk]), {"post": "yes"})
    assert alerts(node) == [("resolved", 1)]


def test_every_runtime_tells_the_clock_of_its_node(any_node: Node) -> None:
    """R-23: here all nodes and the database share one clock."""
    assert any_node.clock_offset_seconds is not None
    assert any_node.clock_uncertainty_seconds is not None
    assert abs(any_node.clock_offset_seconds) <= any_node.clock_uncertainty_seconds + 0.01


@pytest.fixture
def running(node: Node) -> Workload:
    now = database_now()
    made = workloads.want("booking:1", node=node, program="capture", spec={}, secret={}, now=now)
    Workload.objects.filter(pk=made.pk).update(state=Workload.State.RUNNING, heartbeat_at=now)
    return Workload.objects.select_related("node").get(pk=made.pk)


class Told(list[SetClock]):
    """Stands for a media worker whose two clocks are wrong by these seconds, and keeps what it is told."""

    def __init__(self, node_ahead: float | None, station_ahead: float = 0.0) -> None:
        super().__init__()
        self.node_ahead, self.station_ahead, self.is_silent = node_ahead, station_ahead, False

    def status(self, workload: Workload, seconds: float | None) -> CaptureStatus:
        now = database_now()
        self.shown_at = now + timedelta(seconds=self.station_ahead)
        reading = None
        if self.node_ahead is not None:
            node_at = now + timedelta(seconds=self.node_ahead)
            reading = ClockReading(node_at=node_at, station_at=self.shown_at, boot_seconds=77.5)
        return CaptureStatus(owner=workload.owner, generation=workload.generation, clock=reading)

    def tell(self, workload: Workload, command: SetClock, kind: Any) -> CaptureStatus:
        if self.is_silent:
            raise WorkerSilent("no answer")
        self.append(command)
        return CaptureStatus(owner=workload.owner, generation=workload.generation)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(node_ahead: float | None, station_ahead: float = 0.0) -> Told:
        told = Told(node_ahead, station_ahead)
        monkeypatch.setattr(poll, "fetch_status", told.status)
        monkeypatch.setattr(worker_clock, "tell", told.tell)
        return told

    return make


def test_a_media_worker_with_the_wrong_time_is_corrected_by_the_poll(running: Workload, answering: Any) -> None:
    """R-23: it is told what the time was when it answered. One with the right time is told nothing."""
    right = answering(10.0, 0.01)
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    assert right == []
    assert alerts(running.node) == [("open", 1)]

    wrong = answering(0.0, 10.0)
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    [command] = wrong
    assert command.boot_seconds == 77.5
    assert abs((command.station_at - database_now()).total_seconds()) < 0.5
    assert alerts(running.node) == [("resolved", 1)]


@pytest.mark.parametrize("ahead", [600.0, -600.0])
def test_a_channel_on_air_follows_a_jump_of_the_database_s_clock_in_small_steps(
    running: Workload, answering: Any, ahead: float
) -> None:
    """R-23, P-09: its own clock does not jump, so the database's did. A jump must not cut to another item."""
    Workload.objects.update(is_fenced=True)
    running.refresh_from_db()
    told = answering(ahead, ahead)
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    [command] = told
    moved = (command.station_at - told.shown_at).total_seconds()
    assert moved == pytest.approx(-0.1 if ahead > 0 else 0.1)


def test_a_correction_that_does_not_arrive_is_not_a_missed_check(running: Workload, answering: Any) -> None:
    """R-23: the next poll sends it again."""
    told = answering(0.0, 10.0)
    told.is_silent = True
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    running.refresh_from_db()
    assert (running.state, running.missed_looks) == (Workload.State.RUNNING, 0)
    told.is_silent = False
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    assert len(told) == 1


def test_an_older_media_worker_without_a_clock_is_polled_as_before(running: Workload, answering: Any) -> None:
    """R-23."""
    told = answering(None)
    poll.poll(Term(), running, None)  # type: ignore[arg-type]
    assert told == []
    assert running.node.clock_measured_at is None
