"""Decides whether a late booking may still start, by its policy; otherwise it is missed or skipped, with an alert."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from nodes.machines.ports import release
from scheduling.models import Booking
from station.alerts import raise_alert, resolve_alert
from station.clock import house_time, spoken
from station.models.alert import Severity

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
        word = "was missed" if state == State.MISSED else "was skipped"
        raise_alert(
            f"{state}:{booking.owner}",
            f"{booking} {word}",
            now=now,
            severity=Severity.CRITICAL,
            text=reason,
            subject=booking.owner,
            project=booking.recorder.project,
        )
    return True


def give_up_late(pks: Sequence[int], now: datetime) -> list[int]:
    """Give up the late bookings that may no longer start; returns their ids."""
    gone = []
    for booking in Booking.objects.filter(pk__in=pks).select_related("recorder__project"):
        verdict = why_too_late(booking, now) if booking.state in {State.PLANNED, State.ARMED} else None
        if verdict is not None:
            give_up(booking, *verdict, now)
            gone.append(booking.pk)
    return gone
