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
    orphaned_times, cancel_reason, progress_text, error_code, error, unreadable_by, errors, finished_at)
SELECT %(job)s, '', 'queue', at, at, '', 0, 1, '', '', CASE WHEN n %% 10 = 0 THEN 'scheduled' ELSE 'succeeded' END,
    at, 1, 0, 1, false, true, '', 0, '', '', '', '', '', '[]', at
FROM (SELECT n, now() + CASE WHEN n %% 10 = 0 THEN interval '2 hours' ELSE interval '-2 hours' END AS at
      FROM generate_series(1, %(count)s) AS n) AS rows
"""


class Fleet:
    """Job workers and schedulers as processes, and what their handlers recorded."""

    def __init__(self, *, workers: int = 2, schedulers: int = 0, scopes: int = 0, concurrency: int = 16) -> None:
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
        self.processes = [self._start("runworker", "--concurrency", str(concurrency)) for _ in range(workers)]
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
def fleet(*, workers: int = 2, schedulers: int = 0, scopes: int = 0, concurrency: int = 16) -> Iterator[Fleet]:
    clear()
    made = Fleet(workers=workers, schedulers=schedulers, scopes=scopes, concurrency=concurrency)
    try:
        yield made
    finally:
        made.stop()
        clear()


def clear() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE jobs_run, jobs_runevent, jobs_jobcursor, jobs_jobworker, jobs_scheduler")


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
    assert sorted(run for run, _ in found) == sorted(asked), "not every run began exactly once"
    late = [(at - asked[run]) / 1e6 for run, at in found]
    method = f"{count} runs queued one at a time, two idle job workers: from the queueing call to the handler's begin"
    return spread("run_pickup", late, method)


def spread(name: str, late: list[float], method: str) -> list[Metric]:
    """Median, p99 (of a hundred or more) and worst: a median hides the one run that waited for the next tick."""
    late = sorted(late)
    shown = {"p50": (statistics.median(late), 10), "worst": (late[-1], 200)}
    if len(late) >= 100:
        shown["p99"] = (late[int(len(late) * 0.99)], 50)
    figures = ", ".join(f"{word} {ms:.1f} ms (under {limit})" for word, (ms, limit) in shown.items())
    assert all(ms < limit for ms, limit in shown.values()), f"{name}: {figures}"
    return [
        Metric(f"{name}_{word}_ms", round(ms, 2), "ms", f"under {limit}", len(late), method)
        for word, (ms, limit) in shown.items()
    ]


def measure_single(count: int = 300) -> list[Metric]:
    """Single runs at instants of their own, as `enqueue(run_at=…)` makes them."""
    from jobs.runs.queue import Order, enqueue_many
    from station.clock import database_now

    with fleet() as workers:
        begin = database_now() + timedelta(seconds=4)
        moments = [begin + timedelta(seconds=0.05 * number + 0.0137 * (number % 3)) for number in range(count)]
        pks = enqueue_many("bench.queued", [Order(run_at=moment) for moment in moments])
        due = dict(zip(pks, moments, strict=True))
        found = workers.began(count, 0.05 * count + 20)
    assert sorted(run for run, _ in found) == sorted(pks), "not every run began exactly once"
    late = [at / 1e6 - due[run].timestamp() * 1000 for run, at in found]
    return spread("run_single_lateness", late, f"{count} runs, each due at an instant of its own, two job workers")


def measure_fires() -> list[Metric]:
    """Planned runs: 10,000 scopes at a full minute, with a grid and cron jobs at the same time."""
    from jobs.models import JobCursor

    with fleet(schedulers=2, scopes=BURST) as workers:
        deadline = time.monotonic() + 60
        while JobCursor.objects.count() < BURST and time.monotonic() < deadline:
            time.sleep(0.2)
        begin = datetime.now(UTC) + timedelta(seconds=20)
        minute = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
        time.sleep(max(0.0, minute.timestamp() + 12 - time.time()))
        late = lateness(workers.began(BURST, 10))
    burst = [ms for (name, at, _), ms in late.items() if name == "bench.burst" and at == minute]
    assert len(burst) == BURST, f"{len(burst)} of {BURST} began"
    calm = check_grid(late, minute - timedelta(seconds=15), minute - timedelta(seconds=1))
    calm += check_grid(late, minute + timedelta(seconds=5), minute + timedelta(seconds=10))
    method = f"{BURST} scopes of a job at one instant, two schedulers, two job workers: until the last handler begins"
    return [
        Metric("run_burst_10000_last_ms", round(max(burst), 1), "ms", "under 2000", 1, method),
        *spread("run_grid_lateness", calm, "grid of 0.7 s; every instant is counted"),
    ]


Lateness = dict[tuple[str, datetime, str], float]


def lateness(found: list[tuple[int, int]]) -> Lateness:
    """By job, planned time and scope: how late each planned run began, in milliseconds. Each began once."""
    from jobs.models import Run

    began = dict(found)
    assert len(began) == len(found), "a run began twice"
    rows = Run.objects.filter(pk__in=list(began), trigger="plan").values_list("pk", "job__name", "planned_at", "scope")
    return {
        (name, at, scope): began[pk] / 1e6 - at.timestamp() * 1000 for pk, name, at, scope in rows if at is not None
    }


def check_grid(late: Lateness, first: datetime, last: datetime) -> list[float]:
    """The lateness of the grid's runs in this span. Every instant of it must be there."""
    from jobs.definitions.fire_times import Every, between

    moments = between(Every(0.7), first, last, 1000)
    missing = [moment for moment in moments if ("bench.grid", moment, "") not in late]
    assert not missing, f"{len(missing)} of {len(moments)} instants of the grid did not fire: {missing[:3]}"
    return [late["bench.grid", moment, ""] for moment in moments]


def measure_cron() -> list[Metric]:
    """Cron jobs at a full minute, with nothing else due but the grid."""
    from bench.handlers import CRON_JOBS

    with fleet(schedulers=2, scopes=1) as workers:
        minute = (datetime.now(UTC) + timedelta(seconds=20)).replace(second=0, microsecond=0) + timedelta(minutes=1)
        time.sleep(max(0.0, minute.timestamp() + 3 - time.time()))
        late = lateness(workers.began(20, 5))
    crons = [late["bench.cron_" + str(number), minute, ""] for number in range(CRON_JOBS)]
    crons += check_grid(late, minute - timedelta(seconds=10), minute + timedelta(seconds=2))
    method = (
        f"{CRON_JOBS} cron jobs at a full minute and a grid of 0.7 s, two schedulers, two job workers: every instant"
    )
    return spread("run_cron_lateness", crons, method)


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
    return [measure_throughput(), *measure_pickup(), *measure_single(), *measure_fires(), *measure_cron()]
