"""The life of a booking: one look, one step. The same function serves the loop and a person pressing Start or Stop.

planned -> armed -> starting -> recording -> stopping -> completed | partial, with retry_wait beside it. Each look
compares the booking with its workload (`nodes.workloads.reconcile` keeps that row true) and with the clock, and moves
a few steps.
"""

import logging
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection, transaction
from django.db.models import F, Min, Q
from django.utils.module_loading import import_string

from nodes import workloads
from nodes.machines.placement import NoPlace
from nodes.machines.ports import PortTaken, release
from nodes.models import Node, Workload
from nodes.workloads.reconcile import reconcile_soon
from scheduling.bookings.lateness import give_up, why_too_late
from scheduling.models import Booking
from scheduling.recording.outcome import STOPPED_BY_HAND, conclude, copy_progress
from scheduling.recording.workload_spec import ask_for_worker
from station.alerts import raise_alert, resolve_alert
from station.clock import database_now
from station.database.notify import wake_scheduler
from station.models.alert import Severity
from station.redaction import redact
from station.sealing import CannotOpen
from station.states import SCHEDULER, sql_list
from station.term import Term
from worker.wire.status import CaptureStatus

logger = logging.getLogger(__name__)

State = Booking.State
BACKOFF_SECONDS = (1, 2, 5, 10, 30)
NO_SIGNAL_AFTER = timedelta(seconds=10)
PREDECESSOR_PATIENCE = timedelta(seconds=10)
END_MARGIN = timedelta(seconds=30)
# A worker's clock may be this much ahead of ours; one that ended earlier than that did not know of a later end.
CLOCK_TOLERANCE = timedelta(seconds=3)
# States that something is being done about right now.
HURRIED = (State.STARTING, State.STOPPING, State.CANCELLING)
HURRY = timedelta(seconds=0.5)
# Launched and waiting for its window: until a moment after it opens there is nothing to learn, and every look at ten of
# them would take processor time from ten ffmpegs that begin in that very second.
QUIET = timedelta(seconds=0.7)
# A pass over very many takes turns with the other steps.
PASS_SECONDS = 2.0
# The dispatcher starts everything on its second. Should it ever not: this long after, the sweep does.
OVERDUE = timedelta(seconds=5)
WITH = ("recorder", "recorder__project", "recorder__node")
START_ALLOWANCE = Booking.DEADLINES[State.STARTING]
# Anything active, and anything armed that should have been started. (What is planned and overdue, arming finds.)
DUE_SQL = f"""SELECT LEAST(
    CASE WHEN EXISTS (SELECT FROM scheduling_booking
                      WHERE state IN ({sql_list(Booking.ACTIVE)}))
    THEN clock_timestamp() END,
    (SELECT min(opens_at) FROM scheduling_booking WHERE state = '{State.ARMED}') + interval '{OVERDUE.seconds} s')"""  # noqa: S608


class Passes:
    """Where the leader is in its passes over the active bookings."""

    def __init__(self) -> None:
        self.looked_at_all = -1e9  # monotonic
        self.after = 0  # where a pass that took too long goes on
        self.unlucky: set[int] = set()  # starts that threw: tried again at once, even if others rest


def step(term: Term, now: datetime) -> datetime | None:
    """Advance the bookings that need it now, each on its own; every tick all active ones, whatever happened."""
    passes = term.memory(Passes)
    active = Booking.objects.active()
    is_full = time.monotonic() - passes.looked_at_all >= settings.SCHEDULER_TICK_SECONDS
    unlucky = set(passes.unlucky)
    passes.unlucky.difference_update(unlucky)
    # A recording whose window is open is looked after whenever its worker is (`look`); what was dispatched is in the
    # hands of the dispatcher's threads until its window opens, unless it slipped from them.
    resting = Q(state=State.STARTING, opens_at__gt=now - QUIET) & ~Q(pk__in=unlucky)
    hurried = Q(state__in=HURRIED) & ~resting
    urgent = hurried | Q(state=State.RETRY_WAIT, next_attempt_at__lte=now) | Q(closes_at__lte=now)
    chosen = (active if is_full else active.filter(urgent)).filter(pk__gt=passes.after).order_by("pk")
    began = time.monotonic()
    for booking in chosen.select_related(*WITH):
        _look_at(term, booking)
        if time.monotonic() - began > PASS_SECONDS:  # a leader that is silent for too long loses the lock
            passes.after = booking.pk
            return now
    passes.after = 0
    for booking in Booking.objects.overdue(now - OVERDUE).select_related(*WITH):
        logger.error("A booking was not dispatched in time; starting it now. booking=%s", booking.pk)
        _look_at(term, booking)
    if is_full:
        passes.looked_at_all = time.monotonic()
        unwant_leftovers(now)
    if active.filter(hurried).exists():
        return now + HURRY
    times = active.aggregate(
        closes=Min("closes_at"),
        retries=Min("next_attempt_at", filter=Q(state=State.RETRY_WAIT)),
        opens=Min(F("opens_at") + QUIET, filter=resting),
    )
    return min((moment for moment in times.values() if moment), default=None)


def begin(term: Term, pk: int) -> None:
    """Just dispatched: ask for a media worker and start it at once."""
    close_old_connections()
    try:
        booking = Booking.objects.select_related(*WITH).filter(pk=pk).first()
        if booking is not None and booking.state in Booking.ACTIVE:
            _look_at(term, booking)
    except (OperationalError, InterfaceError):
        term.memory(Passes).unlucky.add(pk)
        raise


def look(term: Term, owner: str) -> None:
    """There is news of the media worker of this booking: advance the booking, too (see WORKLOAD_OWNERS)."""
    booking = Booking.objects.active().select_related(*WITH).filter(pk=int(owner.partition(":")[2])).first()
    if booking is not None:
        _look_at(term, booking)


def _look_at(term: Term, booking: Booking) -> None:
    """Advance it; whatever goes wrong must not stop the others, and somebody must hear of it."""
    before = booking.state
    try:
        advance_and_tell(booking, database_now())
        if booking.state != before or (booking.state in HURRIED and not _rests(booking)):
            reconcile_soon(term, booking.owner)
    except (OperationalError, InterfaceError):
        raise  # the database is away: nothing can be done or told
    except Exception as error:  # a fault in one booking must not stop the others, and somebody must hear of it
        logger.exception("A booking could not be looked after. booking=%s", booking.pk)
        term.memory(Passes).unlucky.add(booking.pk)
        text = redact(f"{type(error).__name__}: {error}")
        _alert(booking, "trouble", f"{booking} could not be looked after", text, database_now(), Severity.CRITICAL)


def _rests(booking: Booking) -> bool:
    """Its worker is up, and its window is not open yet."""
    if booking.state != State.STARTING or booking.opens_at <= database_now() - QUIET:
        return False
    workload = workloads.latest(booking.owner)
    return workload is not None and workload.state == Workload.State.RUNNING


def _tell_followers(booking: Booking) -> None:
    """Whoever files what is recorded (BOOKING_FOLLOWERS): never a reason to leave a recording alone."""
    for path in settings.BOOKING_FOLLOWERS:
        try:
            import_string(path)(booking, database_now())
        except Exception:  # what follows a recording must not disturb it; its own step tries again
            if not connection.is_usable():
                raise  # the database is away
            logger.exception("A follower failed. follower=%s booking=%s", path, booking.pk)


def unwant_leftovers(now: datetime) -> int:
    """A worker is wanted only as long as its booking is active: whatever went wrong, none runs on for an ended one."""
    rows = Workload.objects.filter(is_wanted=True, removed_at=None, owner__startswith="booking:")
    owners = set(rows.values_list("owner", flat=True))
    active = {f"booking:{pk}" for pk in Booking.objects.active().values_list("pk", flat=True)}
    return sum(
        workloads.unwant(owner, now=now, by=SCHEDULER, note="its booking has ended") for owner in owners - active
    )


def advance_and_tell(booking: Booking, now: datetime) -> None:
    """One step, for the loop and for a person at the button: whoever drives a booking, its followers hear of it."""
    advance(booking, now)
    _tell_followers(booking)


def advance(booking: Booking, now: datetime) -> None:
    """Take this booking one look further."""
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
    """Somebody wants it to end now. What is recorded is kept."""
    if not booking.may_move(State.STOPPING):
        return False
    if not booking.move(State.STOPPING, now=now, by=by, note="stopped by hand", outcome=STOPPED_BY_HAND):
        return False
    workloads.unwant(booking.owner, now=now, by=by, note="stopped by hand")
    return True


def _open(booking: Booking, now: datetime) -> None:
    """By hand, or without a leader: claim and start in one go. The loop starts through `scheduling.leader.dispatch`."""
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
    elif booking.next_attempt_at is None or now >= booking.next_attempt_at:
        booking.move(State.STARTING, now=now, note=f"attempt {booking.attempts + 1}", attempts=booking.attempts + 1)


def _bring_up(booking: Booking, now: datetime) -> None:  # noqa: C901  a branch for each thing a start can meet
    if now >= booking.closes_at:
        _end_window(booking, now)
        return
    workload = workloads.latest(booking.owner)
    if workload is None or (workload.is_over and workload.created_at < booking.state_since_at):
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
        # Nobody looks after it there: its own deadline would have ended it by now.
        _wait_to_retry(booking, f"{workload.node.name} does not bring it up", now)


def _expected_from(booking: Booking) -> datetime:
    """A worker that is up before the window opens waits; only then a picture is to be expected."""
    return max(booking.state_since_at, booking.opens_at)


def is_really_recording(workload: Workload) -> bool:
    """Frames alone are a promise (the encoder holds them back), and bytes may be a predecessor's: a recording is a
    signal, and bytes in the part that is being written."""
    status = workload.status(CaptureStatus)
    return status.signal and any(part.bytes and not part.ended_at for part in status.parts)


def _predecessor_lingers(booking: Booking, now: datetime) -> bool:
    """One writer at a time: give an ended worker that can still be reached a moment to be gone for certain."""
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
            resolve_alert(f"{trouble}:{booking.owner}", now=now, note="it records")
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
    """The worker ended and the window is open: a full disk or its own end time is the end, all else is a retry.

    So is a disk that was full before the first byte: another node may have room.
    Its clock may be a moment ahead of ours, so its own end time may come before the window closes for us.
    """
    if workload is not None:
        copy_progress(booking, workload)
        if workload.exit_reason == "disk_full" and booking.size_bytes:
            _alert(booking, "disk_full", f"{booking}: the disk is full", workload.error, now, Severity.CRITICAL)
            booking.move(State.STOPPING, now=now, note="the disk is full", outcome="disk_full")
            workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="the disk is full")
            return
        parts = workload.status(CaptureStatus).parts
        if parts and parts[-1].end_reason == "ended" and now >= booking.closes_at - CLOCK_TOLERANCE:
            _end_window(booking, now)
            return
    error = (workload.error or workload.exit_reason) if workload else "the worker is gone"
    _wait_to_retry(booking, error, now)


def _wait_to_retry(booking: Booking, error: str, now: datetime) -> None:
    """R-07: again and again until the window ends, every error kept."""
    failures = _failures_in_a_row(booking)
    wait = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]
    if booking.state == State.RECORDING:
        wait = 0  # a picture was there a moment ago: every second counts
    elif now < booking.opens_at:
        wait = 1  # the predecessor may still hold what this one needs; patience begins when the window opens
    errors = [*booking.errors, {"at": now.isoformat(), "attempt": booking.attempts, "error": error}][-200:]
    with transaction.atomic():
        moved = booking.move(
            State.RETRY_WAIT, now=now, note=error, errors=errors, next_attempt_at=now + timedelta(seconds=wait)
        )
        if not moved:
            return
        workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="its successor takes over")
        wake_scheduler()  # the loop does not know of this moment
        if now >= booking.opens_at:  # before that there is still time
            _alert(booking, "not_starting", f"{booking} does not record", error, now, Severity.CRITICAL)
    logger.error("Recording interrupted or not started; trying again. booking=%s error=%s", booking.pk, error)


def _failures_in_a_row(booking: Booking) -> int:
    """How often it went wrong since it last recorded."""
    recorded = booking.events.filter(new=State.RECORDING).order_by("-at").values_list("at", flat=True).first()
    waits = booking.events.filter(new=State.RETRY_WAIT, at__gte=booking.opens_at)
    return waits.filter(at__gt=recorded).count() if recorded else waits.count()


def _end_window(booking: Booking, now: datetime) -> None:
    with transaction.atomic():
        # Somebody may extend it in this very moment: only a window that is still the one we read is over.
        same = Booking.objects.select_for_update().filter(pk=booking.pk, closes_at=booking.closes_at)
        if same.exists() and booking.move(State.STOPPING, now=now, note="end of window"):
            workloads.unwant(booking.owner, now=now, by=SCHEDULER, note="end of window")


def _bring_down(booking: Booking, now: datetime) -> None:
    """Wait for the worker to be gone, however long it takes; then say what came of it."""
    workloads.unwant(booking.owner, now=now, by=SCHEDULER)  # a crash may have come between the move and this
    workload = workloads.latest(booking.owner)
    if workload is not None and not workload.is_over:
        if booking.deadline_at and now > booking.deadline_at:
            deadline = now + Booking.DEADLINES[State.STOPPING]
            Booking.objects.filter(pk=booking.pk, state=booking.state).update(deadline_at=deadline)
            note = "It was told to stop and has not confirmed it."
            _alert(booking, "not_stopping", f"{booking} does not stop", note, now, Severity.CRITICAL)
        return
    with transaction.atomic():
        release(booking.owner, now=now)
        conclude(booking, workload, now)
        for trouble in ("not_stopping", "no_signal", "not_starting", "trouble", "disk_forecast", "preflight"):
            resolve_alert(f"{trouble}:{booking.owner}", now=now, note="it is over")


def _note_no_signal(booking: Booking, workload: Workload, now: datetime) -> None:
    """R-15: a lost source is not a node's fault. Tell people; the worker keeps trying by itself."""
    error = workload.status(CaptureStatus).error or "The source sends no picture."
    if not booking.errors or booking.errors[-1]["error"] != error:
        entry = {"at": now.isoformat(), "attempt": booking.attempts, "error": error}
        booking.errors = [*booking.errors, entry][-200:]
        Booking.objects.filter(pk=booking.pk).update(errors=booking.errors)
        logger.warning("No signal. booking=%s error=%s", booking.pk, error)
    _alert(booking, "no_signal", f"{booking}: no signal", error, now, Severity.CRITICAL)
    if booking.state == State.STARTING and booking.deadline_at and now > booking.deadline_at:
        Booking.objects.filter(pk=booking.pk).update(deadline_at=now + START_ALLOWANCE)


def _alert(booking: Booking, kind: str, title: str, text: str, now: datetime, severity: Severity) -> None:
    raise_alert(
        f"{kind}:{booking.owner}",
        title,
        now=now,
        severity=severity,
        text=text,
        subject=booking.owner,
        project=booking.recorder.project,
    )
