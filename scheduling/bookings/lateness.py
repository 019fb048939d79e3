"""Decides whether a late booking may still start, by its policy; otherwise it is missed or skipped, with an alert."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from nodes.machines.ports import release
from nodes.models import Reservation
from scheduling.models import Booking
from station.alerts import raise_alert, resolve, resolve_alert
from station.alerts.summaries import Case, raise_together
from station.clock import house_time, spoken
from station.models.alert import Alert, Severity
from station.states import SCHEDULER

State = Booking.State
ON_TIME_SECONDS = 1.0


def why_too_late(booking: Booking, now: datetime) -> tuple[str, str] | None:
    """(state, reason) if it may no longer start (R-05, R-06), otherwise None."""
    if now >= booking.closes_at:
        return State.MISSED, f"its window closed at {house_time(booking.closes_at)} before it could be started"
    late = (now - booking.opens_at).total_seconds()
    if late <= ON_TIME_SECONDS:
        return None
    left = (booking.ends_at - now).total_seconds()  # post-roll alone does not count
    if left < booking.useful_seconds:
        return State.MISSED, f"only {spoken(max(0.0, left))} of its window was left when it could be started"
    if booking.late_start == Booking.Late.SKIP:
        return State.SKIPPED, f"{spoken(late)} late, and late starts are skipped by its policy"
    if booking.max_late_seconds is not None and late > booking.max_late_seconds:
        return State.SKIPPED, f"{spoken(late)} late, more than the {spoken(booking.max_late_seconds)} allowed"
    return None


def give_up(booking: Booking, state: str, reason: str, now: datetime) -> bool:
    """Move it to missed or skipped, with the reason and an alert in the same transaction."""
    with transaction.atomic():
        changes = {"skip_reason": Booking.Skip.LATE} if state == State.SKIPPED else {}
        if not booking.move(state, now=now, note=reason, **changes):
            return False
        release(booking.owner, now=now)
        resolve_alert(f"preflight:{booking.owner}", now=now, note=reason)
        case = _case(booking, state, reason)
        raise_alert(
            case.key,
            case.title,
            now=now,
            severity=Severity.CRITICAL,
            text=reason,
            subject=case.subject,
            project=case.project,
        )
    return True


def give_up_late(late: Sequence[Booking], now: datetime) -> set[int]:
    """Give up those of the late bookings that may no longer start; returns the ids of those that were.

    All in a few statements, however many: after an outage there may be thousands. Locked rows are left as they are.
    """
    verdicts = {booking.pk: why_too_late(booking, now) for booking in late}
    groups: dict[tuple[str, str], list[Booking]] = {}
    for booking in late:
        if verdict := verdicts[booking.pk]:
            groups.setdefault((booking.state, verdict[0]), []).append(booking)
    given_up: set[int] = set()
    for (old, state), bookings in groups.items():
        notes = [verdict[1] for booking in bookings if (verdict := verdicts[booking.pk])]
        given_up |= _give_up_group(bookings, old, state, notes, now)
    return given_up


def _give_up_group(bookings: Sequence[Booking], old: str, state: str, notes: Sequence[str], now: datetime) -> set[int]:
    changes = {"skip_reason": f"'{Booking.Skip.LATE}'"} if state == State.SKIPPED else {}
    with transaction.atomic():
        pks = [booking.pk for booking in bookings]
        moved = set(
            Booking.move_batch(pks, old, state, now=now, note=notes, changes=changes, is_durable=True, skip_locked=True)
        )
        given_up = [(booking, note) for booking, note in zip(bookings, notes, strict=True) if booking.pk in moved]
        owners = [booking.owner for booking, _ in given_up]
        Reservation.objects.standing().filter(owner__in=owners).update(released_at=now)
        for alert in Alert.objects.filter(key__in=[f"preflight:{owner}" for owner in owners]):
            resolve(alert, now=now, by=SCHEDULER, note="its booking was given up")
        word = "missed" if state == State.MISSED else "skipped"
        raise_together(
            state,
            [_case(booking, state, note) for booking, note in given_up],
            now=now,
            severity=Severity.CRITICAL,
            many=f"{{count}} bookings were {word}",
            text="They could not be started in time. Was the scheduler or the database unavailable?",
        )
    return moved


def _case(booking: Booking, state: str, reason: str) -> Case:
    word = "was missed" if state == State.MISSED else "was skipped"
    return Case(f"{state}:{booking.owner}", f"{booking} {word}", reason, booking.owner, booking.recorder.project)
