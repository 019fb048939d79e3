"""Bookings are claimed ahead and dispatched on time, exactly once, by any leader (R-01, R-02, R-04, R-05, R-06)."""

import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from scheduling.leader.dispatch import Dispatcher
from scheduling.models import Booking, Recorder
from station.clock import database_now
from station.models import Alert
from testing.database import stranger
from testing.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

State = Booking.State
SECOND = timedelta(seconds=1)


class Office:
    """Dispatchers whose starts are only recorded, with their times."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int, float]] = []
        self.dispatchers: list[Dispatcher] = []
        self._lock = threading.Lock()

    def lead(self, epoch: int) -> Dispatcher:
        def start(pk: int) -> None:
            with self._lock:
                self.started.append((epoch, pk, time.time()))

        dispatcher = Dispatcher(epoch, start)
        self.dispatchers.append(dispatcher)
        self.turn(dispatcher)
        return dispatcher

    def turn(self, dispatcher: Dispatcher) -> datetime | None:
        asked = time.monotonic()
        now = database_now()
        dispatcher.sync(now, asked, time.monotonic())
        return dispatcher.step(now)


@pytest.fixture
def office(settings: Any) -> Iterator[Office]:
    settings.LAUNCH_AHEAD_SECONDS = 0
    office = Office()
    yield office
    for dispatcher in office.dispatchers:
        dispatcher.stop()


def make(project: Any, count: int, opens_in: float, length: float = 60.0, **fields: Any) -> list[Booking]:
    recorders = [
        Recorder.objects.create(name=f"Cam {Recorder.objects.count()}", project=project, source_type="test")
        for _ in range(count)
    ]
    opens_at = database_now() + opens_in * SECOND
    closes_at = opens_at + length * SECOND
    window = {"starts_at": opens_at, "ends_at": closes_at, "opens_at": opens_at, "closes_at": closes_at}
    rows = [Booking(recorder=recorder, state="planned", **window, **fields) for recorder in recorders]
    return Booking.objects.bulk_create(rows)


@pytest.mark.slow
def test_a_booking_that_opens_soon_is_claimed_and_dispatched_on_time(project: Any, office: Office) -> None:
    """R-04: claimed with the epoch ahead of time; none is early, lost or dispatched twice."""
    far = make(project, 1, opens_in=3600)
    soon = make(project, 20, opens_in=6.0)

    office.lead(7)

    assert Booking.objects.filter(state=State.ARMED, epoch=7).count() == 20
    assert not office.started
    wait_until(lambda: len(office.started) == 20, 30, "all are dispatched")
    assert sorted(pk for _, pk, _ in office.started) == [booking.pk for booking in soon]
    assert all(began >= soon[0].opens_at.timestamp() for _, _, began in office.started)
    first = Booking.objects.get(pk=soon[0].pk)
    assert [event.new for event in first.events.all()] == ["armed", "starting"]
    assert first.dispatched_at is not None
    assert first.dispatched_at >= first.opens_at
    assert first.late_by_seconds is not None
    assert first.claimed_at is not None
    far[0].refresh_from_db()
    assert far[0].state == State.PLANNED


def test_a_media_worker_is_launched_ahead_of_its_window(project: Any, office: Office, settings: Any) -> None:
    """R-19: so that the first frame is on time; a booking that opens later is not touched yet."""
    settings.LAUNCH_AHEAD_SECONDS = 6.0
    [soon] = make(project, 1, opens_in=8.0)
    office.lead(1)
    wait_until(lambda: office.started, 10, "it is launched")
    [(_, pk, began)] = office.started
    assert pk == soon.pk
    assert 0 < soon.opens_at.timestamp() - began <= 6.0
    soon.refresh_from_db()
    assert soon.late_by_seconds == 0


def test_the_step_returns_when_the_next_booking_must_be_claimed(project: Any, office: Office, settings: Any) -> None:
    """R-01: the loop is event-driven, without a fixed tick."""
    [later] = make(project, 1, opens_in=100)
    dispatcher = office.lead(1)
    assert office.turn(dispatcher) == later.opens_at - settings.ARM_AHEAD_SECONDS * SECOND


@pytest.mark.slow
def test_a_new_leader_takes_over_armed_bookings_and_the_old_one_can_start_nothing(project: Any, office: Office) -> None:
    """R-02: with two leaders at once, as after a freeze, each start still happens once, by the newer one."""
    bookings = make(project, 10, opens_in=6.0)
    old = office.lead(1)
    office.lead(2)
    assert len(old._heap) == 10

    wait_until(lambda: not old._heap and len(office.started) >= 10, 10, "both starts were due")

    assert sorted(pk for _, pk, _ in office.started) == [booking.pk for booking in bookings]
    assert {epoch for epoch, _, _ in office.started} == {2}


@pytest.mark.parametrize(
    ("fields", "state"), [({}, State.MISSED), ({"late_start": Booking.Late.SKIP, "length": 600.0}, State.SKIPPED)]
)
def test_what_an_old_leader_armed_and_never_started_is_given_up(
    project: Any, office: Office, fields: dict[str, Any], state: str
) -> None:
    """R-06: the old leader was killed with its armed bookings, and the next one comes too late for them."""
    [booking] = make(project, 1, opens_in=-120, **fields)
    Booking.objects.update(state=State.ARMED, epoch=1)
    office.lead(2)
    booking.refresh_from_db()
    assert booking.state == state
    assert not office.started
    assert Alert.objects.get().key == f"{state}:{booking.owner}"


def test_a_late_booking_whose_row_is_locked_does_not_keep_the_loop_busy(project: Any, office: Office) -> None:
    """R-22: it is given up when the row is free; until then the loop sleeps between two tries."""
    [booking] = make(project, 1, opens_in=-120)
    with stranger(f"SELECT 1 FROM scheduling_booking WHERE id = {booking.pk} FOR NO KEY UPDATE"):
        dispatcher = office.lead(1)
        asked = database_now()
        again = office.turn(dispatcher)
        assert again is not None
        assert again - asked > timedelta(milliseconds=100)
    office.turn(dispatcher)
    booking.refresh_from_db()
    assert booking.state == State.MISSED


def test_a_start_that_an_old_leader_began_is_repeated(project: Any, office: Office) -> None:
    """R-11: the old leader moved it to starting and was killed before the call."""
    [booking] = make(project, 1, opens_in=-1)
    Booking.objects.update(state=State.STARTING, epoch=3)
    office.lead(4)
    wait_until(lambda: office.started, 5, "the start is repeated")
    assert [(epoch, pk) for epoch, pk, _ in office.started] == [(4, booking.pk)]


@pytest.mark.slow
def test_an_armed_booking_that_is_cancelled_or_moved_is_not_started(project: Any, office: Office) -> None:
    cancelled, moved, kept = make(project, 3, opens_in=6.0)
    office.lead(1)
    Booking.objects.get(pk=cancelled.pk).move(State.CANCELLED, now=database_now())
    Booking.objects.filter(pk=moved.pk).update(
        opens_at=moved.opens_at + 600 * SECOND, closes_at=moved.closes_at + 600 * SECOND
    )

    wait_until(lambda: office.started, 5, "the third is dispatched")
    wait_until(lambda: not office.dispatchers[0]._heap, 5, "nothing is held in memory")

    assert [pk for _, pk, _ in office.started] == [kept.pk]


def test_a_window_that_opened_while_no_scheduler_ran_still_starts_and_records_the_delay(
    project: Any, office: Office
) -> None:
    """R-05."""
    [booking] = make(project, 1, opens_in=-20, length=120)
    office.lead(1)
    wait_until(lambda: office.started, 5, "it starts late")
    booking.refresh_from_db()
    assert booking.late_by_seconds is not None
    assert 20 <= booking.late_by_seconds < 80


@pytest.mark.parametrize(
    ("opens_in", "length", "fields", "state", "words"),
    [
        (-120, 60, {}, State.MISSED, "its window closed"),
        (-100, 120, {}, State.MISSED, "s of its window was left"),
        (-20, 120, {"late_start": "skip"}, State.SKIPPED, "late starts are skipped by its policy"),
        (-20, 120, {"max_late_seconds": 10}, State.SKIPPED, "more than the 10 s allowed"),
    ],
)
def test_a_booking_that_is_too_late_raises_an_alert_and_is_not_started(
    project: Any, office: Office, opens_in: float, length: float, fields: dict, state: str, words: str
) -> None:
    """R-05, R-06: it gets a reason and an alert; the others start."""
    [booking] = make(project, 1, opens_in=opens_in, length=length, **fields)
    [good] = make(project, 1, opens_in=-1, length=120)

    office.lead(1)

    wait_until(lambda: office.started, 5, "the other one starts")
    assert [pk for _, pk, _ in office.started] == [good.pk]
    booking.refresh_from_db()
    assert booking.state == state
    assert words in booking.events.last().note
    assert words in Alert.objects.get(key=f"{state}:{booking.owner}").text


@pytest.mark.slow
def test_a_lost_database_connection_only_delays_the_dispatch(project: Any, office: Office) -> None:
    """R-03: the dispatcher's database session is terminated just before the start is due."""
    bookings = make(project, 5, opens_in=4.0)
    office.lead(1)
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
    wait_until(lambda: len(office.started) == 5, 15, "all are still dispatched")
    assert sorted(pk for _, pk, _ in office.started) == [booking.pk for booking in bookings]
