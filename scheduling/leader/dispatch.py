"""Starts bookings on time: claims them a few seconds ahead, holds them in memory on a timer, dispatches them when due.

`step` is one of the loop's steps: it claims the bookings that open soon (planned -> armed, with the leader's epoch). A
separate thread sleeps until the next start is due, moves all due bookings from armed to starting in one
compare-and-set, and passes them to a bounded pool. A start is due when the padded window opens, minus the launch time
of a media worker, which then waits for the opening. So neither a slow step nor a hung node delays a start. If this
process dies, the rows show which bookings it had armed or begun to start, and the next leader takes them over.
"""

import contextlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, connections

from scheduling.bookings.lateness import ON_TIME_SECONDS, give_up_late, why_too_late
from scheduling.models import Booking
from station import precedence
from station.database.notify import wake_scheduler
from station.database.roles import release_session
from station.leader_term import Term
from station.states import sql_list

logger = logging.getLogger(__name__)

State = Booking.State
Start = Callable[[int], object]
CHUNK = 250
CLAIM_LIMIT = 20_000
BACKLOG_BATCH = 250
ON_TIME = timedelta(seconds=ON_TIME_SECONDS)
# A row that somebody else has locked is tried again this often.
LOCKED_RETRY = timedelta(milliseconds=250)
RETRY_SECONDS = 0.2
GOOD_SAMPLE_SECONDS = 0.002
# The compare-and-set takes a millisecond or two: it runs this much early, and the hand-over waits for the due time.
LEAD = timedelta(milliseconds=2)
ORIGIN = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
DUE_SQL = f"""SELECT min(opens_at) - interval '{settings.ARM_AHEAD_SECONDS + settings.LAUNCH_AHEAD_SECONDS} s'
              FROM scheduling_booking WHERE state = '{State.PLANNED}'"""  # noqa: S608


class Dispatcher:
    """Holds one leader's armed bookings in memory until they are due; created and stopped with the leader's term."""

    def __init__(self, epoch: int, start: Start) -> None:
        self.epoch = epoch
        self._start = start
        self._heap: list[tuple[datetime, int]] = []
        self._ahead: timedelta | None = None
        self._changed = threading.Condition()
        self._is_stopping = False
        self._launch_ahead = timedelta(seconds=settings.LAUNCH_AHEAD_SECONDS)
        self._pool = ThreadPoolExecutor(settings.DISPATCH_THREADS, "dispatch")
        self._thread = self._start_thread()

    def _start_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)
        thread.start()
        return thread

    def sync(self, now: datetime, asked: float, answered: float) -> None:
        """Compare the database's clock with our monotonic one. A slow answer is used only if the clock was changed."""
        took = answered - asked
        ahead = now - _as_moment((asked + answered) / 2)
        with self._changed:
            is_set = self._ahead is not None and abs((ahead - self._ahead).total_seconds()) > took
            if self._ahead is None or took < GOOD_SAMPLE_SECONDS or is_set:
                self._ahead = ahead
                if self._heap:
                    self._changed.notify()

    def step(self, now: datetime) -> datetime | None:
        """Claim the bookings that open soon; return when the next one must be claimed."""
        if not self._thread.is_alive() and not self._is_stopping:
            logger.error("The dispatcher thread had ended; starting it again.")
            self._thread = self._start_thread()
        lead = timedelta(seconds=settings.ARM_AHEAD_SECONDS) + self._launch_ahead
        planned = Booking.objects.filter(state=State.PLANNED).order_by("opens_at")
        upcoming = planned.values_list("opens_at", flat=True).first()
        if upcoming is not None and upcoming <= now + lead:
            # What is due now comes first. A backlog is worked off in batches, between the turns of the loop.
            since = now - ON_TIME
            soon = planned.filter(opens_at__gte=since, opens_at__lte=now + lead)
            self._claim(list(soon.values_list("opens_at", "pk")[:CLAIM_LIMIT]), now)
        is_all_taken_over = self._take_over(now)
        if upcoming is not None and upcoming <= now + lead:
            late = planned.filter(opens_at__lt=since).order_by("-closes_at").select_related("recorder__project")
            is_progress = self._settle_late(list(late[:BACKLOG_BATCH]), now)
            upcoming = planned.values_list("opens_at", flat=True).first()
            if upcoming is not None and upcoming <= now + lead:  # a part of the backlog, or a row locked by others
                return now if is_progress else now + LOCKED_RETRY
        if not is_all_taken_over:
            return now + LOCKED_RETRY
        return upcoming - lead if upcoming else None

    def _claim(self, entries: Sequence[tuple[datetime, int]], now: datetime) -> bool:
        """Move them from planned to armed and hold them; True if any was claimed. Locked rows stay planned."""
        claimed = set(
            Booking.move_batch(
                [pk for _, pk in entries],
                State.PLANNED,
                State.ARMED,
                now=now,
                # A leader that lost the lead since it read the rows must not claim them: it would not start them.
                guard="COALESCE((SELECT max(epoch) FROM scheduling_leadership), 0) <= %(epoch)s",
                changes={"deadline_at": "closes_at", "epoch": "%(epoch)s", "claimed_at": "%(_now)s"},
                values={"epoch": self.epoch},
                skip_locked=True,
            )
        )
        self._push([entry for entry in entries if entry[1] in claimed])
        return bool(claimed)

    def _settle_late(self, late: Sequence[Booking], now: datetime) -> bool:
        """Start the late bookings that may still start, then give up the others. True if any row has changed."""
        may_start = [booking for booking in late if why_too_late(booking, now) is None]
        is_progress = self._claim([(each.opens_at, each.pk) for each in may_start if each.state == State.PLANNED], now)
        self._push([(each.opens_at, each.pk) for each in may_start if each.state == State.ARMED])
        rest = [booking for booking in late if booking not in may_start]
        return bool(give_up_late(rest, now)) or is_progress

    def stop(self) -> None:
        """Stop dispatching. Starts that have begun are finished; armed bookings are left to the next leader."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def finish_due(self, seconds: float = 10.0) -> None:
        """Wait until all due starts are dispatched and done. For a single turn, not for the loop."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: not self._is_due() and not self._is_busy, max(0.0, seconds))
        self._pool.shutdown(wait=time.monotonic() < deadline)
        self._pool = ThreadPoolExecutor(settings.DISPATCH_THREADS, "dispatch")

    def _take_over(self, now: datetime) -> bool:
        """Take over the bookings that older leaders armed, and repeat the starts they began, which is safe.

        False if some are left because somebody else has locked them.
        """
        older = f"state IN ({sql_list((State.ARMED, State.STARTING))}) AND epoch < %s"
        with connection.cursor() as cursor:
            cursor.execute(
                f"""UPDATE scheduling_booking SET epoch = %s WHERE id IN (
                        SELECT id FROM scheduling_booking WHERE {older} FOR NO KEY UPDATE SKIP LOCKED)
                    RETURNING id, state, opens_at""",  # noqa: S608  (our own states)
                [self.epoch, self.epoch],
            )
            rows = cursor.fetchall()
            cursor.execute(f"SELECT EXISTS (SELECT FROM scheduling_booking WHERE {older})", [self.epoch])  # noqa: S608
            is_any_left = bool((cursor.fetchone() or [False])[0])
        armed = [(opens_at, pk) for pk, state, opens_at in rows if state == State.ARMED]
        self._push([entry for entry in armed if entry[0] >= now - ON_TIME])
        late = [pk for opens_at, pk in armed if opens_at < now - ON_TIME]
        if late:
            bookings = Booking.objects.filter(pk__in=late, state=State.ARMED).select_related("recorder__project")
            self._settle_late(list(bookings), now)
        for pk, state, _ in rows:
            if state == State.STARTING:
                self._pool.submit(_guarded, self._start, pk)
        if rows:
            logger.info("Took over the bookings that an older leader had claimed. count=%s", len(rows))
        return not is_any_left

    def _push(self, entries: Sequence[tuple[datetime, int]]) -> None:
        with self._changed:
            for opens_at, pk in entries:
                heapq.heappush(self._heap, (opens_at - self._launch_ahead, pk))
            self._changed.notify_all()

    # --- the dispatcher's thread ---

    _is_busy = False

    def _run(self) -> None:
        try:
            while (due := self._wait()) is not None:
                for first in range(0, len(due), CHUNK):
                    try:
                        self._dispatch(due[first : first + CHUNK])
                    except Exception:  # the thread must go on; the sweep of overdue bookings starts these
                        logger.exception("A dispatch failed. count=%s", len(due))
        finally:
            connections.close_all()

    def _wait(self) -> list[tuple[datetime, int]] | None:
        """Sleep until a start is due, and return all due starts; None when stopping."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            while not self._is_stopping:
                if self._is_due():
                    now, due = self._now() + LEAD, []
                    while self._heap and self._heap[0][0] <= now:
                        due.append(heapq.heappop(self._heap))
                    self._is_busy = True
                    return due
                is_known = self._heap and self._ahead is not None
                self._changed.wait((self._heap[0][0] - LEAD - self._now()).total_seconds() if is_known else None)
            return None

    def _is_due(self) -> bool:
        return bool(self._heap) and self._ahead is not None and self._heap[0][0] <= self._now() + LEAD

    def _now(self) -> datetime:
        assert self._ahead is not None
        return _as_moment(time.monotonic()) + self._ahead

    def _dispatch(self, due: list[tuple[datetime, int]]) -> None:
        """Move the bookings that are still ours to starting, and pass them to the pool when they are due."""
        pks = [pk for _, pk in due]
        try:
            moved = Booking.move_batch(
                pks,
                State.ARMED,
                State.STARTING,
                now=self._now(),
                guard="epoch = %(epoch)s AND opens_at <= %(latest)s",  # one moved to a later time is not due
                changes={
                    "attempts": "1",
                    "dispatched_at": "GREATEST(%(_now)s, opens_at - %(ahead)s)",
                    "late_by_seconds": "GREATEST(0, EXTRACT(EPOCH FROM %(_now)s - opens_at)::float)",
                },
                values={"epoch": self.epoch, "latest": due[-1][0] + self._launch_ahead, "ahead": self._launch_ahead},
                skip_locked=True,
            )
        except (DatabaseError, InterfaceError) as error:
            # The database is down: keep them and try again. If we are no longer leader, the epoch guard refuses.
            logger.error(
                "Bookings could not be dispatched; trying again. count=%s error=%s", len(pks), str(error).strip()
            )
            connection.close()
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping, RETRY_SECONDS)
                for entry in due:
                    heapq.heappush(self._heap, entry)
            return
        early = (due[-1][0] - self._now()).total_seconds()
        if early > 0:
            time.sleep(early)
        for pk in moved:
            self._pool.submit(_guarded, self._start, pk)
        if len(moved) < len(due):
            self._keep_locked([entry for entry in due if entry[1] not in set(moved)])

    def _keep_locked(self, left: list[tuple[datetime, int]]) -> None:
        """Keep those that are still ours: their rows are locked by somebody else. They start when they are free."""
        ours = Booking.objects.filter(pk__in=[pk for _, pk in left], state=State.ARMED, epoch=self.epoch)
        still_due = set(ours.filter(opens_at__lte=left[-1][0] + self._launch_ahead).values_list("pk", flat=True))
        again = self._now() + LOCKED_RETRY
        with self._changed:
            for _, pk in left:
                if pk in still_due:
                    heapq.heappush(self._heap, (again, pk))


def step(term: Term, now: datetime) -> datetime | None:
    """The loop's step. Without a dispatcher (in a rehearsal, or a test of another step) nothing is claimed."""
    dispatcher = term.kept(Dispatcher)
    return dispatcher.step(now) if dispatcher is not None else None


def _guarded(start: Start, pk: int) -> None:
    try:
        with precedence.starts.under_way():
            start(pk)
    except Exception:  # the loop checks every starting booking again and continues from there
        logger.exception("A start failed. booking=%s", pk)
        with contextlib.suppress(DatabaseError, InterfaceError):  # the database is down, and the loop notices that too
            wake_scheduler()
    finally:
        release_session()


def _as_moment(monotonic: float) -> datetime:
    """The monotonic clock as a datetime, so that it can be subtracted from the database's time."""
    return ORIGIN + timedelta(seconds=monotonic)
