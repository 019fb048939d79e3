"""One job worker: it claims runs, executes them and writes their results. `manage.py runworker` runs it.

The main thread claims and sleeps until a run is due, a NOTIFY arrives, or a slot is free. The executors run handlers,
the result writer writes results, the lease keeper renews leases. A slow run blocks only its own slot.
"""

import contextlib
import logging
import signal
import threading
import time
from datetime import datetime, timedelta
from types import FrameType

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from jobs.definitions.job_decorator import JobSpec, registry
from jobs.definitions.registration import row_of
from jobs.job_worker.executors import Attempt, ProcessExecutor, ThreadExecutor
from jobs.job_worker.handler_call import Outcome
from jobs.job_worker.lease_keeper import LeaseKeeper
from jobs.job_worker.notifications import STARTED, Notifications
from jobs.job_worker.peers import Peers
from jobs.job_worker.result_writer import ResultWriter
from jobs.models import JobWorker, Run
from jobs.runs import claiming, process_records, promotion, sweeping
from jobs.runs.claiming import Claimant, Claimed
from jobs.runs.finishing import Failure
from station.clock import database_now
from station.database.notify import wake_workers

logger = logging.getLogger(__name__)

LIGHT_PER_HEAVY = 8
ABANDONED_LIMIT = 4
UNREPORTED_LIMIT = 1000
# While the queue is full: this many claims, or this long, before it checks again for runs that have come due.
CLAIMS_IN_A_ROW = 10
LOOK_SECONDS = 0.1
# Runs join the queue this long before they are due.
PROMOTE_AHEAD = timedelta(seconds=2)
# Shortly before a run is due, an empty claim warms up the connection: a cold claim takes three times as long.
WARM_UP_SECONDS = 0.02
# A job worker that starts on this machine says so; this is for the case that it was not heard.
PEERS_SECONDS = 60.0
BACKOFF_SECONDS = (0.1, 0.25, 0.5, 1.0)
STOPPED = Failure(Run.Fault.WORKER_STOPPED, "The job worker was stopped before the run was over.")


class NoSuchJobs(Exception):
    """The job worker was asked to work on jobs that are not declared."""


class Worker:
    def __init__(self, *, concurrency: int, only: list[str] | None = None) -> None:
        unknown = sorted(set(only or []) - registry.jobs.keys())
        if unknown:
            raise NoSuchJobs(f"There is no job called {', '.join(unknown)}.")
        self.only = only or []
        self.row: JobWorker | None = None
        self._specs: dict[int, JobSpec] = {}
        self._known_version = -1
        self._stop = threading.Event()
        self._notifications = Notifications()
        self._unreported = 0
        self._wants_room = False
        self._count_lock = threading.Lock()
        self._latest_only: list[int] = []
        self._free: list[int] = []
        self._counted: list[int] = []
        self._clock: tuple[datetime, float] | None = None
        self._looked_at = 0.0
        self.light = ThreadExecutor(concurrency * LIGHT_PER_HEAVY, self._ended)
        self.heavy = ProcessExecutor(concurrency, self._ended)
        self.exit_code = 0

    # --- start and stop ---

    def run(self) -> int:
        """Work until asked to stop. Returns the exit code: 0, or 1 if the process must be restarted."""
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        signal.signal(signal.SIGINT, self.ask_to_stop)
        self.open()
        failures = 0
        while not self._stop.is_set():
            try:
                self._sleep(self.turn())
                failures = 0
            except (DatabaseError, InterfaceError, psycopg.Error) as error:
                logger.error("The database does not answer; trying again. error=%s", str(error).strip())
                self._notifications.close()
                connection.close()
                self._stop.wait(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
                failures += 1
            self._leave_if_broken()
        self.close()
        return self.exit_code

    def _leave_if_broken(self) -> None:
        """A job worker that cannot renew leases or report must not claim: it exits, and its supervisor restarts it."""
        reason = ""
        if self.light.abandoned >= ABANDONED_LIMIT:
            reason = "too many threads do not return"
        elif not (self.keeper.is_alive and self.result_writer.is_alive):
            reason = "one of its own threads died"
        if reason:
            logger.error("The job worker exits and must be restarted: %s.", reason)
            self.exit_code = 1
            self._stop.set()

    def open(self) -> None:
        """Register this job worker and start its threads. Raises PoolingRefused."""
        self._notifications.open()
        self.row = process_records.register(
            heavy=self.heavy.slots, light=self.light.slots, only=self.only, now=database_now()
        )
        self._who = Claimant(self.row.pk, self.row.name)
        self.keeper = LeaseKeeper(self.row.pk, self.light)
        self.result_writer = ResultWriter(self.row.name, self.keeper.let_go, self._reported)
        self._peers = Peers(self.row.pk)
        self.keeper.start()
        self.result_writer.start()
        self._watch_peers()
        wake_workers(STARTED)
        logger.info(
            "The job worker starts. worker=%s light=%s heavy=%s", self.row.name, self.light.slots, self.heavy.slots
        )

    def ask_to_stop(self, signum: int | None = None, frame: FrameType | None = None) -> None:
        self._stop.set()
        self._notifications.wake()

    def close(self) -> None:
        """Give running runs time to finish, then ask them to stop; write all results; sign off."""
        deadline = time.monotonic() + settings.JOB_WORKER_STOP_SECONDS
        while len(self.keeper) and time.monotonic() < deadline:
            time.sleep(0.05)
        if len(self.keeper):
            self.keeper.stop_everything(STOPPED)
            deadline = time.monotonic() + 5
            while len(self.keeper) and time.monotonic() < deadline:
                time.sleep(0.05)
        self.light.close()
        is_all = self.result_writer.stop(10)
        self.keeper.stop()
        self._peers.close()
        self._notifications.close()
        if self.row is not None and is_all:
            with contextlib.suppress(DatabaseError, InterfaceError):
                close_old_connections()
                process_records.sign_off(self.row, self.keeper.done, database_now())
        logger.info("The job worker ends. runs=%s", self.keeper.done)

    # --- one turn ---

    def turn(self) -> float:
        """Claim runs while there is room and promote runs that are nearly due. Returns the seconds to sleep."""
        self._notifications.open()
        self._know_jobs()
        while True:
            # Claim ready runs first: after a NOTIFY, or when a run is due, nothing must delay them. The question below
            # begins where the claim ended: a run that becomes due between the two is found by it.
            now = self._now()
            claimed = self._claim(self._free, now)
            if claimed and time.monotonic() - self._looked_at < LOOK_SECONDS and not self._stop.is_set():
                continue
            self._looked_at = time.monotonic()
            look = claiming.look(self._counted, now)
            self._clock = (look.now, time.monotonic())
            claimed += self._claim_counted(look)
            ahead = look.now + PROMOTE_AHEAD
            promoted = 0
            if look.waits_until is not None and look.waits_until <= ahead:
                promoted = promotion.promote(look.now, ahead, self._latest_only)
            if self._stop.is_set() or not (claimed or promoted):
                break
        if look.instant is not None and (look.instant - self._now()).total_seconds() <= 2 * WARM_UP_SECONDS:
            claiming.warm_up(self._specs, self._who, look.now)
        return self._seconds_until_next(look)

    def _seconds_until_next(self, look: claiming.Look) -> float:
        seconds: float = settings.JOB_WORKER_TICK_SECONDS
        now = self._now()
        if look.waits_until is not None:
            seconds = min(seconds, (look.waits_until - PROMOTE_AHEAD - now).total_seconds())
        if look.instant is not None:
            left = (look.instant - now).total_seconds()
            seconds = min(seconds, left - WARM_UP_SECONDS if left > 2 * WARM_UP_SECONDS else left)
        return max(0.0, seconds)

    def _now(self) -> datetime:
        """The database's clock, extrapolated from the last poll."""
        if self._clock is None:
            self._clock = (database_now(), time.monotonic())
        moment, at = self._clock
        return moment + timedelta(seconds=time.monotonic() - at)

    def _claim(self, jobs: list[int], now: datetime) -> int:
        """Claim while there is room and work. Returns how many were claimed."""
        total = 0
        self._wants_room = False
        for lane, is_heavy in ((self.light, False), (self.heavy, True)):
            mine = [job for job in jobs if self._specs[job].is_heavy == is_heavy]
            for _ in range(CLAIMS_IN_A_ROW if mine else 0):
                if not self._has_room(lane):
                    break
                runs = claiming.claim(self._specs, mine, lane.room, self._who, now)
                self._begin(runs, lane)
                if not runs:
                    break
                total += len(runs)
        return total

    def _claim_counted(self, look: claiming.Look) -> int:
        total = 0
        for job in look.ready:
            spec = self._specs[job]
            lane = self.heavy if spec.is_heavy else self.light
            if self._has_room(lane):
                runs = claiming.claim_counted(job, spec, lane.room, self._who, look.now)
                self._begin(runs, lane)
                total += len(runs)
        return total

    def _has_room(self, lane: ThreadExecutor | ProcessExecutor) -> bool:
        if self._stop.is_set():
            return False
        if lane.room <= 0 or self._unreported >= UNREPORTED_LIMIT:
            self._wants_room = True  # set before the second check: a run that ended before it did not wake this thread
        return lane.room > 0 and self._unreported < UNREPORTED_LIMIT

    def _begin(self, runs: list[Claimed], lane: ThreadExecutor | ProcessExecutor) -> None:
        for run in runs:
            attempt = Attempt(self._specs[run.job_id], run)
            with self._count_lock:
                self._unreported += 1
            self.keeper.hold(attempt)
            lane.put(attempt)

    def _ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """An executor is done with it: hand the outcome to the result writer; the slot is free."""
        self.result_writer.put(attempt, outcome)
        if self._wants_room:
            self._notifications.wake()

    def _reported(self, count: int, will_retry: bool) -> None:
        with self._count_lock:
            self._unreported -= count
        self.keeper.done += count
        if self._wants_room or will_retry:
            self._notifications.wake()

    def _know_jobs(self) -> None:
        """Read the rows of the declared jobs, create missing ones, and record what this process declares."""
        if self._known_version == registry.version:
            return
        version = registry.version
        mine = [spec for spec in list(registry.jobs.values()) if not self.only or spec.name in self.only]
        self._specs = {row_of(spec).pk: spec for spec in mine}
        self._free = [pk for pk, spec in self._specs.items() if not spec.concurrency]
        self._counted = [pk for pk, spec in self._specs.items() if spec.concurrency]
        self._latest_only = [
            pk for pk, spec in self._specs.items() if spec.when is not None and spec.catch_up.mode == "latest"
        ]
        if self.row is not None:
            JobWorker.objects.filter(pk=self.row.pk).update(declares=process_records.declared_here())
        self._known_version = version

    def _watch_peers(self) -> None:
        """J-28: rescue the runs of job workers that died on this machine, and watch those that live."""
        if self._peers.read() and sweeping.bury(database_now(), by_silence=False):
            wake_workers()
        self._peers.forget_dead()
        self._peers_read_at = time.monotonic()

    def _sleep(self, seconds: float) -> None:
        """Sleep until the time is up, a NOTIFY arrives, a slot is free, a peer dies, or the job worker must stop."""
        woken = self._notifications.wait(seconds, self._peers.pidfds)
        if woken.is_cancel:
            self.keeper.beat_now()
        if woken.has_died or woken.has_started or time.monotonic() - self._peers_read_at > PEERS_SECONDS:
            self._watch_peers()
