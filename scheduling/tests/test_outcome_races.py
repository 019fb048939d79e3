"""Bookings whose media worker, end or stop changes at the same moment (R-08, R-11, R-12)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from scheduling.models import Booking, Recorder
from scheduling.recording import controls, loop_step
from scheduling.recording.lifecycle import advance
from scheduling.recording.loop_step import unwant_leftovers
from scheduling.recording.outcome import conclude, copy_progress
from scheduling.tests.test_outcome import part, run
from station.leader_term import Term
from station.models import Alert
from station.sealing import seal
from worker.wire import codec
from worker.wire.parts_and_gaps import Part

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Booking.State


@pytest.fixture(autouse=True)
def real_tolerance(settings: Any) -> None:
    settings.TOLERATED_GAP_SECONDS = 5.0


def test_a_media_worker_that_ends_at_its_own_end_time_ends_the_window(booking: Booking, node: Node) -> None:
    """A node whose clock is slightly ahead raises no alert."""
    workload = run(booking, node, [part(booking, 1, 0.5, 599.5, "ended")])
    Booking.objects.filter(pk=booking.pk).update(state="recording", closes_at=booking.closes_at + timedelta(seconds=2))
    booking.refresh_from_db()
    Workload.objects.update(exit_reason="done", removed_at=timezone.now())

    advance(booking, booking.closes_at - timedelta(seconds=2))

    assert booking.state == State.COMPLETED
    assert not Alert.objects.exists()
    assert workload.generation == 1


def test_a_media_worker_of_an_ended_booking_is_not_wanted(booking: Booking, node: Node) -> None:
    """No media worker keeps running for an ended booking, whatever went wrong before."""
    run(booking, node, [])
    Booking.objects.update(state="failed")
    Workload.objects.update(state="running")

    assert unwant_leftovers(timezone.now()) == 1
    assert Workload.objects.get().is_wanted is False


def test_a_booking_that_has_just_ended_gets_no_media_worker(booking: Booking, node: Node) -> None:
    stale = Booking.objects.get(pk=booking.pk)
    stale.move(State.ARMED, now=booking.opens_at)
    stale.move(State.STARTING, now=booking.opens_at)
    Booking.objects.update(state="failed")

    advance(stale, booking.opens_at + timedelta(seconds=1))

    assert not Workload.objects.exists()


def test_a_lost_sealing_key_is_explained_and_tried_again(booking: Booking, node: Node, settings: Any) -> None:
    Recorder.objects.update(secrets_sealed="gAAAAABnonsense")
    booking = Booking.objects.get()

    advance(booking, booking.opens_at)

    assert booking.state == State.RETRY_WAIT
    assert "SEALING_KEYS" in booking.errors[0]["error"]


@pytest.mark.django_db(transaction=True)
def test_a_bug_in_advance_raises_an_alert(booking: Booking, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise ValueError("a bug")

    Booking.objects.update(state=State.STARTING)
    monkeypatch.setattr(loop_step, "advance", broken)

    loop_step.step(Term(), timezone.now())
    assert pools.wait_idle(20)

    assert "ValueError: a bug" in Alert.objects.get().text


def test_a_stop_takes_effect_even_if_the_loop_moves_the_booking_at_the_same_moment(
    booking: Booking, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The button never says that a booking was stopped unless it was."""
    booking.move(State.ARMED, now=booking.opens_at)
    booking.move(State.STARTING, now=booking.opens_at)
    stale = Booking.objects.get(pk=booking.pk)
    booking.move(State.RETRY_WAIT, now=booking.opens_at + timedelta(seconds=1))
    monkeypatch.setattr("django.conf.settings.MANUAL_WAIT_SECONDS", 0.1, raising=False)

    outcome = controls.stop_booking(stale, by="anna")

    booking.refresh_from_db()
    assert booking.state == State.FAILED
    assert "nothing had been recorded" in outcome.text


def test_a_media_worker_that_did_not_learn_of_an_extension_is_replaced(booking: Booking, node: Node) -> None:
    """R-12: extended while the media worker could not be reached; it ended at its old end, the window is open."""
    now = booking.opens_at + timedelta(seconds=5)
    workload = run(booking, node, [])
    workload.progress = {"parts": [codec.encode(Part(1, "x-001.ts", end_reason="ended", bytes=5, seconds=5.0))]}
    Workload.objects.filter(pk=workload.pk).update(state="exited", progress=workload.progress)
    Booking.objects.update(state=State.RECORDING)
    booking.refresh_from_db()

    advance(booking, now)

    assert booking.state == State.RETRY_WAIT


def test_an_extension_in_the_last_moment_is_not_overridden(booking: Booking, node: Node) -> None:
    """R-12: the loop reads the old end, someone extends the booking, the loop acts."""
    run(booking, node, [])
    Booking.objects.update(state=State.RECORDING)
    stale = Booking.objects.get(pk=booking.pk)
    later = stale.closes_at + timedelta(minutes=15)
    Booking.objects.update(ends_at=later, closes_at=later)

    advance(stale, stale.closes_at)

    assert Booking.objects.get().state == State.RECORDING


def test_a_late_check_does_not_overwrite_the_end(booking: Booking, node: Node) -> None:
    """R-11: another thread has already ended the booking."""
    workload = run(booking, node, [part(booking, 1, 0, 600)])
    late = Booking.objects.get(pk=booking.pk)
    conclude(booking, workload, booking.closes_at)
    workload.progress = {"parts": [part(booking, 1, 0, 10)], "gaps": []}
    copy_progress(late, workload)
    booking.refresh_from_db()
    assert booking.parts[0]["seconds"] == 600


def test_a_start_on_a_node_that_is_not_reconciled_is_tried_elsewhere(booking: Booking, node: Node) -> None:
    """R-11: no scheduler reconciles the node; the booking's own deadline ends the attempt."""
    now = booking.opens_at
    booking.move(State.ARMED, now=now)
    booking.move(State.STARTING, now=now)
    workload = run_requested(booking, node)
    advance(booking, now + timedelta(seconds=40))
    assert booking.state == State.STARTING
    advance(booking, now + timedelta(seconds=50))
    assert booking.state == State.RETRY_WAIT
    assert "n does not start the media worker" in booking.errors[-1]["error"]
    workload.refresh_from_db()
    assert not workload.is_wanted


def run_requested(booking: Booking, node: Node) -> Workload:
    return Workload.objects.create(
        owner=booking.owner,
        generation=1,
        node=node,
        name="w",
        program="capture",
        control_port=9600,
        state="requested",
        is_wanted=True,
        created_at=booking.opens_at,
        secrets_sealed=seal({"token": "t"}),
    )
