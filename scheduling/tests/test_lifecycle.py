"""States of a booking without a media worker (missed, retried, failed) with their alerts; and the scheduler's step."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from nodes import workloads
from nodes.machines import placement
from nodes.machines.call_pools import pools
from nodes.models import Node, Reservation
from scheduling.bookings.making import book
from scheduling.leader.loop import Loop
from scheduling.models import Booking, Recorder
from scheduling.recording import lifecycle, loop_step, workload_spec
from scheduling.recording.lifecycle import BACKOFF_SECONDS, advance, request_stop
from station.leader_term import Term
from station.models import Alert
from testing.database import stranger

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State


@pytest.fixture
def camera(project: Any) -> Recorder:
    """A recorder that no node can take."""
    return Recorder.objects.create(name="Cam", project=project, source_type="test")


@pytest.fixture
def booking(camera: Recorder) -> Booking:
    now = timezone.now()
    return book(camera, now, now + timedelta(hours=1), now=now, by="anna")


def test_without_a_node_it_is_tried_again_and_every_error_is_kept(booking: Booking) -> None:
    """R-07: pauses of 1, 2, 5, 10, then 30 s until the window ends; then failed."""
    now = booking.opens_at
    waits = []
    for _ in range(7):
        advance(booking, now)
        assert booking.state == State.RETRY_WAIT
        assert booking.next_attempt_at is not None
        waits.append((booking.next_attempt_at - now).total_seconds())
        now = booking.next_attempt_at

    assert waits == [*BACKOFF_SECONDS, 30, 30]
    assert [error["error"] for error in booking.errors] == ["No place to run: No node is set up."] * 7
    assert Alert.objects.get().key == f"not_starting:{booking.owner}"

    advance(booking, booking.closes_at)

    assert booking.state == State.FAILED
    assert booking.outcome == "failed"
    assert Alert.objects.filter(key=f"failed:{booking.owner}").exists()
    assert Alert.objects.get(key=f"not_starting:{booking.owner}").state == "resolved"


def test_a_window_that_passed_completely_is_missed_with_the_reason(booking: Booking) -> None:
    """R-06: `missed` with the reason and an alert."""
    advance(booking, booking.closes_at + timedelta(seconds=1))

    assert booking.state == State.MISSED
    assert "before it could be started" in booking.events.last().note
    assert Alert.objects.get().title == f"Cam #{booking.pk} was missed"


def test_a_window_that_opened_without_a_scheduler_still_starts_and_records_how_late(booking: Booking) -> None:
    """R-05."""
    advance(booking, booking.opens_at + timedelta(seconds=90))

    assert booking.late_by_seconds == 90
    assert booking.state == State.RETRY_WAIT


def test_two_processes_that_advance_a_booking_move_it_once(booking: Booking) -> None:
    twin = Booking.objects.get(pk=booking.pk)
    advance(booking, booking.opens_at)
    advance(twin, booking.opens_at)

    assert [event.new for event in booking.events.all()] == ["planned", "armed", "starting", "retry_wait"]


def test_stop_ends_a_booking_that_waits_to_retry(booking: Booking) -> None:
    now = booking.opens_at
    advance(booking, now)

    assert request_stop(booking, now=now, by="anna")
    advance(booking, now)

    assert booking.state == State.FAILED
    assert request_stop(booking, now=now, by="anna") is False


@pytest.fixture
def dispatched(camera: Recorder) -> Booking:
    """Dispatched, before its window opens."""
    now = timezone.now()
    opens = now + timedelta(minutes=1)
    booking = book(camera, opens, opens + timedelta(hours=1), now=now, by="anna")
    booking.move(State.ARMED, now=now, deadline_at=booking.closes_at)
    booking.move(State.STARTING, now=now, attempts=1)
    return booking


def between_full_passes() -> Term:
    """A term in which a full pass has just taken place."""
    term = Term()
    term.memory(loop_step.Passes).looked_at_all = time.monotonic()
    return term


@pytest.mark.django_db(transaction=True)
def test_a_start_that_failed_in_the_dispatcher_is_tried_again_at_once(
    dispatched: Booking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-07, R-11: the database failed for a moment; the loop does not wait until the window opens."""

    def hiccup(booking: Booking, now: Any) -> None:
        raise OperationalError("too many clients already")

    term = between_full_passes()
    monkeypatch.setattr(loop_step, "close_old_connections", lambda: None)  # keep the test's connection open
    with monkeypatch.context() as broken:
        broken.setattr(loop_step, "advance", hiccup)
        with pytest.raises(OperationalError):
            loop_step.begin(term, dispatched.pk)
    loop_step.step(term, timezone.now())
    assert pools.wait_idle(20)
    dispatched.refresh_from_db()
    assert dispatched.state == State.RETRY_WAIT, "there is no node: it was tried and will be tried again"


@pytest.mark.django_db(transaction=True)
def test_a_start_that_meets_a_lock_again_and_again_is_tried_until_the_lock_is_gone(
    dispatched: Booking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-22: it does not rest until its window opens."""
    connection.close()
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "options", "-c lock_timeout=100ms")
    term = between_full_passes()
    with stranger("SELECT 1 FROM scheduling_booking FOR NO KEY UPDATE"):
        loop_step.begin(term, dispatched.pk)
        for _ in range(4):
            loop_step.step(term, timezone.now())
            assert pools.wait_idle(20)
            dispatched.refresh_from_db()
            assert dispatched.state == State.STARTING
    for _ in range(2):  # the first of them finds out that the row is free
        loop_step.step(term, timezone.now())
        assert pools.wait_idle(20)
    dispatched.refresh_from_db()
    connection.close()
    assert dispatched.state == State.RETRY_WAIT, "there is no node: it was tried and will be tried again"


def test_a_dispatched_booking_is_not_checked_until_its_window_opens(
    dispatched: Booking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-19: checking thousands would take the leader's thread, and processor time from recordings that start."""
    term = between_full_passes()
    looked: list[str] = []
    monkeypatch.setattr(pools, "submit_soon", lambda node_id, kind, task: looked.append(kind))
    upcoming = loop_step.step(term, timezone.now())
    assert looked == []
    assert upcoming == dispatched.opens_at + loop_step.QUIET


def test_a_pass_over_many_bookings_takes_no_more_statements_of_the_leader(
    camera: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-02, P-18: all of them are advanced, on other threads."""
    now = timezone.now()
    looked: list[str] = []
    monkeypatch.setattr(pools, "submit_soon", lambda node_id, kind, task: looked.append(kind))
    asked = []
    for hours in (range(3), range(3, 30)):
        for hour in hours:
            starts = now + timedelta(hours=hour)
            row = book(camera, starts, starts + timedelta(minutes=10), now=now, by="anna")
            Booking.objects.filter(pk=row.pk).update(state=State.RECORDING)
        looked.clear()
        with CaptureQueriesContext(connection) as statements:
            assert loop_step.step(Term(), now) == now + loop_step.HURRY
        asked.append(len(statements))
        assert looked == [*(booking.owner for booking in Booking.objects.order_by("pk")), "leftovers"]
    assert asked[0] == asked[1]


def test_a_retry_wakes_the_loop(booking: Booking, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-07: another thread may set the time of the retry; without a wake-up the loop would sleep until its tick."""
    woken: list[str] = []
    monkeypatch.setattr(lifecycle, "wake_scheduler", lambda: woken.append("!"))
    advance(booking, booking.opens_at)
    assert woken == ["!"]


def test_if_the_chosen_node_is_full_another_is_chosen_at_once(
    dispatched: Booking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-04: many bookings choose the same node in one second; those that come too late choose again."""
    full, free = (
        Node.objects.create(name=name, address=f"unix:///{name}", media_dir="/m", state="up", max_workloads=1)
        for name in ("full", "free")
    )
    workloads.want("x:1", node=full, program="capture", spec={}, secret={}, now=timezone.now())
    places = [full, free]
    monkeypatch.setattr(placement, "choose", lambda needs, now: places.pop(0))
    workload = workload_spec.ask_for_worker(dispatched, timezone.now())
    assert workload is not None
    assert workload.node == free


def test_a_start_that_another_process_made_first_keeps_its_port(
    dispatched: Booking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-14: the second one chose another node; it must not move the port's reservation there."""
    first, second = (
        Node.objects.create(name=name, address=f"unix:///{name}", media_dir="/m", state="up") for name in "ab"
    )
    Recorder.objects.update(source_type="srt", address="srt://0.0.0.0:9000?mode=listener")
    dispatched.recorder.refresh_from_db()

    def choose(needs: Any, now: Any) -> Node:
        monkeypatch.setattr(placement, "choose", lambda needs, now: first)
        workload_spec.ask_for_worker(dispatched, timezone.now())
        return second

    monkeypatch.setattr(placement, "choose", choose)
    workload = workload_spec.ask_for_worker(dispatched, timezone.now())

    assert workload is not None
    assert workload.node == first
    assert Reservation.objects.standing().get(owner=dispatched.owner).port.node == first


def good_step(term: Term, now: Any) -> Any:
    good_step.calls += 1  # type: ignore[attr-defined]
    return now + timedelta(seconds=90)


def bad_step(term: Term, now: Any) -> Any:
    raise ValueError("a bug in a step")


@pytest.mark.django_db(transaction=True)
def test_a_failing_step_does_not_stop_the_others(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    """R-03."""
    good_step.calls = 0  # type: ignore[attr-defined]
    settings.SCHEDULER_STEPS = [f"{__name__}.bad_step", f"{__name__}.good_step"]

    loop = Loop()
    loop.run_once()

    assert good_step.calls == 1  # type: ignore[attr-defined]
    assert loop._read is not None
    now = loop._read.now
    assert set(loop._due.values()) == {now + timedelta(seconds=1), now + timedelta(seconds=90)}
    assert "A step failed" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_the_safety_net_tick_bounds_the_sleep(settings: Any) -> None:
    """R-01: SCHEDULER_TICK_SECONDS."""
    settings.SCHEDULER_STEPS = []
    settings.SCHEDULER_TICK_SECONDS = 150
    settings.LEADER_HEARTBEAT_SECONDS = 600
    assert 50 < Loop().run_once() <= 150
    settings.LEADER_HEARTBEAT_SECONDS = 50
    assert 0 < Loop().run_once() <= 50  # the query is also the heartbeat


def test_a_start_does_not_wait_for_the_followers(
    booking: Booking, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The media worker is requested first: filing the recording takes time, and a start must be punctual."""
    order: list[str] = []
    settings.BOOKING_FOLLOWERS = ["follower"]
    monkeypatch.setattr(loop_step, "import_string", lambda path: lambda *_: order.append(path))
    monkeypatch.setattr(loop_step, "reconcile_soon", lambda *_: order.append("reconcile"))

    loop_step._look_at(Term(), booking)

    assert order == ["reconcile", "follower"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_moved", [False, True])
def test_an_armed_booking_that_nobody_started_is_started_unless_it_was_moved(
    dispatched: Booking, is_moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-07: the dispatcher failed. One that is moved to a later time before its thread looks at it stays armed."""
    long_ago = timezone.now() - 2 * loop_step.OVERDUE
    Booking.objects.update(state=State.ARMED, starts_at=long_ago, opens_at=long_ago)
    if is_moved:
        later = timezone.now() + timedelta(minutes=30)
        submit = pools.submit_soon

        def after_the_move(*task: Any) -> None:
            Booking.objects.update(starts_at=later, opens_at=later)
            submit(*task)

        monkeypatch.setattr(pools, "submit_soon", after_the_move)

    loop_step.step(Term(), timezone.now())
    assert pools.wait_idle(20)

    dispatched.refresh_from_db()
    assert dispatched.state == (State.ARMED if is_moved else State.RETRY_WAIT)
