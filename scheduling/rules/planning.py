"""Makes bookings from schedules up to a rolling horizon. Planning can be repeated at any time with the same result.

Only the rule decides what is planned, never the outcome of an earlier recording (R-09). The windows of a pass are
booked together (`bookings/batch`). A window that cannot be booked becomes a visible skipped booking with a reason and
an alert.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction

from nodes.machines.ports import PortTaken, release
from scheduling.bookings.batch import Batch
from scheduling.bookings.making import BookingRefused, book, draft, follow_rule, in_the_way, lock
from scheduling.bookings.occupancy import held
from scheduling.models import Booking, Recorder, Schedule
from scheduling.rules.recurrence import Occurrence, occurrences
from station.alerts import raise_alert, resolve_alert
from station.clock import house_time
from station.database.locks import is_busy
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact
from station.states import SCHEDULER

logger = logging.getLogger(__name__)

State = Booking.State
SCHEDULES_PER_TURN = 5
WINDOWS_PER_PASS = 200
# Planning shares the leader's thread with the other steps, so a pass ends in time on a slow machine too.
PASS_SECONDS = 0.2
BUSY_PAUSE = timedelta(seconds=2)
AT_LEAST_EVERY = timedelta(hours=1)
NEAR = timedelta(hours=6)
LEISURE = timedelta(seconds=3)
DUE_SQL = "SELECT min(plan_due_at) FROM scheduling_schedule WHERE NOT is_paused"


@dataclass
class Plan:
    """The result of planning one schedule."""

    added: list[Booking] = field(default_factory=list)
    skipped: list[Booking] = field(default_factory=list)
    is_complete: bool = True

    def __len__(self) -> int:
        return len(self.added) + len(self.skipped)

    def add(self, booking: Booking) -> None:
        (self.skipped if booking.state == State.SKIPPED else self.added).append(booking)


def step(term: Term, now: datetime) -> datetime | None:
    """Plan the schedules with new windows inside the horizon; a limited number each turn."""
    began = time.monotonic()
    for schedule in Schedule.objects.to_plan(now).select_related("recorder__project")[:SCHEDULES_PER_TURN]:
        if time.monotonic() - began > PASS_SECONDS:
            break  # the leader must send a heartbeat, and other steps must run
        try:
            plan_ahead(schedule, now)
        except OperationalError as error:
            if not is_busy(error):
                raise
            logger.warning("A schedule waits for its recorder, which somebody else changes. schedule=%s", schedule.pk)
            return now + BUSY_PAUSE
        except Exception as error:  # one broken schedule must not stop the others, and raises an alert
            logger.exception("A schedule could not be planned. schedule=%s", schedule.pk)
            _note_planning_error(schedule, redact(f"{type(error).__name__}: {error}"), now)
    due = Schedule.objects.filter(is_paused=False, plan_due_at__isnull=False).order_by("plan_due_at")
    return due.values_list("plan_due_at", flat=True).first()


def plan_ahead(schedule: Schedule, now: datetime) -> Plan:
    """Book the rule's windows up to the horizon that are not booked yet. It can be repeated safely."""
    plan = Plan()
    if schedule.is_paused:
        return plan
    horizon = now + settings.PLAN_AHEAD
    with transaction.atomic():
        lock(schedule.recorder_id)
        if not _is_as_read(schedule):
            return plan  # edited, paused or deleted just now: that edit, or the next turn, plans it
        # It was read before the lock: its device, node or switch may have changed since.
        schedule.recorder = Recorder.objects.select_related("project", "node").get(pk=schedule.recorder_id)
        if is_off(schedule):
            schedule.plan_due_at = None  # switching the recorder on sets it again
            schedule.save(update_fields=["plan_due_at"])
            return plan
        windows, upcoming = _new_windows(schedule, horizon, now)
        plan = _book_windows(schedule, windows[:WINDOWS_PER_PASS], now)
        plan.is_complete = len(plan) == len(windows)
        schedule.planned_until_at = horizon if plan.is_complete else windows[len(plan) - 1].starts_at
        schedule.plan_due_at = _next_due(schedule, upcoming, plan, now)
        schedule.plan_error = ""
        schedule.save(update_fields=["planned_until_at", "plan_due_at", "plan_error"])
    resolve_alert(f"planning:schedule:{schedule.pk}", now=now, note="the schedule was planned")
    return plan


def _new_windows(schedule: Schedule, horizon: datetime, now: datetime) -> tuple[list[Occurrence], Occurrence | None]:
    """The rule's windows up to the horizon that are not booked yet, and the one after the horizon.

    If there are more than one pass can book, it returns one too many.
    """
    after = _plan_after(schedule, now)
    known = set(schedule.bookings.filter(planned_start_at__gt=after).values_list("planned_start_at", flat=True))
    found: list[Occurrence] = []
    for window in occurrences(schedule.rule, after):
        if window.starts_at > horizon:
            return found, window
        if window.starts_at not in known and (window.ends_at > now or schedule.planned_until_at is not None):
            found.append(window)
        if len(found) > WINDOWS_PER_PASS:
            break
    return found, None


def _is_as_read(schedule: Schedule) -> bool:
    """Is the schedule still stored as we read it? Locks its row."""
    stored = Schedule.objects.select_for_update().filter(pk=schedule.pk).first()
    return (
        stored is not None
        and stored.is_paused == schedule.is_paused
        and stored.recorder_id == schedule.recorder_id
        and stored.rule == schedule.rule
    )


def is_off(schedule: Schedule) -> bool:
    """Is its recorder switched off? It may have been switched since it was read."""
    return not Recorder.objects.filter(pk=schedule.recorder_id, is_active=True).exists()


def _plan_after(schedule: Schedule, now: datetime) -> datetime:
    """Plan from the last planned time, so that windows during an outage show as missed; the first time, from the
    windows that are open now."""
    if schedule.planned_until_at is None:
        return now - schedule.length
    return schedule.planned_until_at


def _next_due(schedule: Schedule, upcoming: Occurrence | None, plan: Plan, now: datetime) -> datetime | None:
    if not plan.is_complete:
        # Plan the next hours at once and the days after them slowly: a rule with thousands of windows must not keep
        # the loop busy for minutes.
        is_near = schedule.planned_until_at is None or schedule.planned_until_at < now + NEAR
        return now if is_near else now + LEISURE
    if upcoming is None:
        return None
    return max(upcoming.starts_at - settings.PLAN_AHEAD, now + AT_LEAST_EVERY)


def _book_windows(schedule: Schedule, windows: Sequence[Occurrence], now: datetime) -> Plan:
    """Book them in order, as many as the time of a pass allows, at least one."""
    if not windows:
        return Plan()
    try:
        with transaction.atomic():
            return _book_together(schedule, windows, now)
    except (IntegrityError, PortTaken):
        # The database refused a row, and with it the whole batch. Booked alone, a window can fail only for itself.
        logger.warning("The windows of a schedule could not be booked together. schedule=%s", schedule.pk)
        return _book_alone(schedule, windows, now)


def _book_together(schedule: Schedule, windows: Sequence[Occurrence], now: datetime) -> Plan:
    plan, began = Plan(), time.monotonic()
    batch = _batch(schedule, windows, now)
    for number, window in enumerate(windows):
        if number and time.monotonic() - began > PASS_SECONDS:
            break
        booking = _draft(schedule, window, now)
        if not batch.place(booking):
            batch.write()  # the reason, and the policy for conflicts, depend on what is stored
            booking = _book_or_skip(schedule, window, now)
            if booking.state != State.SKIPPED:
                batch = _batch(schedule, windows[number + 1 :], now)
        plan.add(booking)
    batch.write()
    return plan


def _book_alone(schedule: Schedule, windows: Sequence[Occurrence], now: datetime) -> Plan:
    plan, began = Plan(), time.monotonic()
    for window in windows:
        if len(plan) and time.monotonic() - began > PASS_SECONDS:
            break
        plan.add(_book_or_skip(schedule, window, now))
    return plan


def _batch(schedule: Schedule, windows: Sequence[Occurrence], now: datetime) -> Batch:
    return Batch(schedule.recorder, [(window.starts_at, window.ends_at) for window in windows], now)


def _draft(schedule: Schedule, window: Occurrence, now: datetime) -> Booking:
    booking = draft(schedule.recorder, window.starts_at, window.ends_at, now=now, by=SCHEDULER, title=schedule.name)
    follow_rule(booking, schedule, window)
    return booking


def _book_or_skip(schedule: Schedule, window: Occurrence, now: datetime) -> Booking:
    """Book this window alone, or do what the schedule says about conflicts."""
    try:
        return _book(schedule, window, window.starts_at, now)
    except BookingRefused as refusal:
        return _resolve_conflict(schedule, window, refusal, now)


def _book(schedule: Schedule, window: Occurrence, starts_at: datetime, now: datetime) -> Booking:
    return book(
        schedule.recorder, starts_at, window.ends_at, now=now, title=schedule.name, schedule=schedule, occurrence=window
    )


def _resolve_conflict(schedule: Schedule, window: Occurrence, refusal: BookingRefused, now: datetime) -> Booking:
    """Apply the schedule's overlap policy; if that does not help, make a visible skipped booking (R-13)."""
    useful = timedelta(seconds=min(schedule.min_useful_seconds, schedule.length.total_seconds() / 2))
    try:
        if schedule.overlap == Schedule.Overlap.QUEUE and refusal.winner is not None:
            free_at = max(held(other)[1] for other in _others(schedule, window))
            if window.ends_at - free_at >= useful:
                booking = _book(schedule, window, free_at, now)
                booking.remark(f"starts when the recorder is free: {refusal}", now=now)
                return booking
        if schedule.overlap == Schedule.Overlap.REPLACE and refusal.winner is not None:
            with transaction.atomic():  # both or neither: skip no booking if the new one cannot be made
                _skip_conflicting(schedule, window, refusal, now)
                return _book(schedule, window, window.starts_at, now)
    except BookingRefused as second:
        refusal = second
    return _skip(schedule, window, str(refusal), now)


def _others(schedule: Schedule, window: Occurrence) -> list[Booking]:
    return in_the_way(draft(schedule.recorder, window.starts_at, window.ends_at, now=window.starts_at, by="", title=""))


def _skip_conflicting(schedule: Schedule, window: Occurrence, refusal: BookingRefused, now: datetime) -> None:
    """Skip the conflicting bookings if all are only planned; otherwise raise the refusal."""
    note = f"replaced by “{schedule}” ({house_time(window.starts_at)})"
    for other in _others(schedule, window):
        is_ours = other.state == State.PLANNED and other.move(
            State.SKIPPED, now=now, note=note, skip_reason=Booking.Skip.REPLACED
        )
        if not is_ours:
            raise refusal
        release(other.owner, now=now)
        resolve_alert(f"preflight:{other.owner}", now=now, note=note)
        tell_skipped(other, note, now)


def _skip(schedule: Schedule, window: Occurrence, reason: str, now: datetime) -> Booking:
    """Store a skipped booking with the reason, and raise an alert."""
    booking = _draft(schedule, window, now)
    booking.state, booking.skip_reason = State.SKIPPED, Booking.Skip.CONFLICT
    booking.save(force_insert=True)
    booking.events.create(at=now, old="", new=booking.state, by=SCHEDULER, note=reason)
    tell_skipped(booking, reason, now)
    return booking


def tell_skipped(booking: Booking, reason: str, now: datetime) -> None:
    raise_alert(
        f"skipped:{booking.owner}",
        f"{booking} ({house_time(booking.starts_at)}) will not be recorded",
        now=now,
        severity=Severity.WARNING,
        text=f"{reason}\nTo record it, free the recorder and restore the booking.",
        subject=booking.owner,
        project=booking.recorder.project,
    )


def _note_planning_error(schedule: Schedule, error: str, now: datetime) -> None:
    """Plan again later; show the error on the schedule's page and raise an alert."""
    Schedule.objects.filter(pk=schedule.pk).update(plan_due_at=now + timedelta(minutes=1), plan_error=error)
    raise_alert(
        f"planning:schedule:{schedule.pk}",
        f"{schedule} cannot be planned",
        now=now,
        severity=Severity.CRITICAL,
        text=f"{error}\nIts next recordings may be missed. Airlock tries again every minute.",
        subject=f"schedule:{schedule.pk}",
        project=schedule.recorder.project,
    )
