"""Skips or restores all bookings of a rule or a recorder with a few statements (R-12, R-27).

The caller has queued for the recorder (`making.lock`). Whoever plans it waits as long as this takes, so the number of
statements does not grow with the number of bookings.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError, transaction

from nodes.machines.ports import PortTaken, release_all
from scheduling.bookings import padding
from scheduling.bookings.batch import Batch
from scheduling.bookings.changing import NotPossible, restore
from scheduling.bookings.making import BookingRefused, refusal
from scheduling.models import Booking, Recorder, Schedule
from scheduling.models.booking import BookingQuerySet
from station.alerts import resolve_alerts

State = Booking.State
Refused = tuple[Booking, str]  # a booking that stays skipped, and why


def skip_all(rows: BookingQuerySet, recorder_id: int, *, now: datetime, by: str, reason: str, note: str) -> int:
    """Skip those of the rows that have not started; returns how many."""
    owners: list[str] = []
    while found := list(rows.before_start()):
        moved = [pk for state in (State.PLANNED, State.ARMED) for pk in _move(found, state, now, by, reason, note)]
        owners += [booking.owner for booking in found if booking.pk in set(moved)]
        if len(moved) == len(found):
            break  # otherwise others were armed or started at this moment: decide again
    release_all(owners, now=now)
    resolve_alerts([f"preflight:{owner}" for owner in owners], now=now, note=note)
    padding.give_back_all(recorder_id, now)
    padding.give_back_to_running(recorder_id, now)
    return len(owners)


def _move(found: list[Booking], old: State, now: datetime, by: str, reason: str, note: str) -> list[int]:
    return Booking.move_batch(
        [booking.pk for booking in found if booking.state == old],
        old,
        State.SKIPPED,
        now=now,
        by=by,
        note=note,
        changes={"skip_reason": "%(reason)s"},
        values={"reason": reason},
        is_durable=True,
        is_prepared=False,
    )


def restore_all(
    recorder: Recorder, bookings: Sequence[Booking], *, now: datetime, by: str
) -> tuple[list[Booking], list[Refused]]:
    """Plan these skipped bookings again, in order of time; returns those that are planned, and those that are not."""
    try:
        with transaction.atomic():
            planned, left = _restore_together(recorder, bookings, now, by)
    except (IntegrityError, PortTaken):  # the database refused one of them, and so all
        return _restore_each(bookings, now, by)
    _forget_exceptions(planned)
    owners = [booking.owner for booking in planned]
    resolve_alerts([f"skipped:{owner}" for owner in owners], now=now, by=by, note="restored")
    return planned, [(booking, str(refusal(booking))) for booking in left]


def _restore_together(
    recorder: Recorder, bookings: Sequence[Booking], now: datetime, by: str
) -> tuple[list[Booking], list[Booking]]:
    batch = Batch(recorder, [(booking.starts_at, booking.ends_at) for booking in bookings], now)
    for booking in bookings:
        booking.recorder = recorder
        batch.place_again(booking)
    planned = batch.write_again(by)
    pks = {booking.pk for booking in planned}
    return planned, [booking for booking in bookings if booking.pk not in pks]


def _restore_each(bookings: Sequence[Booking], now: datetime, by: str) -> tuple[list[Booking], list[Refused]]:
    planned: list[Booking] = []
    refused: list[Refused] = []
    for booking in bookings:
        try:
            restore(booking, now=now, by=by)
            planned.append(booking)
        except (BookingRefused, NotPossible) as reason:
            refused.append((booking, str(reason)))
    return planned, refused


def _forget_exceptions(planned: list[Booking]) -> None:
    """A rule that excepts a booking that is planned again does so no longer."""
    starts: dict[int, set[str]] = {}
    for booking in planned:
        if booking.schedule_id is not None:
            starts.setdefault(booking.schedule_id, set()).add(booking.local_start)
    for schedule in Schedule.objects.filter(pk__in=starts).exclude(exceptions=[]).select_for_update():
        schedule.exceptions = [each for each in schedule.exceptions if each not in starts[schedule.pk]]
        schedule.save(update_fields=["exceptions"])
