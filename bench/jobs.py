"""Measures throughput, pick-up time, lateness and idle cost of runs, with real job workers and schedulers."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.idle import cpu_ms, sessions_and_helpers
from bench.metric import Metric

ROOT = Path(__file__).resolve().parent.parent
WINDOW_SECONDS, WINDOWS, SETTLE_SECONDS = 30, 5, 35
BURST = 10_000

RUNS = """
INSERT INTO jobs_run (job_id, scope, trigger, run_at, created_at, requested_by, priority, turn, key, owner, state,
    state_since_at, attempt, attempts_forgiven, attempts_allowed, is_exclusive, is_reentrant, worker_name,
    orphaned_times, cancel_reason, progress_text, error_code, error, errors, finished_at)
SELECT %(job)s, '', 'queue', at, at, '', 0, 1, '', '', CASE WHEN n %% 10 = 0 THEN 'scheduled' ELSE 'succeeded' END,
    at, 1, 0, 1, false, true, '', 0, '', '', '', '', '[]', at
FROM (SELECT n, now() + CASE WHEN n %% 10 = 0 THEN interval '2 hours' ELSE interval '-2 hours' END AS at
      FROM generate_series(1, %(count)s) AS n) AS rows
"""


class Fleet:
    """Job workers and schedulers as processes, and what their handlers recorded."""

    def __init__(self, *, workers: int = 2, schedulers: int = 0, scopes: int = 0) -> None:
        from django.conf import settings

        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="airlock-bench-", dir=base)
        self.folder = Path(self._folder.name)
        database = settings.DATABASES["default"]
        self._environment = {
            **os.environ,
            "JOB_MODULES": "bench.handlers",
            "AIRLOCK_BENCH_FOLDER": str(self.folder),
            "AIRLOCK_BENCH_SCOPES": str(scopes),
            "DATABASE_URL": f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}",
        }
        self.processes = [self._start("runworker", "--concurrency", "16") for _ in range(workers)]
        self.processes += [self._start("runscheduler") for _ in range(schedulers)]
        self._wait_for_workers(workers)

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "manage.py", *command], cwd=ROOT, env=self._environment)

    def _wait_for_workers(self, count: int) -> None:
        from jobs.models import JobWorker

        deadline = time.monotonic() + 30
        while JobWorker.objects.filter(ended_at=None).count() < count:
            if time.monotonic() > deadline:
                sys.exit("the job workers did not start")
            time.sleep(0.05)
        time.sleep(1.0)

    def began(self, count: int, seconds: float) -> list[tuple[int, int]]:
        """(run, when in ns) of every run that began, once there are `count` of them or the time is up."""
        deadline = time.monotonic() + seconds
        while True:
            lines = [line for path in self.folder.glob("began-*") for line in path.read_text().splitlines()]
            if len(lines) >= count or time.monotonic() > deadline:
                return [(int(run), int(at)) for run, at in (line.split() for line in lines)]
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(30)
        self._folder.cleanup()


@contextlib.contextmanager
def fleet(*, workers: int = 2, schedulers: int = 0, scopes: int = 0) -> Iterator[Fleet]:
    clear()
    made = Fleet(workers=workers, schedulers=schedulers, scopes=scopes)
    try:
        yield made
    finally:
        made.stop()
        clear()


def clear() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_run, jobs_runevent, jobs_jobcursor, jobs_jobworker")


def declare() -> None:
    """Declare the jobs in this process, too: it queues runs."""
    from importlib import import_module

    import_module("bench.handlers")


def measure_throughput(runs: int = 3) -> Metric:
    from jobs.definitions import registration
    from jobs.models import Run
    from jobs.runs.queue import Order, enqueue_many, job_row
    from station.clock import database_now

    rates = []
    for _ in range(runs):
        with fleet() as workers:
            job = job_row("bench.queued")
            registration.pause(job, now=database_now(), by="bench")
            pks = enqueue_many("bench.queued", [Order() for _ in range(BURST)])
            began_at = time.time()
            registration.resume(job, now=database_now(), by="bench")
            found = workers.began(BURST, 60)
            while Run.objects.filter(state__in=["queued", "running"]).exists():
                time.sleep(0.05)
            last = Run.objects.order_by("-finished_at").values_list("finished_at", flat=True).first()
            assert last is not None
            assert sorted(run for run, _ in found) == sorted(pks), "not every run ran exactly once"
            assert Run.objects.filter(state="succeeded", attempt=1).count() == BURST
            rates.append(BURST / (last.timestamp() - began_at))
    method = (
        f"{BURST} queued runs that do nothing, two job workers, until the last one's end is stored; each exactly once"
    )
    return Metric("runs_per_s", round(statistics.median(rates)), "runs/s", "at least 3000", runs, method)


def measure_pickup(count: int = 300) -> list[Metric]:
    from jobs.runs.queue import enqueue

    with fleet() as workers:
        asked = {}
        for number in range(count):
            at = time.time_ns()
            asked[enqueue("bench.queued").pk] = at
            time.sleep(0.02 + 0.0137 * (number % 3))
        found = workers.began(count, 20)
    late = sorted((at - asked[run]) / 1e6 for run, at in found)
    assert len(late) == count, f"{len(late)} of {count} began"
    method = f"{count} runs queued one at a time, two idle job workers: from the queueing call to the handler's begin"
    p50, p99 = statistics.median(late), late[int(len(late) * 0.99)]
    return [
        Metric("run_pickup_p50_ms", round(p50, 2), "ms", "under 10", count, method),
        Metric("run_pickup_p99_ms", round(p99, 2), "ms", "under 50", count, method),
    ]


def measure_fires() -> list[Metric]:
    """Planned runs: 10,000 scopes at a full minute, with a grid and cron jobs at the same time."""
    from jobs.models import JobCursor, Run

    with fleet(schedulers=2, scopes=BURST) as workers:
        deadline = time.monotonic() + 60
        while JobCursor.objects.count() < BURST and time.monotonic() < deadline:
            time.sleep(0.2)
        begin = datetime.now(UTC) + timedelta(seconds=20)
        minute = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
        time.sleep(max(0.0, minute.timestamp() + 12 - time.time()))
        found = dict(workers.began(BURST, 10))
        rows = Run.objects.filter(pk__in=list(found), trigger="plan").values_list("pk", "planned_at", "job__name")
        late = [
            (name, planned_at, found[pk] / 1e6 - planned_at.timestamp() * 1000)
            for pk, planned_at, name in rows
            if planned_at is not None
        ]
    burst = [ms for name, at, ms in late if name == "bench.burst" and at == minute]
    assert len(burst) == BURST, f"{len(burst)} of {BURST} began"
    calm = [ms for name, at, ms in late if name == "bench.grid" and not minute <= at < minute + timedelta(seconds=5)]
    return [
        Metric(
            "run_burst_10000_last_ms",
            round(max(burst), 1),
            "ms",
            "under 2000",
            1,
            f"{BURST} scopes of a job at one instant, two schedulers, two job workers: until the last handler begins",
        ),
        Metric(
            "run_grid_lateness_p50_ms", round(statistics.median(calm), 2), "ms", "under 10", len(calm), "grid of 0.7 s"
        ),
    ]


def measure_cron() -> Metric:
    """Cron jobs at a full minute, with nothing else due."""
    from jobs.models import Run

    late: list[float] = []
    with fleet(schedulers=2, scopes=1) as workers:
        minute = (datetime.now(UTC) + timedelta(seconds=20)).replace(second=0, microsecond=0) + timedelta(minutes=1)
        time.sleep(max(0.0, minute.timestamp() + 3 - time.time()))
        found = dict(workers.began(20, 5))
        rows = Run.objects.filter(pk__in=list(found), trigger="plan", job__name__startswith="bench.cron_")
        late = [
            found[pk] / 1e6 - at.timestamp() * 1000 for pk, at in rows.values_list("pk", "planned_at") if at is not None
        ]
        late += [
            found[pk] / 1e6 - at.timestamp() * 1000
            for pk, at in Run.objects.filter(pk__in=list(found), job__name="bench.grid").values_list("pk", "planned_at")
            if at is not None
        ]
    method = (
        "five cron jobs at a full minute and a grid of 0.7 s, two schedulers, two job workers: until the handler begins"
    )
    return Metric("run_cron_lateness_p50_ms", round(statistics.median(late), 2), "ms", "under 10", len(late), method)


def measure_idle_at(stored: int) -> tuple[float, str]:
    from django.db import connection

    from jobs.runs.queue import job_row

    with fleet(schedulers=1) as processes:
        with connection.cursor() as cursor:
            cursor.execute(RUNS, {"job": job_row("bench.queued").pk, "count": stored})
            cursor.execute("VACUUM (FREEZE, ANALYZE)")
            cursor.execute("CHECKPOINT")
        time.sleep(SETTLE_SECONDS)
        pids = {process.pid for process in processes.processes}
        sessions, _ = sessions_and_helpers()
        windows = []
        for _ in range(WINDOWS):
            before = cpu_ms(pids | sessions)
            time.sleep(WINDOW_SECONDS)
            windows.append((cpu_ms(pids | sessions) - before) / WINDOW_SECONDS)
    return statistics.median(windows), ", ".join(f"{each:.3f}" for each in windows)


def measure_run_idle() -> list[Metric]:
    declare()
    small, small_detail = measure_idle_at(1000)
    large, large_detail = measure_idle_at(1_000_000)
    method = (
        f"processor time of two job workers, a scheduler and their sessions, nothing due, median of {WINDOWS} windows: "
    )
    return [
        Metric("run_idle_ms_per_s_1k", round(small, 3), "ms/s", "–", WINDOWS, method + small_detail),
        Metric("run_idle_ms_per_s_1m", round(large, 3), "ms/s", "flat", WINDOWS, method + large_detail),
    ]


def measure_jobs() -> list[Metric]:
    declare()
    return [measure_throughput(), *measure_pickup(), *measure_fires(), measure_cron()]
