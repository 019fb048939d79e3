"""Starts on the instant: claimed a few seconds ahead, held in memory on a timer, moved and dispatched when due.

`step` is one of the loop's steps: it claims what opens soon (planned -> armed, with the leader's epoch). A thread
of its own sleeps until the next instant, moves everything that is due from armed to starting in one compare-and-set,
and hands it to a bounded pool. The instant is the opening of the padded window, less the time a worker needs to come
up: it waits there, so that the first frame is on time. Neither a slow step nor a hung node stands between a booking
and its second. If this process dies anywhere in between, the rows say what was meant, and the next leader takes over
from them what an older one armed or began to start.
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
from station.states import sql_list
from station.term import Term

logger = logging.getLogger(__name__)

State = Booking.State
Start = Callable[[int], object]
CHUNK = 250
CLAIM_LIMIT = 20_000
RETRY_SECONDS = 0.2
GOOD_SAMPLE_SECONDS = 0.002
# The compare-and-set takes a millisecond or two: it begins this much early, and the hand-over waits for the instant.
LEAD = timedelta(milliseconds=2)
ORIGIN = datetime.fromisoformat("2000-01-01T00:00:00+00:00")
DUE_SQL = f"""SELECT min(opens_at) - interval '{settings.ARM_AHEAD_SECONDS + settings.LAUNCH_AHEAD_SECONDS} s'
              FROM scheduling_booking WHERE state = '{State.PLANNED}'"""  # noqa: S608


class Dispatcher:
    """The bookings one leader holds in memory for their instant: made when its term begins, stopped when it ends."""

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
        """Lay the database's clock beside our monotonic one; a slow answer counts only if the clock was really set."""
        took = answered - asked
        ahead = now - _as_moment((asked + answered) / 2)
        with self._changed:
            is_set = self._ahead is not None and abs((ahead - self._ahead).total_seconds()) > took
            if self._ahead is None or took < GOOD_SAMPLE_SECONDS or is_set:
                self._ahead = ahead
                if self._heap:
                    self._changed.notify()

    def step(self, now: datetime) -> datetime | None:
        """Claim what opens soon; answer when the next one has to be claimed."""
        if not self._thread.is_alive() and not self._is_stopping:
            logger.error("The dispatcher had died; starting it again.")
            self._thread = self._start_thread()
        self._inherit(now)
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
                # A leader that was deposed while it read may not claim: nobody would hold it.
                guard="COALESCE((SELECT epoch FROM scheduling_leadership WHERE id = 1), 0) <= %(epoch)s",
                changes={"deadline_at": "closes_at", "epoch": "%(epoch)s", "claimed_at": "%(_now)s"},
                values={"epoch": self.epoch},
            )
            self._hold([(soon[pk], pk) for pk in claimed], now)
            upcoming = planned.values_list("opens_at", flat=True).first()
        return upcoming - lead if upcoming else None

    def stop(self) -> None:
        """Hold nothing any more. What the pool has begun it ends; what is armed belongs to the next leader."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def finish_due(self, seconds: float = 10.0) -> None:
        """Wait until everything due by now is dispatched and done. For a single turn, not for the loop."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: not self._is_due() and not self._is_busy, max(0.0, seconds))
        self._pool.shutdown(wait=time.monotonic() < deadline)
        self._pool = ThreadPoolExecutor(settings.DISPATCH_THREADS, "dispatch")

    def _inherit(self, now: datetime) -> None:
        """What older leaders armed is ours to hold; what they began to start we begin again: whoever was first wins."""
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
            logger.info("Took over what an older leader had claimed. count=%s", len(rows))

    def _hold(self, entries: Sequence[tuple[datetime, int]], now: datetime) -> None:
        """What is on time first: giving up what is late takes a moment each, and may be many after a long silence."""
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
                    except Exception:  # the thread must live; the sweep of overdue bookings starts these
                        logger.exception("A dispatch failed. count=%s", len(due))
        finally:
            connections.close_all()

    def _wait(self) -> list[tuple[datetime, int]] | None:
        """Sleep until something is due; None when it is time to leave."""
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
        """Move them, if they are still ours to move, and hand them to the pool when the instant is there."""
        pks = [pk for _, pk in due]
        try:
            moved = Booking.move_batch(
                pks,
                State.ARMED,
                State.STARTING,
                now=self._now(),
                guard="epoch = %(epoch)s AND opens_at <= %(latest)s",  # one that was moved to later is not due
                changes={
                    "attempts": "1",
                    "dispatched_at": "GREATEST(%(_now)s, opens_at - %(ahead)s)",
                    "late_by_seconds": "GREATEST(0, EXTRACT(EPOCH FROM %(_now)s - opens_at)::float)",
                },
                values={"epoch": self.epoch, "latest": due[-1][0] + self._launch_ahead, "ahead": self._launch_ahead},
            )
        except (DatabaseError, InterfaceError) as error:
            # The database is away: hold them and try again. If we lead no longer, the epoch will say so.
            logger.error("Could not dispatch; trying again. count=%s error=%s", len(pks), str(error).strip())
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
    """The loop's step. Without a dispatcher (a rehearsal, a test of another step) there is nothing to claim for."""
    dispatcher = term.kept(Dispatcher)
    return dispatcher.step(now) if dispatcher is not None else None


def _guarded(start: Start, pk: int) -> None:
    try:
        start(pk)
    except Exception:  # the loop looks at every starting booking again and goes on from where this one stopped
        logger.exception("A start failed. booking=%s", pk)
        with contextlib.suppress(DatabaseError, InterfaceError):  # away: then the loop notices, too
            wake_scheduler()


def _as_moment(monotonic: float) -> datetime:
    """The monotonic clock as a moment, so that the difference to the database's clock is a span."""
    return ORIGIN + timedelta(seconds=monotonic)
