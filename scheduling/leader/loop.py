"""The scheduler's loop: becomes leader, runs each step when it is due, and sleeps until the next one is due.

A turn is short: steps read and write the database; calls to nodes run on the pools of `nodes.machines.call_pools`,
starts on the dispatcher of `scheduling.leader.dispatch`. Between turns the process sleeps until a step is due, a NOTIFY
arrives, or the safety-net tick is due. The leader's memory between turns is in its Term; everything else is in the
database.
"""

import contextlib
import gc
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import FrameType

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.utils.module_loading import import_string

from jobs.runs import process_records
from nodes.workloads import reconcile
from scheduling.leader.dispatch import Dispatcher
from scheduling.leader.election import Leader, NotLeading
from scheduling.leader.steps import DATABASE_FAULTS, Step, due_sql, run_step
from scheduling.leader.turn_times import Reading, TurnTimes, alert_of_jump
from scheduling.recording.loop_step import begin
from station import precedence
from station.admission import wait_until_admitted
from station.clock import database_now
from station.leader_term import Term

logger = logging.getLogger(__name__)

BACKOFF_SECONDS = (0.1, 0.25, 0.5, 1.0)
AFTER_STEPPING_DOWN_SECONDS = 5.0
# The time, and the snapshot: while the snapshot is the same, no query can find anything new.
GLANCE = "EXTRACT(EPOCH FROM clock_timestamp()), pg_current_snapshot()"
EARLY_TICK = 0.2  # of the time between two ticks
# After a turn the loop rests for a multiple of the turn's length; not after a short one.
REST_PER_TURN, SHORTEST_REST_SECONDS, LONGEST_REST_SECONDS = 3.0, 0.02, 0.25


class Loop:
    """Runs the steps in SCHEDULER_STEPS, a list of functions `step(term, now) -> datetime | None`."""

    def __init__(self, start: Callable[[Term, int], object] = begin) -> None:
        self.steps: list[tuple[str, Step]] = [(path, import_string(path)) for path in settings.SCHEDULER_STEPS]
        self._question = ", ".join([GLANCE, *(f"EXTRACT(EPOCH FROM ({due_sql(path)}))" for path, _ in self.steps)])
        self.leader = Leader()
        self._start = start
        self._due: dict[str, datetime | None] = {}
        self._answers: dict[str, datetime | None] = {}
        self._answered_as_of: str | None = None
        self._is_idle = False
        self._tick_at = 0.0
        self._beat_at = 0.0
        self._read: Reading | None = None  # the database's clock in the last turn
        self._times = TurnTimes()
        self._turn_seconds = 0.0
        self._stop = threading.Event()
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)

    def ask_to_stop(self, signum: int | None = None, frame: FrameType | None = None) -> None:
        self._stop.set()
        with contextlib.suppress(OSError):  # a full pipe wakes the loop too
            os.write(self._wake_w, b"!")

    def run(self) -> None:
        """Lead, or wait to lead, until asked to stop. Recordings continue when it stops."""
        gc.collect()
        gc.freeze()  # loaded modules stay: the collector need not scan them every time
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        signal.signal(signal.SIGINT, self.ask_to_stop)
        failures = 0
        while not self._stop.is_set():
            try:
                if not wait_until_admitted(self._stop):
                    break
                self.leader.open()
                if self._stand_by():
                    failures = 0
                    self._lead()
            except NotLeading as error:
                logger.error("This scheduler is no longer leader. reason=%s", error)
                self.leader.close()
            except (DatabaseError, InterfaceError, psycopg.Error) as error:
                seconds = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]
                failures += 1
                if "idle-session timeout" in str(error):
                    logger.error("This leader was silent for too long and lost the lock. It waits to lead again.")
                else:
                    logger.error("The database does not answer; trying again. error=%s", str(error).strip())
                self.leader.close()
                connection.close()
                self._stop.wait(seconds)
        self.leader.close()
        with contextlib.suppress(DatabaseError, InterfaceError):
            process_records.sign_off_scheduler(database_now())
        logger.info("The scheduler stops. Recordings and channels keep running.")

    def _stand_by(self) -> bool:
        """Queue for the lock. True when we have it, False when asked to stop."""
        self._keep_session()  # connect now, so that the first turn after a takeover is fast
        while not self._stop.is_set():
            process_records.tell_scheduler(database_now())
            if self.leader.try_to_lead(self._wake_r):
                return True
        return False

    def _keep_session(self) -> None:
        """Steps on this thread have a session of their own: in the shared pool they would wait behind other threads."""
        connection.ensure_connection()
        connection.close_at = None

    def _lead(self) -> None:
        """Run turns for as long as we hold the lock."""
        term = self._begin_term()
        self._due, self._tick_at, self._beat_at = {}, 0.0, time.monotonic()
        self._answered_as_of = self._read = None
        try:
            reconcile.void_older_leases(term)
            while not self._stop.is_set():
                self.turn(term)
                self._sleep()
                if self.leader.wants_to_step_down:
                    break
        finally:
            _end_term(term)
        stands_down = self.leader.wants_to_step_down
        self.leader.step_down()
        if stands_down:
            self._stop.wait(AFTER_STEPPING_DOWN_SECONDS)  # give a standby time to take the lock

    def _begin_term(self) -> Term:
        term = Term(self.leader.epoch)
        term.keep(Dispatcher(term.epoch, partial(self._start, term)))
        return term

    def turn(self, term: Term) -> None:
        """Run every step that is due; a failing step does not stop the others."""
        asked = time.monotonic()
        # A turn just before the tick takes its place: otherwise an idle leader would have two turns instead of one.
        # The query is also the heartbeat, so an idle leader asks at least that often.
        tick_seconds = min(settings.SCHEDULER_TICK_SECONDS, settings.LEADER_HEARTBEAT_SECONDS)
        is_tick = asked >= self._tick_at - tick_seconds * EARLY_TICK
        if is_tick:
            # The tick is set before the query: a notification that arrives with the answer, but is not part of it,
            # brings the next tick forward.
            self._tick_at = asked + tick_seconds
        now, dues = self._ask_what_is_due(is_everything=not self._due) if is_tick else (self._ask_time(), {})
        reading = Reading(now, asked, time.monotonic())
        dispatcher = term.kept(Dispatcher)
        if dispatcher is not None:
            dispatcher.sync(now, asked, reading.answered)
        self._notice_jump(reading)
        if is_tick:
            for path, due in dues.items():
                known = self._due.get(path)
                self._due[path] = due if known is None else min(known, due or known)
        due_steps = [(path, step) for path, step in self.steps if (at := self._due.get(path)) is not None and at <= now]
        self._is_idle = not due_steps
        if due_steps:
            close_old_connections()
            self._keep_session()
        with precedence.turn:
            took = self._run_steps(due_steps, term, now)
        self._turn_seconds = time.monotonic() - asked
        self._times.note(self._turn_seconds, took)
        if self.leader.is_leading and (report := self._times.take_report()):
            self.leader.report_turns(*report)

    def _run_steps(self, steps: list[tuple[str, Step]], term: Term, now: datetime) -> dict[str, float]:
        """Returns how many seconds each of them took."""
        took: dict[str, float] = {}
        for path, step in steps:
            began = time.monotonic()
            self._due[path] = run_step(path, step, term, now)
            took[path] = time.monotonic() - began
            if self.leader.is_leading:
                self._beat_if_due()
        return took

    def _notice_jump(self, reading: Reading) -> None:
        """If the database's clock was set, the times at which steps are due mean nothing: run them all (R-23)."""
        jump = reading.jump_since(self._read) if self._read else 0.0
        self._read = reading
        if jump:
            logger.error("The database's clock was set. seconds=%+.1f", jump)
            self._due = {path: reading.now for path, _ in self.steps}
            self._answered_as_of = None
            with contextlib.suppress(*DATABASE_FAULTS):
                alert_of_jump(jump, reading.now)

    def _ask_what_is_due(self, *, is_everything: bool) -> tuple[datetime, dict[str, datetime | None]]:
        """The time, and for each step when it is next due: one cheap query, however many rows are stored.

        DUE_SQL of a step's module gives a time that changes only when a transaction commits. So while the snapshot is
        unchanged, the last answers are still valid, and an idle leader only reads the snapshot.
        """
        if is_everything or not self.leader.is_leading:
            now = database_now()
            return now, {path: now for path, _ in self.steps}
        if self._is_idle and self._answered_as_of is not None:
            seconds, snapshot = self._ask(GLANCE)
            if snapshot == self._answered_as_of:
                return _moment(seconds), self._answers
        seconds, self._answered_as_of, *dues = self._ask(self._question)
        moments = [None if due is None else _moment(due) for due in dues]
        self._answers = dict(zip((path for path, _ in self.steps), moments, strict=True))
        return _moment(seconds), self._answers

    def _ask_time(self) -> datetime:
        """A turn between two ticks knows what is due: no query can be cheaper, whatever other databases write."""
        return _moment(self._ask(GLANCE)[0]) if self.leader.is_leading else database_now()

    def _ask(self, question: str) -> tuple[str | None, ...]:
        row = self.leader.ask(question)
        self._beat_at = time.monotonic()
        self._take_notices()  # some may have arrived with the answer
        return row

    def seconds_to_sleep(self) -> float:
        """The time until the earliest step is due, at most until the next tick."""
        read = self._read
        if read is None:
            return 0.0
        elapsed = time.monotonic() - read.asked
        waits = [(due - read.now).total_seconds() - elapsed for due in self._due.values() if due is not None]
        return max(0.0, min([*waits, self._tick_at - time.monotonic()]))

    def _sleep(self) -> None:
        """Sleep until a step is due, a notification arrives, or we are asked to stop."""
        self._rest()
        wake_at = time.monotonic() + self.seconds_to_sleep()
        while not self._stop.is_set() and self._tick_at:
            left = wake_at - time.monotonic()
            if left <= 0:
                return
            readable, _, _ = select.select([self.leader.fileno(), self._wake_r], [], [], left)
            if self.leader.fileno() in readable:
                self._take_notices()

    def _rest(self) -> None:
        """Leave the interpreter to the other threads for longer than the turn took. When a hundred channels move, every
        change wakes the loop: turn after turn, it would take half of the time that the moves need."""
        seconds = min(REST_PER_TURN * self._turn_seconds, LONGEST_REST_SECONDS)
        if seconds >= SHORTEST_REST_SECONDS and not self._stop.is_set():
            select.select([self._wake_r], [], [], seconds)

    def _take_notices(self) -> None:
        if self.leader.take_notices():
            self._tick_at = 0.0  # something is due earlier: ask for all steps

    def _beat_if_due(self) -> None:
        """Send a heartbeat between the steps of a long turn, so that the leader keeps the lock."""
        if time.monotonic() - self._beat_at >= settings.LEADER_HEARTBEAT_SECONDS / 4:
            self._ask("1")

    def run_once(self) -> float:
        """Run one whole turn with its starts and node calls; returns how many seconds the loop would sleep."""
        term = self._begin_term()
        try:
            self._due, self._tick_at = {}, 0.0
            self.turn(term)
            dispatcher = term.kept(Dispatcher)
            if dispatcher is not None:
                dispatcher.finish_due()
            reconcile.wait_idle(term, settings.NODE_CALL_SECONDS)
        finally:
            _end_term(term)
        return self.seconds_to_sleep()


def _end_term(term: Term) -> None:
    term.end()
    dispatcher = term.kept(Dispatcher)
    if dispatcher is not None:
        dispatcher.stop()


def _moment(seconds: str | None) -> datetime:
    assert seconds is not None
    return datetime.fromtimestamp(float(seconds), UTC)
