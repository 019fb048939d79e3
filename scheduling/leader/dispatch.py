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

from scheduling.bookings.lateness import give_up_late
from scheduling.models import Booking
from station.database.notify import wake_scheduler
from station.leader_term import Term
from station.states import sql_list

logger = logging.getLogger(__name__)

State = Booking.State
Start = Callable[[int], object]
CHUNK = 250
CLAIM_LIMIT = 20_000
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
        self._take_over(now)
        lead = timedelta(seconds=settings.ARM_AHEAD_SECONDS) + self._launch_ahead
        planned = Booking.objects.filter(state=State.PLANNED).order_by("opens_at")
        upcoming = planned.values_list("opens_at", flat=True).first()
        if upcoming is not None and upcoming <= now + lead:
            soon = dict(planned.filter(opens_at__lte=now + lead).values_list("pk", "opens_at")[:CLAIM_LIMIT])
            claimed = Booking.move_batch(
                list(soon),
                State.PLANNED,
                State.ARMED,
                now=now,
                # A leader that lost the lead since it read the rows must not claim them: it would not start them.
                guard="COALESCE((SELECT epoch FROM scheduling_leadership WHERE id = 1), 0) <= %(epoch)s",
                changes={"deadline_at": "closes_at", "epoch": "%(epoch)s", "claimed_at": "%(_now)s"},
                values={"epoch": self.epoch},
            )
            self._hold([(soon[pk], pk) for pk in claimed], now)
            upcoming = planned.values_list("opens_at", flat=True).first()
        return upcoming - lead if upcoming else None

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

    def _take_over(self, now: datetime) -> None:
        """Take over the bookings that older leaders armed, and repeat the starts they began, which is safe."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"""UPDATE scheduling_booking SET epoch = %s
                   WHERE state IN ({sql_list((State.ARMED, State.STARTING))}) AND epoch < %s
                   RETURNING id, state, opens_at""",  # noqa: S608  (our own states)
                [self.epoch, self.epoch],
            )
            rows = cursor.fetchall()
        self._hold([(opens_at, pk) for pk, state, opens_at in rows if state == State.ARMED], now)
        for pk, state, _ in rows:
            if state == State.STARTING:
                self._pool.submit(_guarded, self._start, pk)
        if rows:
            logger.info("Took over the bookings that an older leader had claimed. count=%s", len(rows))

    def _hold(self, entries: Sequence[tuple[datetime, int]], now: datetime) -> None:
        """Hold those on time first: giving up a late booking takes time, and after an outage there may be many."""
        on_time_since = now - timedelta(seconds=1)
        late = [entry for entry in entries if entry[0] < on_time_since]
        self._push([entry for entry in entries if entry[0] >= on_time_since])
        given_up = set(give_up_late([pk for _, pk in late], now)) if late else set()
        self._push([entry for entry in late if entry[1] not in given_up])

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


def step(term: Term, now: datetime) -> datetime | None:
    """The loop's step. Without a dispatcher (in a rehearsal, or a test of another step) nothing is claimed."""
    dispatcher = term.kept(Dispatcher)
    return dispatcher.step(now) if dispatcher is not None else None


def _guarded(start: Start, pk: int) -> None:
    try:
        start(pk)
    except Exception:  # the loop checks every starting booking again and continues from there
        logger.exception("A start failed. booking=%s", pk)
        with contextlib.suppress(DatabaseError, InterfaceError):  # the database is down, and the loop notices that too
            wake_scheduler()


def _as_moment(monotonic: float) -> datetime:
    """The monotonic clock as a datetime, so that it can be subtracted from the database's time."""
    return ORIGIN + timedelta(seconds=monotonic)
