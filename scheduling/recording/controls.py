"""Start and Stop by hand: write the intent, then reconcile that one workload in this very request and tell the outcome.

Works without any scheduler running; with one, both do the same and the database lets only one of them do it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from nodes import workloads
from nodes.models import Workload
from nodes.workloads.reconcile import reconcile
from scheduling.bookings.changing import cancel, extend, move_window
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.recording.lifecycle import advance, request_stop
from station import audit
from station.clock import database_now, house_time, spoken
from worker.wire.status import CaptureStatus

State = Booking.State
SHORTEST = timedelta(seconds=10)


@dataclass(frozen=True)
class Outcome:
    """What to tell the person. `is_good` decides the colour of the message."""

    is_good: bool
    text: str
    booking: Booking | None = None


def running_booking(recorder: Recorder) -> Booking | None:
    """What this recorder is busy with now."""
    return Booking.objects.active().filter(recorder=recorder).select_related("recorder", "recorder__project").first()


def start_now(recorder: Recorder, *, by: str, length: timedelta | None = None) -> Outcome:
    """Record from now on, at most RECORD_NOW_MAX; without a length at most until the next booking starts."""
    now = database_now()
    if length is None:
        length = _until_next(recorder, now)
    length = min(length, settings.RECORD_NOW_MAX)
    title = f"{recorder} by hand"
    try:
        booking = book(recorder, now, now + length, now=now, by=by, title=title[:120], is_manual=True)
    except BookingRefused as refusal:
        audit.record(by, "start refused", recorder, note=str(refusal))
        return Outcome(False, f"Not started. {refusal}", refusal.winner)
    audit.record(by, "start", recorder, after={"booking": booking.pk, "ends_at": booking.ends_at.isoformat()})
    _drive(booking, lambda: booking.state not in {State.PLANNED, State.ARMED, State.STARTING})
    return _tell_start(booking)


def _until_next(recorder: Recorder, now: datetime) -> timedelta:
    """As long as allowed, or as long as the next booking leaves; somebody at the button wants a picture now."""
    upcoming = Booking.objects.before_start().filter(recorder=recorder, starts_at__gt=now).order_by("starts_at").first()
    if upcoming is None or upcoming.starts_at - now < SHORTEST:
        return settings.RECORD_NOW_MAX
    return upcoming.starts_at - now


def start_early(booking: Booking, *, by: str) -> Outcome:
    """Start a planned booking at once instead of at its time; it keeps its end."""
    with transaction.atomic():  # a refusal leaves its padding as it was
        Booking.objects.filter(pk=booking.pk, state=State.PLANNED).update(pad_before_seconds=0)
        move_window(booking, database_now(), booking.ends_at, now=database_now(), by=by)
    _drive(booking, lambda: booking.state not in {State.PLANNED, State.ARMED, State.STARTING})
    return _tell_start(booking)


def extend_booking(booking: Booking, minutes: float, *, by: str) -> None:
    """Let it end later, and tell a running worker in this very request: its old end may be seconds away."""
    extend(booking, minutes * 60, now=database_now(), by=by)
    workload = workloads.latest(booking.owner)
    if workload is not None and not workload.is_over:
        reconcile(workload.pk)


def cancel_booking(booking: Booking, *, by: str) -> bool:
    """It shall not be; if it runs, its worker is ended in this very request as far as it answers in time."""
    if not cancel(booking, now=database_now(), by=by):
        return False
    if booking.state == State.CANCELLING:
        _drive(booking, lambda: booking.is_over)
    return True


def stop_now(recorder: Recorder, *, by: str) -> Outcome:
    """End what this recorder records. The file is kept."""
    booking = running_booking(recorder)
    if booking is None:
        return Outcome(False, f"{recorder} is not recording.")
    return stop_booking(booking, by=by)


def stop_booking(booking: Booking, *, by: str) -> Outcome:
    before = booking.state
    while booking.state not in {State.STOPPING, State.CANCELLING}:
        if booking.is_over or booking.state in {State.PLANNED, State.ARMED}:
            return Outcome(False, f"{booking} is not running: {booking.state_word}.", booking)
        if not request_stop(booking, now=database_now(), by=by):
            booking.refresh_from_db()  # somebody moved it in this moment: look again, the stop stands
    audit.record(by, "stop", booking.recorder, before={"state": before}, after={"state": booking.state})
    _drive(booking, lambda: booking.is_over)
    if not booking.is_over:
        return Outcome(False, f"{booking} is told to stop; it has not confirmed it yet. Airlock keeps trying.", booking)
    is_good = booking.state == State.COMPLETED
    if not booking.size_bytes:
        return Outcome(is_good, f"Stopped. {booking}: nothing had been recorded.", booking)
    count = "1 part" if len(booking.parts) == 1 else f"{len(booking.parts)} parts"
    size = f"{booking.size_bytes / 1e6:.1f} MB in {count}, folder {booking.folder}"
    return Outcome(is_good, f"Stopped. {booking}: {booking.state_word}, {size}.", booking)


def _drive(booking: Booking, is_done: Callable[[], bool]) -> None:
    """Reconcile and advance this one booking until it is where it should be or the person has waited enough."""
    deadline = time.monotonic() + settings.MANUAL_WAIT_SECONDS
    while True:
        advance(booking, database_now())
        workload = workloads.latest(booking.owner)
        if workload is not None:
            reconcile(workload.pk)
            booking.refresh_from_db()
            advance(booking, database_now())
        booking.refresh_from_db()
        if is_done() or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if booking.is_over:
        _clean_up(booking)


def _clean_up(booking: Booking) -> None:
    """Forget the ended containers at once, so that no scheduler is needed for a tidy node."""
    for workload in Workload.objects.to_look_at().filter(owner=booking.owner):
        reconcile(workload.pk)


def sentence(text: str) -> str:
    """Closed with a full stop, so that another sentence can follow."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _tell_start(booking: Booking) -> Outcome:
    workload = workloads.latest(booking.owner)
    where = f" on {workload.node}" if workload else ""
    if booking.state == State.RECORDING:
        first = booking.first_frame_at or booking.starts_at
        took = max(0.0, (first - booking.starts_at).total_seconds())
        until = house_time(booking.ends_at)
        return Outcome(True, f"{booking} records{where}; first frame after {took:.1f} s. It ends {until}.", booking)
    if booking.state == State.RETRY_WAIT:
        error = booking.errors[-1]["error"] if booking.errors else "unknown"
        left = spoken((booking.closes_at - booking.starts_at).total_seconds())
        return Outcome(False, f"{booking} could not start: {sentence(error)} Airlock tries again for {left}.", booking)
    if workload is not None and workload.state == Workload.State.RUNNING:
        error = workload.status(CaptureStatus).error or "no picture from the source yet"
        text = f"{booking} is up{where} and waits for a signal: {sentence(error)} It keeps trying."
        return Outcome(False, text, booking)
    word = booking.state_word
    reason = f" ({workload.error})" if workload and workload.error else ""
    return Outcome(False, f"{booking} is still {word}{where}{reason}; Airlock keeps at it.", booking)
