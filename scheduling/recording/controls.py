"""Start, Stop, Extend and Cancel by hand: write the intent, then drive that one booking in the same request.

They work without a scheduler. With one, both try the same steps, and the database lets only one of them take each.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from nodes import workloads
from nodes.models import Workload
from nodes.workloads.reconcile import reconcile
from scheduling.bookings import changing
from scheduling.bookings.controls import BEFORE, OPERATE
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.recording.lifecycle import request_stop
from scheduling.recording.loop_step import advance_and_tell
from station.actions import Outcome, action, changed_meanwhile, done, nothing, refused
from station.clock import database_now, house_time, spoken
from worker.wire.status import CaptureStatus

State = Booking.State
SHORTEST = timedelta(seconds=10)
ENDING = (State.STOPPING, State.CANCELLING)


def running_booking(recorder: Recorder) -> Booking | None:
    """The booking that this recorder is busy with now."""
    return Booking.objects.active().filter(recorder=recorder).select_related("recorder", "recorder__project").first()


@action("start", "Start", permission=OPERATE)
def start_now(recorder: Recorder, *, now: datetime, by: str, length: timedelta | None = None) -> Outcome:
    """Record from now on, at most for RECORD_NOW_MAX; without a length, at most until the next booking starts."""
    if length is None:
        length = _until_next(recorder, now)
    length = min(length, settings.RECORD_NOW_MAX)
    title = f"{recorder} by hand"
    try:
        booking = book(recorder, now, now + length, now=now, by=by, title=title[:120], is_manual=True)
    except BookingRefused as refusal:
        return refused(f"Not started. {refusal}", target=refusal.winner)
    _drive(booking, lambda: booking.state not in {*BEFORE, State.STARTING})
    return _tell_start(booking)


def _until_next(recorder: Recorder, now: datetime) -> timedelta:
    """Until the next booking, or RECORD_NOW_MAX.

    A gap shorter than SHORTEST is no use: the full length is asked for, and the refusal names the next booking.
    """
    upcoming = Booking.objects.before_start().filter(recorder=recorder, starts_at__gt=now).order_by("starts_at").first()
    if upcoming is None or upcoming.starts_at - now < SHORTEST:
        return settings.RECORD_NOW_MAX
    return upcoming.starts_at - now


@action("start early", "Start now", permission=OPERATE, states=(State.PLANNED,))
def start_early(booking: Booking, *, now: datetime, by: str) -> Outcome:
    """Start a planned booking at once instead of at its time; it keeps its end."""
    with transaction.atomic():  # a refusal must not change the padding
        Booking.objects.filter(pk=booking.pk, state=State.PLANNED).update(pad_before_seconds=0)
        changing.move_window(booking, now, booking.ends_at, now=now, by=by)
    _drive(booking, lambda: booking.state not in {*BEFORE, State.STARTING})
    return _tell_start(booking)


@action("extend", "Extend", permission=OPERATE, states=(*BEFORE, *changing.RUNNING))
def extend_booking(booking: Booking, *, now: datetime, by: str, minutes: float) -> Outcome:
    """Set a later end and send it to the media worker in the same request: the old end may be seconds away."""
    changing.extend(booking, minutes * 60, now=now, by=by)
    workload = workloads.latest(booking.owner)
    if workload is not None and not workload.is_over:
        reconcile(workload.pk)
    details = {"ends_at": booking.ends_at.isoformat()}
    return done(f"{booking} now ends {house_time(booking.ends_at)}.", details=details)


@action("cancel", "Cancel", permission=OPERATE, states=(*BEFORE, *changing.RUNNING))
def cancel_booking(booking: Booking, *, now: datetime, by: str) -> Outcome:
    """Cancel it. If it is running, its media worker is stopped in the same request, if it answers in time."""
    if not changing.cancel(booking, now=now, by=by):
        return changed_meanwhile(booking)
    if booking.state == State.CANCELLING:
        _drive(booking, lambda: booking.is_over)
    return done(f"{booking} is {booking.state_word}.")


@action("stop", "Stop", permission=OPERATE)
def stop_now(recorder: Recorder, *, now: datetime, by: str) -> Outcome:
    """End what this recorder records. The file is kept."""
    booking = running_booking(recorder)
    if booking is None:
        return nothing(f"{recorder} is not recording.")
    return _stop(booking, by=by)


@action("stop", "Stop", permission=OPERATE, states=changing.RUNNING)
def stop_booking(booking: Booking, *, now: datetime, by: str) -> Outcome:
    return _stop(booking, by=by)


def _stop(booking: Booking, *, by: str) -> Outcome:
    """Stop it, and say so only if this request did. A stop that was asked for earlier is followed to its end."""
    is_ours = booking.state in ENDING
    while booking.state not in ENDING:
        if booking.is_over or booking.state in BEFORE:
            word = booking.state_word
            return nothing(f"{booking} is not running: {word}.", target=booking, reason=word)
        is_ours = request_stop(booking, now=database_now(), by=by)
        if not is_ours:
            booking.refresh_from_db()  # its state has just changed: check again, the stop still applies
    _drive(booking, lambda: booking.is_over)
    outcome = _tell_stop(booking)
    return outcome if is_ours else nothing(f"It was being stopped already. {outcome.text}", target=booking)


def _tell_stop(booking: Booking) -> Outcome:
    if not booking.is_over:
        text = f"{booking} was asked to stop and has not confirmed it yet. Airlock keeps trying."
        return done(text, target=booking, needs_attention=True)
    more: dict[str, Any] = {"target": booking, "needs_attention": booking.state != State.COMPLETED}
    more["details"] = {"booking": booking.pk, "outcome": booking.state}
    if not booking.size_bytes:
        return done(f"Stopped. {booking}: nothing had been recorded.", **more)
    count = "1 part" if len(booking.parts) == 1 else f"{len(booking.parts)} parts"
    size = f"{booking.size_bytes / 1e6:.1f} MB in {count}, folder {booking.folder}"
    return done(f"Stopped. {booking}: {booking.state_word}, {size}.", **more)


def _drive(booking: Booking, is_done: Callable[[], bool]) -> None:
    """Reconcile and advance this one booking until it is done, at most for MANUAL_WAIT_SECONDS."""
    deadline = time.monotonic() + settings.MANUAL_WAIT_SECONDS
    while True:
        advance_and_tell(booking, database_now())
        workload = workloads.latest(booking.owner)
        if workload is not None:
            reconcile(workload.pk)
            booking.refresh_from_db()
            advance_and_tell(booking, database_now())
        booking.refresh_from_db()
        if is_done() or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if booking.is_over:
        _clean_up(booking)


def _clean_up(booking: Booking) -> None:
    """Remove the ended containers at once, so that it also happens without a scheduler."""
    for workload in Workload.objects.to_look_at().filter(owner=booking.owner):
        reconcile(workload.pk)


def sentence(text: str) -> str:
    """The text with a full stop at its end, so that another sentence can follow."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _tell_start(booking: Booking) -> Outcome:
    workload = workloads.latest(booking.owner)
    where = f" on {workload.node}" if workload else ""
    more: dict[str, Any] = {"target": booking}
    more["details"] = {"booking": booking.pk, "ends_at": booking.ends_at.isoformat()}
    if booking.state == State.RECORDING:
        first = booking.first_frame_at or booking.starts_at
        took = max(0.0, (first - booking.starts_at).total_seconds())
        until = house_time(booking.ends_at)
        return done(f"{booking} is recording{where} (first frame after {took:.1f} s). It ends {until}.", **more)
    more["needs_attention"] = True
    if booking.state == State.RETRY_WAIT:
        error = booking.errors[-1]["error"] if booking.errors else "unknown"
        left = spoken((booking.closes_at - booking.starts_at).total_seconds())
        return done(f"{booking} could not start: {sentence(error)} Airlock tries again for {left}.", **more)
    if workload is not None and workload.state == Workload.State.RUNNING:
        error = workload.status(CaptureStatus).error or "no picture from the source yet"
        return done(f"{booking} is running{where} and waiting for a signal: {sentence(error)} It keeps trying.", **more)
    word = booking.state_word
    reason = f" ({workload.error})" if workload and workload.error else ""
    return done(f"{booking} is still {word}{where}{reason}; Airlock keeps trying.", **more)
