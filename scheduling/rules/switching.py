"""Switches a recorder off and on again, with its planned bookings (R-27). What is recording now continues."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db import models, transaction

from scheduling.bookings.making import lock
from scheduling.bookings.many import restore_all, skip_all
from scheduling.models import Booking, Recorder, Schedule
from scheduling.models.booking import BookingQuerySet
from scheduling.rules.planning import tell_skipped
from station.clock import house_time
from station.database.notify import wake_scheduler

State, Skip = Booking.State, Booking.Skip
NOTE = "the recorder is switched off"
SHOWN = 3


class Planned(models.TextChoices):
    """What happens to the planned bookings of a recorder that is switched off."""

    KEEP = "keep", "Keep them: they are recorded although the recorder is off"
    SKIP = "skip", "Skip them"


@dataclass
class SwitchedOff:
    """What was done to the bookings. `running` includes those that started while the others were skipped."""

    skipped: int = 0
    kept: list[Booking] = field(default_factory=list)
    running: list[Booking] = field(default_factory=list)


@dataclass
class SwitchedOn:
    """`restored`: planned again. `taken`: their window is not free any more."""

    restored: int = 0
    taken: list[Booking] = field(default_factory=list)


def planned_bookings(recorder: Recorder, now: datetime) -> BookingQuerySet:
    """The planned and armed bookings that are not over, the next one first."""
    return Booking.objects.before_start().filter(recorder=recorder, ends_at__gt=now).order_by("starts_at", "pk")


def named(bookings: list[Booking]) -> str:
    """“News” (18 Nov 20:00), …: the first three."""
    shown = ", ".join(f"“{booking}” ({house_time(booking.starts_at)})" for booking in bookings[:SHOWN])
    return f"{shown} …" if len(bookings) > SHOWN else shown


def counted(count: int) -> str:
    return "1 booking is" if count == 1 else f"{count} bookings are"


def switch_off(recorder: Recorder, *, now: datetime, by: str, planned: str) -> SwitchedOff:
    """Make no new bookings; keep or skip the planned ones. A booking that has just started is not stopped."""
    result = SwitchedOff()
    with transaction.atomic():
        lock(recorder.pk)
        Recorder.objects.filter(pk=recorder.pk).update(is_active=False)
        recorder.is_active = False
        if planned == Planned.SKIP:
            rows = planned_bookings(recorder, now)
            result.skipped = skip_all(rows, recorder.pk, now=now, by=by, reason=Skip.OFF, note=NOTE)
        result.kept = list(planned_bookings(recorder, now).select_related("recorder"))
        result.running = list(Booking.objects.active().filter(recorder=recorder).select_related("recorder"))
    return result


def switch_on(recorder: Recorder, *, now: datetime, by: str) -> SwitchedOn:
    """Plan again what switching off skipped, as far as a rule or a person still wants it and the window is free."""
    result = SwitchedOn()
    with transaction.atomic():
        lock(recorder.pk)
        Recorder.objects.filter(pk=recorder.pk).update(is_active=True)
        recorder.is_active = True
        # Windows that passed while it was off are not planned as missed.
        schedules = Schedule.objects.filter(recorder=recorder)
        schedules.filter(planned_until_at__lt=now).update(planned_until_at=None)
        schedules.update(plan_due_at=now)
        skipped = Booking.objects.filter(recorder=recorder, state=State.SKIPPED, skip_reason=Skip.OFF, ends_at__gt=now)
        # They wait for their schedule to be resumed.
        skipped.filter(schedule__is_paused=True).update(skip_reason=Skip.PAUSED)
        # The schedule of the others was deleted meanwhile, so nobody wants them any more.
        wanted = skipped.filter(models.Q(schedule__isnull=False) | models.Q(planned_start_at=None))
        bookings = list(wanted.order_by("starts_at"))
        planned, refused = restore_all(recorder, bookings, now=now, by=by)
        result.restored = len(planned)
        for booking, reason in refused:
            Booking.objects.filter(pk=booking.pk).update(skip_reason=Skip.CONFLICT)
            tell_skipped(booking, reason, now)
            result.taken.append(booking)
        wake_scheduler()
    return result
