"""Windows booked together get the same as windows booked one after the other (R-09, R-13, R-14, R-17)."""

import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nodes.machines.ports import PortTaken, port_of, reserve
from nodes.models import Node, Reservation
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, BookingEvent, Recorder, Schedule
from scheduling.rules import planning
from scheduling.rules.planning import plan_ahead
from scheduling.rules.replanning import replan
from scheduling.tests.conftest import NOW
from station.models import Alert, Project

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State
MINUTE = timedelta(minutes=1)
# Examples need six of a rule's windows, not fourteen days of them.
AHEAD = 3 * timedelta(hours=1)
STATES = (State.PLANNED, State.ARMED, State.RECORDING, State.STOPPING, State.CANCELLED)


@dataclass(frozen=True)
class Other:
    """A booking that is there before, in minutes from now, with its padding in seconds."""

    at: int
    length: int
    before: int
    after: int
    state: str


@dataclass(frozen=True)
class Scene:
    every: int
    length: int
    before: int
    after: int
    overlap: str
    others: list[Other]
    port_holds: list[tuple[int, int]] | None  # None: the recorder has no port
    is_active: bool


minutes, paddings = st.integers(0, 200), st.sampled_from([0, 30, 300, 900, 3600])
scenes = st.builds(
    Scene,
    every=st.sampled_from([15, 20, 30]),
    length=st.integers(1, 40),
    before=paddings,
    after=paddings,
    overlap=st.sampled_from(Schedule.Overlap.values),
    others=st.lists(
        st.builds(Other, minutes, st.integers(1, 50), paddings, paddings, st.sampled_from(STATES)), max_size=6
    ),
    port_holds=st.none() | st.lists(st.tuples(minutes, st.integers(1, 30)), max_size=3),
    is_active=st.sampled_from([True] * 9 + [False]),
)


def build(scene: Scene) -> Schedule:
    project = Project.objects.create(name="Batch", slug="batch")
    fields: dict[str, Any] = {"source_type": "test"}
    if scene.port_holds is not None:
        node = Node.objects.create(name="n1", address="process", media_dir="/tmp/n1")
        fields = {"source_type": "decklink", "address": "0", "node": node}
    recorder = Recorder.objects.create(
        name="Cam", project=project, pad_before_seconds=scene.before, pad_after_seconds=scene.after, **fields
    )
    for number, (at, length) in enumerate(scene.port_holds or []):
        starts_at = NOW + at * MINUTE
        with contextlib.suppress(PortTaken):
            port = port_of(recorder.node, "decklink", 0)
            reserve(port, owner=f"x:{number}", holder="X", starts_at=starts_at, ends_at=starts_at + length * MINUTE)
    for number, other in enumerate(scene.others):
        _book_other(recorder, other, f"Other {number}")
    Recorder.objects.filter(pk=recorder.pk).update(is_active=scene.is_active)
    return Schedule.objects.create(
        name="Rule",
        recorder=Recorder.objects.get(pk=recorder.pk),
        kind="cron",
        zone="Europe/Berlin",
        first_on=date(2026, 3, 1),
        cron=f"*/{scene.every} * * * *",
        length=scene.length * MINUTE,
        overlap=scene.overlap,
        plan_due_at=NOW,
    )


def _book_other(recorder: Recorder, other: Other, title: str) -> None:
    starts_at = NOW + other.at * MINUTE
    with contextlib.suppress(BookingRefused):
        booking = book(
            recorder,
            starts_at,
            starts_at + other.length * MINUTE,
            now=NOW,
            title=title,
            pad_before_seconds=other.before,
            pad_after_seconds=other.after,
        )
        Booking.objects.filter(pk=booking.pk).update(state=other.state)


def stored() -> list[Any]:
    """All that was written, without the ids: they differ from try to try."""
    names = {each.pk: f"{each} {each.starts_at}" for each in Booking.objects.all()}

    def plain(text: str) -> str:
        return re.sub(r"booking (\d+)", lambda match: names[int(match[1])], text)

    rows = []
    for booking in Booking.objects.order_by("starts_at", "planned_start_at", "title", "state"):
        row = {field.name: getattr(booking, field.attname) for field in Booking._meta.concrete_fields}
        del row["id"], row["recorder"], row["schedule"]
        events = [(each.old, each.new, each.by, plain(each.note)) for each in booking.events.all()]
        held = Reservation.objects.filter(owner=booking.owner).order_by("starts_at")
        ports = [(each.starts_at, each.ends_at, each.released_at, each.project_id is None) for each in held]
        holders = [plain(each.holder) for each in held]
        alerts = Alert.objects.filter(subject=booking.owner).order_by("title")
        rows.append((row, events, ports, holders, [(each.title, plain(each.text), each.state) for each in alerts]))
    schedule = Schedule.objects.get()
    assert Alert.objects.exclude(subject__startswith="booking:").count() == 0
    return [rows, schedule.planned_until_at, schedule.plan_due_at]


def result_of(scene: Scene, plan: Callable[[Schedule], Any]) -> list[Any]:
    """What is stored after planning this scene; everything is rolled back afterwards."""
    with transaction.atomic():
        plan(build(scene))
        result = stored()
        transaction.set_rollback(True)
    return result


@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking an example takes minutes
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(scene=scenes)
def test_booked_together_is_the_same_as_booked_one_by_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """R-09, R-13, R-14, R-17: windows, padding, states, notes, reservations and alerts, between any neighbours."""
    settings.PLAN_AHEAD = AHEAD

    together = result_of(scene, lambda schedule: plan_ahead(schedule, NOW))
    with monkeypatch.context() as patch:
        patch.setattr(planning, "_book_together", planning._book_alone)
        one_by_one = result_of(scene, lambda schedule: plan_ahead(schedule, NOW))
    assert together == one_by_one
    assert together[0], "no window was planned: the example proves nothing"


@pytest.fixture
def dense(camera: Recorder) -> Schedule:
    """Windows that touch, with padding, every five minutes."""
    Recorder.objects.filter(pk=camera.pk).update(pad_before_seconds=60, pad_after_seconds=120)
    return Schedule.objects.create(
        name="Dense",
        recorder=Recorder.objects.get(pk=camera.pk),
        kind="cron",
        zone="UTC",
        first_on=date(2026, 3, 1),
        cron="*/5 * * * *",
        length=5 * MINUTE,
        plan_due_at=NOW,
    )


def test_a_pass_of_two_hundred_windows_needs_a_few_statements(dense: Schedule) -> None:
    """R-09: the number of statements does not depend on the number of windows."""
    with CaptureQueriesContext(connection) as asked:
        plan = plan_ahead(dense, NOW)
    assert len(plan.added) == planning.WINDOWS_PER_PASS == 200
    assert len(asked) <= 16, [each["sql"][:100] for each in asked]


def test_a_booking_by_hand_needs_a_few_statements(camera: Recorder) -> None:
    with CaptureQueriesContext(connection) as asked:
        book(camera, NOW + 60 * MINUTE, NOW + 90 * MINUTE, now=NOW)
    assert len(asked) <= 7, [each["sql"][:100] for each in asked]


def test_an_edit_of_a_dense_rule_needs_a_few_statements(dense: Schedule) -> None:
    """R-12: all its bookings have less padding than they requested, and none of them is asked about alone."""
    plan_ahead(dense, NOW)
    Recorder.objects.filter(pk=dense.recorder_id).update(pad_before_seconds=90)
    dense.refresh_from_db()
    with CaptureQueriesContext(connection) as asked:
        changes = replan(dense, NOW)
    assert len(changes.moved) == 200
    assert len(asked) <= 40, [each["sql"][:100] for each in asked]


@pytest.mark.django_db(transaction=True)
def test_a_row_that_the_database_refuses_does_not_lose_the_others(
    dense: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-13: somebody writes a booking by hand, without queueing, between reading and writing of a batch."""
    at, write = NOW + 50 * MINUTE, planning.Batch.write

    def insert_as_psql_would() -> None:
        stranger = Booking(recorder=dense.recorder, title="Stranger", state=State.PLANNED, starts_at=at, opens_at=at)
        stranger.ends_at = stranger.closes_at = at + MINUTE
        stranger.save(force_insert=True)
        connection.close()

    def disturbed(self: planning.Batch) -> None:
        monkeypatch.setattr(planning.Batch, "write", write)
        thread = threading.Thread(target=insert_as_psql_would)
        thread.start()
        thread.join()
        write(self)

    monkeypatch.setattr(planning.Batch, "write", disturbed)
    plan = plan_ahead(dense, NOW)

    [skipped] = plan.skipped
    assert (len(plan.added), skipped.starts_at) == (199, at)
    assert "taken by “Stranger”" in skipped.events.get().note
    assert Alert.objects.get().subject == skipped.owner
    assert BookingEvent.objects.filter(subject__schedule=dense, old="").count() == 200
