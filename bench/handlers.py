"""The jobs of the benchmarks: they record when they began, nothing else. Loaded with JOB_MODULES=bench.handlers."""

import os
import time
from pathlib import Path

from jobs.definitions.job_decorator import by_cron, every, job
from jobs.definitions.run_context import RunContext

FOLDER = os.environ.get("AIRLOCK_BENCH_FOLDER", "/tmp")
SCOPES = int(os.environ.get("AIRLOCK_BENCH_SCOPES", "0"))
CRON_JOBS = 5
_file = -1


def note(run: RunContext) -> None:
    """Record which run began when, in one atomic write."""
    global _file
    began = time.time_ns()
    if _file < 0:
        _file = os.open(Path(FOLDER) / f"began-{os.getpid()}", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.write(_file, f"{run.id} {began}\n".encode())


@job("bench.queued", attempts=1)
def queued(run: RunContext) -> None:
    """A run from the queue."""
    note(run)


if SCOPES:

    @job("bench.burst", when=every(60.0), scopes=lambda: [f"s{n}" for n in range(SCOPES)], attempts=1)
    def burst(run: RunContext) -> None:
        """Is due in every scope at the same time."""
        note(run)

    @job("bench.grid", when=every(0.7), attempts=1)
    def grid(run: RunContext) -> None:
        """Is due every 0.7 s."""
        note(run)

    for number in range(CRON_JOBS):
        job(f"bench.cron_{number}", when=by_cron("* * * * *", "Europe/Berlin"), attempts=1)(note)
