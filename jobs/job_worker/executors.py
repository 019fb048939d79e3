"""Executes runs: light ones in threads, heavy ones (that may hang, crash or use much memory) in a process each.

A thread cannot be killed. One that does not return in time is abandoned: its run ends as failed and a new thread takes
its place. With too many abandoned threads the job worker exits (`abandoned`).
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections

from jobs.definitions.job_decorator import JobSpec
from jobs.definitions.run_context import RunContext
from jobs.job_worker.handler_call import Outcome, call
from jobs.models import Run
from jobs.runs.claiming import Claimed
from jobs.runs.finishing import Failure

Fault = Run.Fault
GRACE_SECONDS = 3.0
CHECK_SECONDS = 0.2
PRELOAD = "jobs.job_worker.child_process"


class Attempt:
    """One run being executed. Any thread may ask it to stop; it ends once."""

    def __init__(self, spec: JobSpec, run: Claimed) -> None:
        self.spec, self.run = spec, run
        self.context = RunContext(run.id, spec.name, run.scope, run.attempt, run.trigger, run.planned_at, run.token)
        self.began = time.monotonic()
        self.stop_reason: Failure | None = None
        self.told_at = 0.0
        self.is_ended = False
        self._lock = threading.Lock()

    @property
    def is_over_time(self) -> bool:
        return time.monotonic() - self.began > self.spec.timeout_seconds

    def tell_to_stop(self, reason: Failure) -> None:
        """The first reason is kept."""
        with self._lock:
            if self.stop_reason is None:
                self.stop_reason, self.told_at = reason, time.monotonic()
        self.context.stop()

    def is_out_of_grace(self) -> bool:
        return self.stop_reason is not None and time.monotonic() - self.told_at > GRACE_SECONDS

    def judge(self, outcome: Outcome) -> Outcome:
        """A handler that stopped on request ends with the reason of that request. A success stays a success."""
        if not isinstance(outcome, Failure) or outcome.code not in {Fault.CANCELLED, Fault.HANDLER_CRASH}:
            return outcome
        if self.stop_reason is None and outcome.code == Fault.CANCELLED:
            return Failure(Fault.WORKER_STOPPED, "The process received a stop signal from outside.")
        return self.stop_reason or outcome

    def end_once(self) -> bool:
        """True for the first caller only."""
        with self._lock:
            first, self.is_ended = not self.is_ended, True
            return first


Ended = Callable[[Attempt, Outcome], None]


class ThreadExecutor:
    """Executes light runs in threads of this process. A thread is started when it is needed first, and stays."""

    def __init__(self, slots: int, ended: Ended) -> None:
        self.slots = slots
        self._ended = ended
        self._work: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self.busy = 0
        self.abandoned = 0
        self._started = 0
        self._lock = threading.Lock()

    def _add_thread(self) -> None:
        self._started += 1
        threading.Thread(target=self._run, name=f"light-{self._started}", daemon=True).start()

    @property
    def room(self) -> int:
        return self.slots - self.busy

    def put(self, attempt: Attempt) -> None:
        with self._lock:
            self.busy += 1
            if self.busy > self._started - self.abandoned:
                self._add_thread()
        self._work.put(attempt)

    def give_up(self, attempt: Attempt, outcome: Outcome) -> None:
        """Abandon a thread that does not return: end the run. Another thread takes its place when it is needed."""
        if attempt.end_once():
            with self._lock:
                self.busy -= 1
                self.abandoned += 1
            self._ended(attempt, outcome)

    def close(self) -> None:
        for _ in range(self._started):
            self._work.put(None)

    def _run(self) -> None:
        try:
            while (attempt := self._work.get()) is not None:
                attempt.began = time.monotonic()
                close_old_connections()
                outcome = call(attempt.spec, attempt.context, attempt.run.payload)
                if not attempt.end_once():
                    return  # abandoned meanwhile; it is not counted any more
                with self._lock:
                    self.busy -= 1
                self._ended(attempt, attempt.judge(outcome))
        finally:
            connections.close_all()


class ProcessExecutor:
    """Executes each heavy run in a process of its own."""

    def __init__(self, slots: int, ended: Ended) -> None:
        self.slots = slots
        self._ended = ended
        self.busy = 0
        self._lock = threading.Lock()
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload([PRELOAD])

    @property
    def room(self) -> int:
        return self.slots - self.busy

    def put(self, attempt: Attempt) -> None:
        with self._lock:
            self.busy += 1
        name = f"heavy-{attempt.context.id}"
        threading.Thread(target=self._supervise, args=[attempt], name=name, daemon=True).start()

    def _supervise(self, attempt: Attempt) -> None:
        attempt.began = time.monotonic()
        try:
            outcome = self._execute(attempt)
        except Exception as error:  # noqa: BLE001  a process that cannot be started fails this run only
            outcome = Failure(Fault.HANDLER_CRASH, f"The process could not be started: {type(error).__name__}: {error}")
        with self._lock:
            self.busy -= 1
        if attempt.end_once():
            self._ended(attempt, attempt.judge(outcome))

    def _execute(self, attempt: Attempt) -> Outcome:
        mine, its = self._forks.Pipe(duplex=False)
        its_lifeline, lifeline = self._forks.Pipe(duplex=False)
        arguments = (its, its_lifeline, attempt.spec.handler.__module__, attempt.context, attempt.run.payload)
        from jobs.job_worker import child_process

        process = self._forks.Process(target=child_process.main, args=arguments, daemon=True)
        process.start()
        its.close()
        its_lifeline.close()
        try:
            return self._wait(attempt, process, mine)
        finally:
            _kill_group(process.pid)
            if process.is_alive():
                process.kill()
            process.join(5)
            mine.close()
            lifeline.close()

    def _wait(self, attempt: Attempt, process: Any, pipe: Any) -> Outcome:
        is_told = False
        while True:
            if pipe.poll(CHECK_SECONDS):
                try:
                    outcome: Outcome = pipe.recv()
                    return outcome
                except (EOFError, OSError):
                    process.join(2)
                    return Failure(Fault.HANDLER_CRASH, _how_it_ended(process.exitcode))
            if attempt.stop_reason is not None and not is_told:
                is_told = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
            if attempt.is_out_of_grace():
                assert attempt.stop_reason is not None
                return attempt.stop_reason


def _kill_group(pid: int | None) -> None:
    """Kill what the process started and left behind: it leads its own process group."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "The process stopped responding."
    if code < 0:
        name = signal.Signals(-code).name
        hint = " Out of memory?" if -code == signal.SIGKILL else ""
        return f"The process was killed by {name}.{hint}"
    return f"The process ended with exit code {code} and sent no result."
