"""The scheduler's step for bookings: which ones it advances now, in what order, and when it is needed again.

`lifecycle.advance` moves one booking. This module chooses the bookings, keeps one fault from stopping the others, and
calls the followers. Bookings are advanced on other threads: that writes to the disk, and a turn must be short (P-18).
"""

import logging
import time
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models import F, Min, Q
from django.utils.module_loading import import_string

from nodes import workloads
from nodes.machines.call_pools import BOOKINGS, pools
from nodes.models import Workload
from nodes.workloads.reconcile import reconcile_soon
from scheduling.models import Booking
from scheduling.recording.lifecycle import advance, alert_about
from station.clock import database_now
from station.database.locks import free_rows, is_busy
from station.database.notify import wake_scheduler
from station.leader_term import Term
from station.models.alert import Severity
from station.redaction import redact
from station.states import SCHEDULER, sql_list

logger = logging.getLogger(__name__)

State = Booking.State
# States that are left within seconds: these bookings are checked every HURRY.
HURRIED = (State.STARTING, State.STOPPING, State.CANCELLING)
HURRY = timedelta(seconds=0.5)
# A booking that was started ahead of its window is not checked until this long after the window opens: there is nothing
# to learn before, and checking ten of them takes processor time from ten ffmpegs that start in the same second.
QUIET = timedelta(seconds=0.7)
# The dispatcher starts bookings on time. If it ever fails to, this step starts them so long after.
OVERDUE = timedelta(seconds=5)
WITH = ("recorder", "recorder__project", "recorder__node")
# Due: anything active, and anything armed that should have started. The dispatcher finds planned ones that are overdue.
DUE_SQL = f"""SELECT LEAST(
    CASE WHEN EXISTS (SELECT FROM scheduling_booking
                      WHERE state IN ({sql_list(Booking.ACTIVE)}))
    THEN clock_timestamp() END,
    (SELECT min(opens_at) FROM scheduling_booking WHERE state = '{State.ARMED}') + interval '{OVERDUE.seconds} s')"""  # noqa: S608


class Passes:
    """What the leader knows of its passes over the active bookings."""

    def __init__(self) -> None:
        self.looked_at_all = -1e9  # monotonic time of the last full pass
        self.failed_last_time: set[int] = set()  # tried again at once, even before their window opens
        self.locked: set[int] = set()  # somebody else had locked their row


def step(term: Term, now: datetime) -> datetime | None:
    """Advance, on other threads, the bookings that need it now; once per tick all active ones."""
    passes = term.memory(Passes)
    active = Booking.objects.active()
    is_full = time.monotonic() - passes.looked_at_all >= settings.SCHEDULER_TICK_SECONDS
    failed_last_time = set(passes.failed_last_time)
    passes.failed_last_time.difference_update(failed_last_time)
    # A booking that records is advanced whenever its media worker reports (`look`). One that was dispatched is handled
    # by the dispatcher's threads until its window opens, unless that failed.
    resting = Q(state=State.STARTING, opens_at__gt=now - QUIET) & ~Q(pk__in=failed_last_time)
    hurried = Q(state__in=HURRIED) & ~resting
    urgent = hurried | Q(state=State.RETRY_WAIT, next_attempt_at__lte=now) | Q(closes_at__lte=now)
    chosen = list((active if is_full else active.filter(urgent)).order_by("pk").values_list("pk", flat=True))
    overdue = Booking.objects.filter(state=State.ARMED, opens_at__lte=now - OVERDUE)
    for pk in overdue.values_list("pk", flat=True):
        logger.error("A booking was not dispatched on time; it is started now. booking=%s", pk)
        chosen.append(pk)
    free = _without_locked(passes, chosen)
    passes.failed_last_time.update(failed_last_time.intersection(chosen).difference(free))
    for pk in free:
        pools.submit_soon(BOOKINGS, f"booking:{pk}", partial(_look_by_id, term, pk))
    if is_full:
        passes.looked_at_all = time.monotonic()
        pools.submit_soon(BOOKINGS, "leftovers", partial(unwant_leftovers, now))
    if chosen:
        return now + HURRY  # to see what became of them
    times = active.aggregate(
        closes=Min("closes_at"),
        retries=Min("next_attempt_at", filter=Q(state=State.RETRY_WAIT)),
        opens=Min(F("opens_at") + QUIET, filter=resting),
    )
    return min((moment for moment in times.values() if moment), default=None)


def _without_locked(passes: Passes, chosen: list[int]) -> list[int]:
    """If one was locked in the last pass, leave out all that are: a thread would wait for each of them."""
    if not passes.locked:
        return chosen
    passes.locked.clear()
    free = free_rows(Booking, chosen)
    return [pk for pk in chosen if pk in free]


def _look_by_id(term: Term, pk: int) -> None:
    passes = term.memory(Passes)
    try:
        booking = Booking.objects.select_related(*WITH).filter(pk=pk).first()
        if booking is None or term.is_over:
            return
        # It may have been moved to a later time since it was chosen.
        is_overdue = booking.state == State.ARMED and booking.opens_at <= database_now() - OVERDUE
        if (booking.state in Booking.ACTIVE or is_overdue) and not _look_at(term, booking):
            passes.locked.add(pk)
            passes.failed_last_time.add(pk)
    except (OperationalError, InterfaceError):
        passes.failed_last_time.add(pk)
        raise


def begin(term: Term, pk: int) -> None:
    """Ask for a media worker and start it at once; called by the dispatcher."""
    close_old_connections()
    try:
        booking = Booking.objects.select_related(*WITH).filter(pk=pk).first()
        if booking is not None and booking.state in Booking.ACTIVE and not _look_at(term, booking):
            term.memory(Passes).failed_last_time.add(pk)
            wake_scheduler()
    except (OperationalError, InterfaceError):
        term.memory(Passes).failed_last_time.add(pk)
        raise


def look(term: Term, owner: str) -> None:
    """Advance the booking because something new is known about its media worker (see WORKLOAD_OWNERS)."""
    booking = Booking.objects.active().select_related(*WITH).filter(pk=int(owner.partition(":")[2])).first()
    if booking is not None:
        _look_at(term, booking)


def _look_at(term: Term, booking: Booking) -> bool:
    """Advance it. A fault raises an alert and does not stop the other bookings. False if a lock was in the way."""
    before = booking.state
    try:
        advance(booking, database_now())
        if booking.state != before or (booking.state in HURRIED and not _rests(booking)):
            reconcile_soon(term, booking.owner)
        _tell_followers(booking)  # last: a start does not wait for them
    except (OperationalError, InterfaceError) as error:
        if not is_busy(error):
            raise  # the database cannot be reached: not even an alert can be written
        logger.warning("A booking waits for a row that somebody else has locked. booking=%s", booking.pk)
        return False
    except Exception as error:  # a fault in one booking must not stop the others
        logger.exception("A booking could not be advanced. booking=%s", booking.pk)
        term.memory(Passes).failed_last_time.add(booking.pk)
        text = redact(f"{type(error).__name__}: {error}")
        alert_about(
            booking, "trouble", f"{booking} cannot be checked: internal error", text, database_now(), Severity.CRITICAL
        )
    return True


def _rests(booking: Booking) -> bool:
    """True if its media worker is up and its window is not open yet."""
    if booking.state != State.STARTING or booking.opens_at <= database_now() - QUIET:
        return False
    workload = workloads.latest(booking.owner)
    return workload is not None and workload.state == Workload.State.RUNNING


def _tell_followers(booking: Booking) -> None:
    """Call BOOKING_FOLLOWERS (they file what is recorded). A follower that fails does not disturb the recording."""
    for path in settings.BOOKING_FOLLOWERS:
        try:
            import_string(path)(booking, database_now())
        except Exception:  # the follower's own step tries again
            if not connection.is_usable():
                raise  # the database cannot be reached
            logger.exception("A follower failed. follower=%s booking=%s", path, booking.pk)


def unwant_leftovers(now: datetime) -> int:
    """Stop media workers whose booking is no longer active, whatever went wrong before. Returns how many."""
    rows = Workload.objects.filter(is_wanted=True, removed_at=None, owner__startswith="booking:")
    owners = set(rows.values_list("owner", flat=True))
    active = {f"booking:{pk}" for pk in Booking.objects.active().values_list("pk", flat=True)}
    return sum(
        workloads.unwant(owner, now=now, by=SCHEDULER, note="its booking has ended") for owner in owners - active
    )


def advance_and_tell(booking: Booking, now: datetime) -> None:
    """Advance a booking and call its followers; for the buttons, which reconcile its media worker themselves."""
    advance(booking, now)
    _tell_followers(booking)
