"""Moves one booking through its states; used by the scheduler's loop and by the Start and Stop buttons.

planned -> armed -> starting -> recording -> stopping -> completed | partial, with retry_wait beside it. Each call of
`advance` compares the booking with its workload row (kept up to date by `nodes.workloads.reconcile`) and with the
clock, and may take several steps.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from nodes import workloads
from nodes.machines.placement import NoPlace
from nodes.machines.ports import PortTaken, release
from nodes.models import Node, Workload
from scheduling.bookings.lateness import give_up, why_too_late
from scheduling.models import Booking
from scheduling.recording.outcome import STOPPED_BY_HAND, conclude, copy_progress
from scheduling.recording.workload_spec import ask_for_worker
from station.alerts import raise_alert, resolve_alert
from station.clock import is_pause_over
from station.database.notify import wake_scheduler
from station.models.alert import Severity
from station.sealing import CannotOpen
from station.states import SCHEDULER
from worker.wire.status import CaptureStatus

logger = logging.getLogger(__name__)

State = Booking.State
BACKOFF_SECONDS = (1, 2, 5, 10, 30)
NO_SIGNAL_AFTER = timedelta(seconds=10)
PREDECESSOR_PATIENCE = timedelta(seconds=10)
END_MARGIN = timedelta(seconds=30)
# A media worker's clock may be this far ahead of ours. One that ended earlier than that had not learned of a new end.
CLOCK_TOLERANCE = timedelta(seconds=3)
START_ALLOWANCE = Booking.DEADLINES[State.STARTING]


def advance(booking: Booking, now: datetime) -> None:
    """Compare the booking with its workload and the clock, and take the steps that are due."""
    if booking.state in {State.PLANNED, State.ARMED}:
        _open(booking, now)
    if booking.state == State.RETRY_WAIT:
        _retry(booking, now)
    if booking.state == State.STARTING:
        _bring_up(booking, now)
    if booking.state == State.RECORDING:
        _look_after(booking, now)
    if booking.state in {State.STOPPING, State.CANCELLING}:
        _bring_down(booking, now)


def request_stop(booking: Booking, *, now: datetime, by: str) -> bool:
    """End the recording now, by hand. What is recorded is kept. False if it is not running or has just changed."""
    if not booking.may_move(State.STOPPING):
        return False
    if not booking.move(State.STOPPING, now=now, by=by, note="stopped by hand", outcome=STOPPED_BY_HAND):
        return False
    workloads.unwant(booking.owner, now=now, by=by, note="stopped by hand")
    return True


def _open(booking: Booking, now: datetime) -> None:
    """Claim and start in one go: by hand, or without a leader. The loop starts through `scheduling.leader.dispatch`."""
    verdict = why_too_late(booking, now)
    if verdict is not None:
        give_up(booking, *verdict, now)
        return
    by = booking.requested_by if booking.is_manual else SCHEDULER
    if booking.state == State.PLANNED and not booking.move(
        State.ARMED, now=now, by=by, deadline_at=booking.closes_at, claimed_at=now
    ):
        return
    late = max(0.0, (now - booking.opens_at).total_seconds())
    booking.move(State.STARTING, now=now, by=by, late_by_seconds=round(late, 3), attempts=1, dispatched_at=now)


def _retry(booking: Booking, now: datetime) -> None:
    if now >= booking.closes_at:
        _end_window(booking, now)
    elif is_pause_over(booking.next_attempt_at, now, BACKOFF_SECONDS[-1]):
        booking.move(State.STARTING, now=now, note=f"attempt {booking.attempts + 1}", attempts=booking.attempts + 1)


def _bring_up(booking: Booking, now: datetime) -> None:  # noqa: C901  one branch for each way a start can go
    if now >= booking.closes_at:
        _end_window(booking, now)
        return
    workload = workloads.latest(booking.owner)
    if workload is None or (workload.is_over and not workload.is_wanted):  # that of an earlier attempt is unwanted
        if _predecessor_lingers(booking, now):
            return
        try:
            workload = ask_for_worker(booking, now)
        except (NoPlace, PortTaken, workloads.NoControlPort) as fault:
            _wait_to_retry(booking, f"No place to run: {fault}", now)
            return
        except CannotOpen as fault:
            _wait_to_retry(booking, str(fault), now)
            return
        if workload is None:
            return
    if workload.is_over:
        _after_worker_ended(booking, workload, now)
    elif workload.state == Workload.State.RUNNING and is_really_recording(workload):
        _note_recording(booking, workload, now)
    elif workload.state == Workload.State.RUNNING and now - _expected_from(booking) > NO_SIGNAL_AFTER:
        _note_no_signal(booking, workload, now)
    elif workload.state != Workload.State.RUNNING and booking.deadline_at and now > booking.deadline_at:
        # The node is not reconciled: otherwise the workload's own deadline would have ended it by now.
        _wait_to_retry(booking, f"{workload.node.name} does not start the media worker", now)


def _expected_from(booking: Booking) -> datetime:
    """From when a picture is expected: a media worker that is up before the window opens waits for it."""
    return max(booking.state_since_at, booking.opens_at)


def is_really_recording(workload: Workload) -> bool:
    """True if there is a signal and the part that is being written has bytes.

    Frames alone prove nothing (the encoder holds them back), and other parts may be a predecessor's.
    """
    status = workload.status(CaptureStatus)
    return status.signal and any(part.bytes and not part.ended_at for part in status.parts)


def _predecessor_lingers(booking: Booking, now: datetime) -> bool:
    """One writer at a time: on a reachable node, wait a moment until the ended media worker is confirmed gone."""
    if now - booking.state_since_at > PREDECESSOR_PATIENCE:
        return False
    lingering = Workload.objects.to_look_at().filter(owner=booking.owner, node__state=Node.State.UP)
    return lingering.exists()


def _note_recording(booking: Booking, workload: Workload, now: datetime) -> None:
    status = workload.status(CaptureStatus)
    with transaction.atomic():
        moved = booking.move(
            State.RECORDING,
            now=now,
            note=f"first frame; on {workload.node.name}",
            first_frame_at=booking.first_frame_at or status.first_frame_at or now,
            first_byte_at=booking.first_byte_at or status.first_byte_at or now,
            container_at=booking.container_at or workload.started_at,
            deadline_at=booking.closes_at + END_MARGIN,
        )
        if not moved:
            return
        copy_progress(booking, workload)
        for trouble in ("no_signal", "not_starting"):
            resolve_alert(f"{trouble}:{booking.owner}", now=now, note="it is recording")
    logger.info("Recording. booking=%s node=%s", booking.pk, workload.node.name)


def _look_after(booking: Booking, now: datetime) -> None:
    workload = workloads.latest(booking.owner)
    if now >= booking.closes_at:
        _end_window(booking, now)
        return
    if workload is None or workload.is_over:
        _after_worker_ended(booking, workload, now)
        return
    copy_progress(booking, workload)
    status = workload.status(CaptureStatus)
    if status.state == "no_signal":
        _note_no_signal(booking, workload, now)
    elif status.signal:
        resolve_alert(f"no_signal:{booking.owner}", now=now, note="the signal is back")


def _after_worker_ended(booking: Booking, workload: Workload | None, now: datetime) -> None:
    """The media worker ended while the window is open: a full disk or its own end time ends the booking.

    Everything else is a retry, also a disk that was full before the first byte: another node may have room.
    The media worker's clock may be ahead of ours, so it may reach its end time before the window closes for us.
    """
    if workload is not None:
        copy_progress(booking, workload)
        if workload.exit_reason == "disk_full" and booking.size_bytes:
            alert_about(booking, "disk_full", f"{booking}: the disk is full", workload.error, now, Severity.CRITICAL)
            booking.move(State.STOPPING, now=now, note="the disk is full", outcome="disk_full")
            workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="the disk is full")
            return
        parts = workload.status(CaptureStatus).parts
        if parts and parts[-1].end_reason == "ended" and now >= booking.closes_at - CLOCK_TOLERANCE:
            _end_window(booking, now)
            return
    error = (workload.error or workload.exit_reason) if workload else "the media worker is gone"
    _wait_to_retry(booking, error, now)


def _wait_to_retry(booking: Booking, error: str, now: datetime) -> None:
    """Try again later, until the window ends; every error is kept (R-07)."""
    failures = _failures_in_a_row(booking)
    wait = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]
    if booking.state == State.RECORDING:
        wait = 0  # it was recording a moment ago: every second counts
    elif now < booking.opens_at:
        wait = 1  # the previous booking may still hold the source; the growing pauses begin when the window opens
    errors = [*booking.errors, {"at": now.isoformat(), "attempt": booking.attempts, "error": error}][-200:]
    with transaction.atomic():
        moved = booking.move(
            State.RETRY_WAIT, now=now, note=error, errors=errors, next_attempt_at=now + timedelta(seconds=wait)
        )
        if not moved:
            return
        workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="another media worker replaces it")
        wake_scheduler()  # the loop does not know next_attempt_at yet
        if now >= booking.opens_at:  # before that there is still time
            alert_about(booking, "not_starting", f"{booking} is not recording", error, now, Severity.CRITICAL)
    logger.error("Recording interrupted or not started; trying again. booking=%s error=%s", booking.pk, error)


def _failures_in_a_row(booking: Booking) -> int:
    """Failures since it last recorded."""
    recorded = booking.events.filter(new=State.RECORDING).order_by("-at").values_list("at", flat=True).first()
    waits = booking.events.filter(new=State.RETRY_WAIT, at__gte=booking.opens_at)
    return waits.filter(at__gt=recorded).count() if recorded else waits.count()


def _end_window(booking: Booking, now: datetime) -> None:
    with transaction.atomic():
        # Someone may be extending it right now: stop only if the window is still the one that was read.
        same = Booking.objects.select_for_update().filter(pk=booking.pk, closes_at=booking.closes_at)
        if same.exists() and booking.move(State.STOPPING, now=now, note="end of window"):
            workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="end of window")


def _bring_down(booking: Booking, now: datetime) -> None:
    """Wait until the media worker is gone, however long that takes; then record the outcome."""
    workloads.unwant(booking.owner, now=now, by=SCHEDULER)  # again: a crash may have come right after the move
    workload = workloads.latest(booking.owner)
    if workload is not None and not workload.is_over:
        if booking.deadline_at and now > booking.deadline_at:
            deadline = now + Booking.DEADLINES[State.STOPPING]
            Booking.objects.filter(pk=booking.pk, state=booking.state).update(deadline_at=deadline)
            note = "The media worker was asked to stop and has not confirmed it. Airlock keeps trying."
            alert_about(booking, "not_stopping", f"{booking} does not stop", note, now, Severity.CRITICAL)
        return
    with transaction.atomic():
        release(booking.owner, now=now)
        conclude(booking, workload, now)
        for trouble in ("not_stopping", "no_signal", "not_starting", "trouble", "disk_forecast", "preflight"):
            resolve_alert(f"{trouble}:{booking.owner}", now=now, note="the booking has ended")


def _note_no_signal(booking: Booking, workload: Workload, now: datetime) -> None:
    """Raise an alert; do not move the booking: a lost source is not the node's fault (R-15).

    The media worker keeps trying by itself.
    """
    error = workload.status(CaptureStatus).error or "The source sends no picture."
    if not booking.errors or booking.errors[-1]["error"] != error:
        entry = {"at": now.isoformat(), "attempt": booking.attempts, "error": error}
        booking.errors = [*booking.errors, entry][-200:]
        Booking.objects.filter(pk=booking.pk).update(errors=booking.errors)
        logger.warning("No signal. booking=%s error=%s", booking.pk, error)
    alert_about(booking, "no_signal", f"{booking}: no signal", error, now, Severity.CRITICAL)
    if booking.state == State.STARTING and booking.deadline_at and now > booking.deadline_at:
        Booking.objects.filter(pk=booking.pk).update(deadline_at=now + START_ALLOWANCE)


def alert_about(booking: Booking, kind: str, title: str, text: str, now: datetime, severity: Severity) -> None:
    """Raise an alert with this booking as its subject."""
    raise_alert(
        f"{kind}:{booking.owner}",
        title,
        now=now,
        severity=severity,
        text=text,
        subject=booking.owner,
        project=booking.recorder.project,
    )
