"""Updates planned bookings when a schedule is edited, paused, resumed or deleted; running ones stay (R-12)."""

from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import transaction

from nodes.machines.ports import release_all
from scheduling.bookings import padding
from scheduling.bookings.making import draft, follow_rule, lock
from scheduling.bookings.many import restore_all, skip_all
from scheduling.models import Booking, Schedule
from scheduling.rules.planning import is_off, plan_ahead, tell_skipped
from scheduling.rules.recurrence import Occurrence, windows_between
from station.alerts import resolve_alerts
from station.clock import house_time
from station.database.notify import wake_scheduler

State = Booking.State
# Skipped by planning, a pause or a switched-off recorder, not by a person: after an edit the new rule decides again.
REPLANNED_SKIPS = (Booking.Skip.CONFLICT, Booking.Skip.PAUSED, Booking.Skip.OFF)
WINDOW = ("recorder_id", "starts_at", "ends_at", "pad_before_seconds", "pad_after_seconds")


@dataclass
class Changes:
    """The effect of an edit on the bookings, for the person who made it."""

    planned: int = 0
    moved: list[datetime] = field(default_factory=list)
    removed: list[datetime] = field(default_factory=list)
    conflicts: list[Booking] = field(default_factory=list)
    begun: list[Booking] = field(default_factory=list)
    by_hand: list[Booking] = field(default_factory=list)
    is_complete: bool = True
    off: str = ""  # the name of the recorder, if it is switched off

    def in_words(self) -> str:
        words = [f"none planned because {self.off} is switched off" if self.off else f"{self.planned} planned"]
        if self.moved:
            words.append(f"{len(self.moved)} changed ({_listed(self.moved)})")
        if self.removed:
            words.append(f"{len(self.removed)} removed ({_listed(self.removed)})")
        if self.conflicts:
            words.append(f"{len(self.conflicts)} skipped because the recorder is taken")
        if self.begun:
            words.append(f"{len(self.begun)} already started and not changed ({_listed_bookings(self.begun)})")
        if self.by_hand:
            words.append(f"{len(self.by_hand)} edited by hand and not changed ({_listed_bookings(self.by_hand)})")
        return ", ".join(words) + ("." if self.is_complete else "; the rest will be planned in the background.")


def replan(schedule: Schedule, now: datetime) -> Changes:
    """Update the planned bookings to the current rule; returns what changed."""
    changes = Changes()
    with transaction.atomic():
        existing = list(schedule.bookings.select_related("recorder").filter(planned_start_at__gt=now - schedule.length))
        for recorder_id in sorted({schedule.recorder_id, *(booking.recorder_id for booking in existing)}):
            lock(recorder_id)
        rule_says = {}
        if is_off(schedule):
            changes.off = str(schedule.recorder)
        if not schedule.is_paused:
            until = now + settings.PLAN_AHEAD
            rule_says = {each.starts_at: each for each in windows_between(schedule.rule, now - schedule.length, until)}
        obsolete: list[Booking] = []
        for booking in existing:
            assert booking.planned_start_at is not None
            window = rule_says.get(booking.planned_start_at)
            if booking.state in Booking.ACTIVE or booking.state == State.ARMED:
                changes.begun.append(booking)
            elif booking.state == State.PLANNED and booking.is_edited:
                changes.by_hand.append(booking)
            elif booking.state == State.PLANNED and (window is None or not _follows(booking, schedule, window)):
                obsolete.append(booking)
                (changes.moved if window and not changes.off else changes.removed).append(booking.starts_at)
            elif booking.state == State.SKIPPED and booking.skip_reason in REPLANNED_SKIPS:
                obsolete.append(booking)
        _delete_unstarted(obsolete, now)
        schedule.planned_until_at = None
        schedule.save(update_fields=["planned_until_at"])
        if not schedule.is_paused:
            _refresh_policies(schedule)
            plan = plan_ahead(schedule, now)
            changes.planned = max(0, len(plan.added) - len(changes.moved))
            changes.conflicts, changes.is_complete = plan.skipped, plan.is_complete
        wake_scheduler()
    return changes


def _follows(booking: Booking, schedule: Schedule, window: Occurrence) -> bool:
    """Does this booking have the window of the current rule?"""
    fresh = draft(schedule.recorder, window.starts_at, window.ends_at, now=window.starts_at, by="", title="")
    follow_rule(fresh, schedule, window)
    return all(getattr(fresh, name) == getattr(booking, name) for name in WINDOW)


def _refresh_policies(schedule: Schedule) -> None:
    """Copy the name and the policies to planned bookings; that needs no new booking."""
    schedule.bookings.filter(state=State.PLANNED).update(
        title=schedule.name,
        late_start=schedule.late_start,
        min_useful_seconds=schedule.min_useful_seconds,
        max_late_seconds=schedule.max_late_seconds,
    )


def _delete_unstarted(bookings: list[Booking], now: datetime) -> None:
    """Delete bookings that never started; the audit log of the schedule keeps a record."""
    states = [State.PLANNED, State.SKIPPED]
    owners = [booking.owner for booking in bookings]
    release_all(owners, now=now)
    for kind in ("preflight", "skipped"):
        resolve_alerts([f"{kind}:{owner}" for owner in owners], now=now, note="the schedule was edited")
    Booking.objects.filter(pk__in=[booking.pk for booking in bookings], state__in=states).delete()
    for recorder_id in {booking.recorder_id for booking in bookings}:
        padding.give_back_all(recorder_id, now)


def discard(schedule: Schedule, now: datetime) -> int:
    """Before the schedule is deleted: delete its planned bookings and keep those that started or ended."""
    with transaction.atomic():
        lock(schedule.recorder_id)
        planned = list(schedule.bookings.filter(state=State.PLANNED).select_related("recorder"))
        _delete_unstarted(planned, now)
        return len(planned)


def pause(schedule: Schedule, *, now: datetime, by: str) -> int | None:
    """Plan and start nothing until the schedule is resumed. Running recordings continue.

    Returns how many planned bookings are skipped, or None if the schedule was already paused.
    """
    with transaction.atomic():
        lock(schedule.recorder_id)
        if not Schedule.objects.filter(pk=schedule.pk, is_paused=False).update(is_paused=True):
            return None
        schedule.is_paused = True
        rows = schedule.bookings.filter(ends_at__gt=now)
        why = {"reason": Booking.Skip.PAUSED, "note": "the schedule is paused"}
        return skip_all(rows, schedule.recorder_id, now=now, by=by, **why)


def resume(schedule: Schedule, *, now: datetime, by: str) -> Changes | None:
    """Resume the schedule: bookings that the pause skipped are planned again if the recorder is still free.

    None if the schedule was not paused.
    """
    changes = Changes()
    with transaction.atomic():
        lock(schedule.recorder_id)
        if not Schedule.objects.filter(pk=schedule.pk, is_paused=True).update(is_paused=False, plan_due_at=now):
            return None
        schedule.refresh_from_db()
        paused = schedule.bookings.filter(state=State.SKIPPED, skip_reason=Booking.Skip.PAUSED, ends_at__gt=now)
        if is_off(schedule):
            paused.update(skip_reason=Booking.Skip.OFF)  # they are planned again when the recorder is switched on
            changes.off = str(schedule.recorder)
            return changes
        bookings = list(paused.order_by("starts_at"))
        planned, refused = restore_all(schedule.recorder, bookings, now=now, by=by)
        changes.planned = len(planned)
        for booking, reason in refused:
            Booking.objects.filter(pk=booking.pk).update(skip_reason=Booking.Skip.CONFLICT)
            tell_skipped(booking, reason, now)
            changes.conflicts.append(booking)
        # Windows that passed during the pause are not planned as missed.
        if schedule.planned_until_at is not None and schedule.planned_until_at < now:
            schedule.planned_until_at = now
        plan = plan_ahead(schedule, now)
        changes.planned += len(plan.added)
        changes.conflicts += plan.skipped
        changes.is_complete = plan.is_complete
    return changes


def _listed_bookings(bookings: list[Booking]) -> str:
    return ", ".join(f"booking {booking.pk}" for booking in bookings[:3])


def _listed(moments: list[datetime]) -> str:
    shown = ", ".join(house_time(moment) for moment in sorted(moments)[:3])
    return f"{shown} …" if len(moments) > 3 else shown
