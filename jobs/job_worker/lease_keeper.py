"""The worker's second pulse, on a thread and a connection of its own: leases, cancellations, time limits.

It renews every lease the worker holds, hears what people want stopped, and ends what takes too long. A database that
is away is not a lost lease: it is asked again until it answers, and only an explicit refusal is a loss (J-09).
"""

import logging
import threading
import time
from typing import Any
from uuid import UUID

import psycopg

from jobs.job_worker.executors import Attempt, LightLane
from jobs.models import Run
from jobs.runs.finishing import Failure
from jobs.runs.leases import Held, renew, show_alive
from station.database.sessions import connect

logger = logging.getLogger(__name__)

Fault = Run.Fault
WATCH_SECONDS = 0.25
IDLE_BEAT_SECONDS = 30.0
AFTER_FAULT_SECONDS = 1.0
TAKEN = Failure(Fault.LEASE_LOST, "Another worker has taken it over.")


class Keeper:
    """Holds what the worker has claimed and not yet reported."""

    def __init__(self, ref: int, light: LightLane) -> None:
        self._ref, self._light = ref, light
        self._held: dict[UUID, Attempt] = {}
        self._newest: dict[int, Attempt] = {}
        self._lock = threading.Condition()
        self._connection: Any = None
        self._beat_due = time.monotonic() + IDLE_BEAT_SECONDS
        self._wants_beat = False
        self._is_stopping = False
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
        if older is not None:  # we were frozen, lost it, and have it again: only the new claim counts
            older.tell_to_stop(TAKEN)

    def let_go(self, tokens: list[UUID]) -> None:
        """Before their end is written: from here on no heartbeat of ours touches them."""
        with self._lock:
            for token in tokens:
                gone = self._held.pop(token, None)
                if gone is not None and self._newest.get(gone.run.id) is gone:
                    del self._newest[gone.run.id]

    def beat_now(self) -> None:
        """Somebody was told to be cancelled: ask at once."""
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
            except Exception:  # without this thread every lease would run out: it goes on, whatever it met
                logger.exception("The keeper of leases met something unforeseen.")
                self._beat_due = time.monotonic() + AFTER_FAULT_SECONDS
        if self._connection is not None:
            self._connection.close()

    def _beat_guarded(self, held: dict[UUID, Attempt]) -> None:
        try:
            self._beat(held)
            interval = min((attempt.spec.heartbeat_seconds for attempt in held.values()), default=IDLE_BEAT_SECONDS)
        except (psycopg.Error, OSError) as error:
            logger.warning("The heartbeat found no database; asking again. error=%s", str(error).strip())
            if self._connection is not None:
                self._connection.close()
            self._connection, interval = None, AFTER_FAULT_SECONDS
        self._beat_due = time.monotonic() + interval

    def _beat(self, held: dict[UUID, Attempt]) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = connect("airlock worker heartbeat")
            self._connection.execute("SET lock_timeout = '2s'")
        show_alive(self._connection, self._ref, self.done)
        leases = {token: Held(attempt.run.id, attempt.spec.lease_seconds) for token, attempt in held.items()}
        beat = renew(self._connection, leases)
        still = self._snapshot()  # what ended meanwhile was let go, and a refusal of it means nothing
        for token in beat.lost & still.keys():
            logger.warning("A lease is lost; its handler is told to stop. run=%s", still[token].run.id)
            still[token].tell_to_stop(TAKEN)
        for token, reason in beat.cancelled.items():
            if token in still:
                still[token].tell_to_stop(Failure(Fault.CANCELLED, reason))

    def _watch(self, held: dict[UUID, Attempt]) -> None:
        """Time limits. What does not stop when told is ended (a process) or given up (a thread)."""
        for attempt in held.values():
            if attempt.is_ended:
                continue
            if attempt.is_over_time:
                limit = attempt.spec.timeout_seconds
                attempt.tell_to_stop(Failure(Fault.RUN_TIMEOUT, f"It took longer than the {limit:g} s it may take."))
            if attempt.is_out_of_grace() and not attempt.spec.is_heavy:
                assert attempt.stop_reason is not None
                logger.error("A handler does not stop; its thread is given up. run=%s", attempt.run.id)
                self._light.give_up(attempt, attempt.stop_reason)
