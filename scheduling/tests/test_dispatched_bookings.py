"""A dispatched booking: who advances it, when, and where its media worker goes (R-02, R-04, R-14, R-22)."""

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
from scheduling.models import Booking, Recorder
from scheduling.recording import loop_step, workload_spec
from station.leader_term import Term
from testing.database import stranger

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State


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
