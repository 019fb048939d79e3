"""Keeps the leases of a job worker's runs, on its own thread and connection; handles cancellations and time limits.

It renews every lease, reads requests to cancel, and stops runs that take too long. An unavailable database is not a
lost lease: the keeper asks again until it answers, and only an explicit refusal counts as a loss (J-09).
"""

import logging
import threading
import time
from typing import Any
from uuid import UUID

import psycopg

from jobs.job_worker.executors import Attempt, ThreadExecutor
from jobs.models import Run
from jobs.runs.finishing import Failure
from jobs.runs.leases import Held, ask_leader_to_watch, renew, show_alive
from station.database.roles import WORKERS
from station.database.sessions import connect

logger = logging.getLogger(__name__)

Fault = Run.Fault
WATCH_SECONDS = 0.25
IDLE_BEAT_SECONDS = 30.0
AFTER_FAULT_SECONDS = 1.0
TAKEN = Failure(Fault.LEASE_LOST, "Another job worker has taken it over.")


class LeaseKeeper:
    """Holds the attempts that the job worker has claimed and not reported yet."""

    def __init__(self, ref: int, light: ThreadExecutor) -> None:
        self._ref, self._light = ref, light
        self._held: dict[UUID, Attempt] = {}
        self._newest: dict[int, Attempt] = {}
        self._lock = threading.Condition()
        self._connection: Any = None
        self._beat_due = time.monotonic() + IDLE_BEAT_SECONDS
        self._wants_beat = False
        self._is_stopping = False
        self._is_watched = False
        self.done = 0
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            self._lock.notify()
        self._thread.join(10)

    def hold(self, attempt: Attempt) -> None:
        with self._lock:
            older = self._newest.get(attempt.run.id)
            self._held[attempt.run.token] = self._newest[attempt.run.id] = attempt
            self._beat_due = min(self._beat_due, time.monotonic() + attempt.spec.heartbeat_seconds)
            self._lock.notify()
        if older is not None:  # this process was frozen, lost the run and claimed it again: the new claim counts
            older.tell_to_stop(TAKEN)

    def let_go(self, tokens: list[UUID]) -> None:
        """Called before the results are written: no further heartbeat renews these leases."""
        with self._lock:
            for token in tokens:
                gone = self._held.pop(token, None)
                if gone is not None and self._newest.get(gone.run.id) is gone:
                    del self._newest[gone.run.id]

    def beat_now(self) -> None:
        """A run may have been cancelled: send a heartbeat at once and read the answer."""
        with self._lock:
            self._wants_beat = True
            self._lock.notify()

    def stop_everything(self, reason: Failure) -> None:
        for attempt in self._snapshot().values():
            attempt.tell_to_stop(reason)

    def __len__(self) -> int:
        return len(self._held)

    def _snapshot(self) -> dict[UUID, Attempt]:
        with self._lock:
            return dict(self._held)

    def _run(self) -> None:
        while not self._is_stopping:
            with self._lock:
                if not self._wants_beat and not self._is_stopping:
                    idle = max(0.0, self._beat_due - time.monotonic())
                    self._lock.wait(min(WATCH_SECONDS, idle) if self._held else idle)
            try:
                held = self._snapshot()
                self._watch(held)
                if self._wants_beat or time.monotonic() >= self._beat_due:
                    self._wants_beat = False
                    self._beat_guarded(held)
            except Exception:  # without this thread every lease would expire: continue after any error
                logger.exception("The lease keeper failed unexpectedly; it continues.")
                self._beat_due = time.monotonic() + AFTER_FAULT_SECONDS
        if self._connection is not None:
            self._connection.close()

    def _beat_guarded(self, held: dict[UUID, Attempt]) -> None:
        try:
            self._beat(held)
            interval = min((attempt.spec.heartbeat_seconds for attempt in held.values()), default=IDLE_BEAT_SECONDS)
        except (psycopg.Error, OSError) as error:
            logger.warning("A heartbeat could not reach the database; trying again. error=%s", str(error).strip())
            if self._connection is not None:
                self._connection.close()
            self._connection, interval = None, AFTER_FAULT_SECONDS
        self._beat_due = time.monotonic() + interval

    def _beat(self, held: dict[UUID, Attempt]) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = connect("airlock worker heartbeat", WORKERS)
            self._connection.execute("SET lock_timeout = '2s'")
        show_alive(self._connection, self._ref, self.done)
        leases = {token: Held(attempt.run.id, attempt.spec.lease_seconds) for token, attempt in held.items()}
        beat = renew(self._connection, leases)
        if held and not self._is_watched:
            ask_leader_to_watch(self._connection)
        self._is_watched = bool(held)
        still = self._snapshot()  # an attempt that ended meanwhile is no longer held; ignore its refusal
        for token in beat.lost & still.keys():
            logger.warning("A lease is lost; its handler is asked to stop. run=%s", still[token].run.id)
            still[token].tell_to_stop(TAKEN)
        for token, reason in beat.cancelled.items():
            if token in still:
                still[token].tell_to_stop(Failure(Fault.CANCELLED, reason))

    def _watch(self, held: dict[UUID, Attempt]) -> None:
        """Enforce time limits. A process that does not stop is killed by its executor; a thread is abandoned here."""
        for attempt in held.values():
            if attempt.is_ended:
                continue
            if attempt.is_over_time:
                limit = attempt.spec.timeout_seconds
                attempt.tell_to_stop(Failure(Fault.RUN_TIMEOUT, f"It took longer than its limit of {limit:g} s."))
            if attempt.is_out_of_grace() and not attempt.spec.is_heavy:
                assert attempt.stop_reason is not None
                logger.error("A handler does not stop; its thread is abandoned. run=%s", attempt.run.id)
                self._light.give_up(attempt, attempt.stop_reason)
