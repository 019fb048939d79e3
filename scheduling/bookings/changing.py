"""Change an existing booking, also a running one: extend, shorten, move, cancel, skip, restore (R-10, R-12)."""

from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from nodes import workloads
from nodes.machines.ports import PortTaken, release, reserve_times
from scheduling.bookings import padding
from scheduling.bookings.batch import first_preflight
from scheduling.bookings.making import (
    BookingRefused,
    lock,
    refusal,
    refuse_odd_times,
    refuse_overlap,
    refuse_switched_off,
    reserve_port,
)
from scheduling.bookings.occupancy import Occupancy
from scheduling.models import Booking, Schedule
from station.actions import Refusal
from station.alerts import resolve_alert
from station.clock import house_time
from station.database.notify import wake_for, wake_scheduler

State = Booking.State
RUNNING = (State.STARTING, State.RETRY_WAIT, State.RECORDING)


class NotPossible(Refusal):
    """The booking's state does not allow the action; the text names the state."""


def extend(booking: Booking, by_seconds: float, *, now: datetime, by: str) -> Booking:
    """Move the end later, or earlier with a negative number."""
    return change_end(booking, booking.ends_at + timedelta(seconds=by_seconds), now=now, by=by)


def change_end(booking: Booking, ends_at: datetime, *, now: datetime, by: str) -> Booking:
    """Set a new end, also while recording: the media worker gets the new end and records on without a break."""
    _reread(booking)
    _check_end(booking, ends_at, now)
    before = booking.ends_at
    _rewrite(booking, booking.starts_at, ends_at, now)
    word = "extended" if ends_at > before else "shortened"
    booking.remark(f"{word} from {house_time(before)} to {house_time(ends_at)}", now=now, by=by)
    return booking


def move_window(booking: Booking, starts_at: datetime, ends_at: datetime, *, now: datetime, by: str) -> Booking:
    """Set a new start and end for a booking that is still planned."""
    _reread(booking)
    _check_move(booking, starts_at, ends_at, now)
    before = f"{house_time(booking.starts_at)} to {house_time(booking.ends_at)}"
    _rewrite(booking, starts_at, ends_at, now)
    booking.remark(f"moved from {before} to {house_time(starts_at)} to {house_time(ends_at)}", now=now, by=by)
    return booking


def check_change(booking: Booking, starts_at: datetime, ends_at: datetime, *, now: datetime) -> None:
    """Whether the booking could have this window now; changes nothing. Raises NotPossible or BookingRefused."""
    _reread(booking)
    if starts_at != booking.starts_at:
        _check_move(booking, starts_at, ends_at, now)
    elif ends_at != booking.ends_at:
        _check_end(booking, ends_at, now)
    else:
        return
    booking.starts_at, booking.ends_at = starts_at, ends_at
    refuse_overlap(booking)


def _reread(booking: Booking) -> None:
    """Read it again. An edit of its schedule may have deleted it."""
    try:
        booking.refresh_from_db()
    except Booking.DoesNotExist as error:
        raise NotPossible(f"{booking} has just been deleted.") from error


def _check_end(booking: Booking, ends_at: datetime, now: datetime) -> None:
    if booking.state not in {State.PLANNED, State.ARMED, *RUNNING}:
        raise NotPossible(f"{booking} is {booking.state_word}, so its end cannot be changed.")
    refuse_odd_times(booking.starts_at, ends_at)
    if ends_at <= now:
        raise BookingRefused(f"{house_time(ends_at)} is in the past. To end the recording now, stop it.")


def _check_move(booking: Booking, starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    if booking.state != State.PLANNED:
        raise NotPossible(f"{booking} is {booking.state_word}, so its start cannot be changed.")
    refuse_odd_times(starts_at, ends_at)
    if ends_at <= now:
        raise BookingRefused("That window is in the past.")


def _rewrite(booking: Booking, starts_at: datetime, ends_at: datetime, now: datetime) -> None:
    """Write a new window, its padding, port times and media worker end; or raise BookingRefused and change nothing."""
    old = (booking.starts_at, booking.ends_at, booking.opens_at, booking.closes_at)
    try:
        with transaction.atomic():
            lock(booking.recorder_id)
            booking.starts_at, booking.ends_at = starts_at, ends_at
            near = _free_around(booking)
            opens_at, closes_at = padding.fit(booking, near)
            if booking.state != State.PLANNED:
                opens_at = booking.opens_at
            padding.make_room(booking, opens_at, closes_at, near, now)
            changes: dict[str, Any] = {"starts_at": starts_at, "ends_at": ends_at, "is_edited": True}
            changes |= {"opens_at": opens_at, "closes_at": closes_at}
            if booking.state in {State.PLANNED, State.ARMED}:
                changes["deadline_at"] = closes_at
            rows = Booking.objects.filter(pk=booking.pk, state=booking.state, state_since_at=booking.state_since_at)
            if booking.state == State.PLANNED:
                rows.update(next_preflight_at=first_preflight(starts_at, now))
            if not rows.update(**changes):
                raise BookingRefused(f"{booking} has just changed. Check it and try again.")
            booking.opens_at, booking.closes_at = opens_at, closes_at
            reserve_times(booking.owner, starts_at=opens_at, ends_at=closes_at)
            workloads.set_end(booking.owner, closes_at)
            if ends_at < old[1] or starts_at > old[0]:
                padding.give_back_all(booking.recorder_id, now)
            wake_for(min(opens_at, closes_at), now)
    except (BookingRefused, IntegrityError, PortTaken) as error:
        booking.starts_at, booking.ends_at = starts_at, ends_at
        reason = refusal(booking) if isinstance(error, IntegrityError) else error
        booking.starts_at, booking.ends_at, booking.opens_at, booking.closes_at = old
        if isinstance(reason, BookingRefused):
            raise reason from error
        raise BookingRefused(str(reason)) from error


def _free_around(booking: Booking) -> Occupancy:
    """The bookings around its window, none of them in the way; or raise BookingRefused."""
    near = Occupancy.around(booking)
    if near.in_the_way(booking):
        raise refusal(booking)
    return near


def cancel(booking: Booking, *, now: datetime, by: str) -> bool:
    """Cancel the booking; if it is running, stop its media worker. The files stay."""
    while not booking.is_over and booking.state != State.CANCELLING:
        with transaction.atomic():
            lock(booking.recorder_id)
            if booking.state in {State.PLANNED, State.ARMED}:
                moved = booking.move(State.CANCELLED, now=now, by=by, note="cancelled before it started")
                if moved:
                    _release_resources(booking, now)
            elif booking.may_move(State.CANCELLING):
                moved = booking.move(State.CANCELLING, now=now, by=by, note="cancelled while it was running")
                if moved:
                    workloads.unwant(booking.owner, now=now, by=by, note="cancelled")
                    wake_scheduler()
            else:
                return False
        if moved:
            return True
        _reread(booking)  # another process changed its state: try again in the new state
    return False


def skip(
    booking: Booking,
    *,
    now: datetime,
    by: str,
    reason: str = Booking.Skip.BY_HAND,
    note: str = "skipped by hand",
) -> bool:
    """Skip this booking. If a person skips one of a schedule, the rule gets an exception, so that it stays skipped."""
    if booking.state not in {State.PLANNED, State.ARMED}:
        raise NotPossible(f"{booking} is {booking.state_word}, so it can no longer be skipped. Cancel or stop it.")
    with transaction.atomic():
        lock(booking.recorder_id)
        if not booking.move(State.SKIPPED, now=now, by=by, note=note, skip_reason=reason):
            return False
        _release_resources(booking, now)
        if reason == Booking.Skip.BY_HAND and booking.schedule_id and booking.local_start:
            schedule = Schedule.objects.select_for_update().get(pk=booking.schedule_id)
            schedule.exceptions = sorted({*schedule.exceptions, booking.local_start})
            schedule.save(update_fields=["exceptions"])
    return True


def restore(booking: Booking, *, now: datetime, by: str) -> None:
    """Plan a skipped or cancelled booking again if its window is still free, or raise NotPossible or BookingRefused."""
    if booking.state not in {State.SKIPPED, State.CANCELLED} or booking.attempts:
        raise NotPossible(f"{booking} is {booking.state_word}, so it cannot be restored.")
    if booking.ends_at <= now:
        raise NotPossible(f"The window of {booking} is in the past.")
    try:
        with transaction.atomic():
            lock(booking.recorder_id)
            refuse_switched_off(booking.recorder)
            near = _free_around(booking)
            opens_at, closes_at = padding.fit(booking, near)
            padding.make_room(booking, opens_at, closes_at, near, now)
            changes = {"opens_at": opens_at, "closes_at": closes_at, "deadline_at": closes_at}
            preflight = first_preflight(booking.starts_at, now)
            if not booking.move(
                State.PLANNED, now=now, by=by, note="restored", skip_reason="", next_preflight_at=preflight, **changes
            ):
                raise NotPossible(f"{booking} has just changed. Check it and try again.")
            reserve_port(booking)
            if booking.schedule_id and booking.local_start:
                schedule = Schedule.objects.select_for_update().get(pk=booking.schedule_id)
                schedule.exceptions = [each for each in schedule.exceptions if each != booking.local_start]
                schedule.save(update_fields=["exceptions"])
            resolve_alert(f"skipped:{booking.owner}", now=now, by=by, note="restored")
            wake_for(opens_at, now)
    except IntegrityError as error:
        raise refusal(booking) from error
    except PortTaken as error:
        raise BookingRefused(str(error)) from error


def _release_resources(booking: Booking, now: datetime) -> None:
    release(booking.owner, now=now)
    padding.give_back(booking, now)
    resolve_alert(f"preflight:{booking.owner}", now=now, note="the booking was cancelled or skipped")
