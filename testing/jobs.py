"""Jobs for the tests and benchmarks, one for each way a handler can behave. Loaded with JOB_MODULES=testing.jobs."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.definitions.fire_times import CatchUp
from jobs.definitions.job_decorator import every, job
from jobs.definitions.run_context import RunContext

STEP_SECONDS = 0.05
QUICK = {"heartbeat_seconds": 0.3, "lease_seconds": 3.0, "backoff_seconds": (0.2,)}


@dataclass(frozen=True)
class Note:
    """Append a line to a file at the start and, after some seconds, at the end."""

    path: str
    text: str = ""
    seconds: float = 0.0


def write(note: Note, word: str, run: RunContext) -> None:
    with Path(note.path).open("a") as handle:
        handle.write(f"{word} {run.id} {run.attempt} {os.getpid()} {time.time():.6f} {note.text}\n")


@job("test.noop", attempts=1)
def noop(run: RunContext) -> None:
    """Do nothing."""


@job("test.note", payload=Note, attempts=5, **QUICK)
def note(run: RunContext, order: Note) -> dict[str, Any]:
    """Write a line at the start and at the end, and stop when asked to."""
    write(order, "begin", run)
    # Counted in steps, not by the clock: a process that was frozen still has the same work to do.
    steps = round(order.seconds / STEP_SECONDS)
    for step in range(steps):
        run.report(100 * step / steps, "on my way")
        run.sleep(STEP_SECONDS)
    write(order, "end", run)
    return {"text": order.text}


@job("test.once", payload=Note, attempts=1, is_reentrant=False, **QUICK)
def once(run: RunContext, order: Note) -> None:
    """Like note, but not safe to repeat."""
    note(run, order)


@job("test.stubborn", payload=Note, attempts=1, timeout_seconds=0.5, **QUICK)
def stubborn(run: RunContext, order: Note) -> None:
    """Runs in a thread and ignores requests to stop."""
    write(order, "begin", run)
    time.sleep(order.seconds)
    write(order, "end", run)


def leave() -> None:
    raise SystemExit(4)


def fail() -> None:
    raise ValueError("the tape is torn; token=Zx81Zx81Zx81")


def hang_for_ever() -> None:
    while True:
        time.sleep(60)


WAYS_TO_FAIL: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(3),
    "sys.exit": leave,
    "segfault": lambda: os.kill(os.getpid(), 11),
    "eat": lambda: bytearray(2_000_000_000),
    "raise": fail,
    "hang": hang_for_ever,
}


@job("test.heavy", payload=Note, attempts=2, timeout_seconds=30, isolation="process", memory_mb=300, **QUICK)
def heavy(run: RunContext, order: Note) -> dict[str, Any]:
    """Runs in its own process and behaves as the text says."""
    write(order, "begin", run)
    if order.text in WAYS_TO_FAIL:
        WAYS_TO_FAIL[order.text]()
    if order.text == "nonsense":
        return {"file": object()}
    if order.text == "half":
        return {"file": "clip-\udcff.mp4"}  # as os.listdir gives a name that is not UTF-8
    end = time.monotonic() + order.seconds
    while time.monotonic() < end:
        run.sleep(0.05)
    write(order, "end", run)
    return {"pid": os.getpid()}


@job("test.patient", payload=Note, attempts=2)
def patient(run: RunContext, order: Note) -> None:
    """Like note, with the leases and pauses that a job has by default."""
    note(run, order)


@job("test.hang", payload=Note, attempts=1, timeout_seconds=1, isolation="process", **QUICK)
def hang(run: RunContext, order: Note) -> None:
    """Never ends by itself."""
    write(order, "begin", run)
    while True:
        time.sleep(60)


@job("test.killer", payload=Note, attempts=10, **QUICK)
def killer(run: RunContext, order: Note) -> None:
    """Kills its job worker every time (poison)."""
    write(order, "begin", run)
    os.kill(os.getpid(), 9)


@job("test.two_at_once", payload=Note, concurrency=2, **QUICK)
def two_at_once(run: RunContext, order: Note) -> None:
    """At most two runs at once over all job workers."""
    note(run, order)


@job("test.often", when=every(1.0), catch_up=CatchUp("latest"), attempts=1, **QUICK)
def often(run: RunContext) -> None:
    """Is due every second."""


@job("test.crontab", when=every(3600.0), catch_up=CatchUp("every", window_seconds=7200, per_turn=2), attempts=1)
def crontab(run: RunContext) -> None:
    """Is due every hour; missed hours are made up."""
