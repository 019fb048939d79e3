"""Measures the cost of idling: two schedulers with nothing due, with a thousand and with a million stored bookings."""

import contextlib
import time
from pathlib import Path
from typing import Any

from bench.metric import Metric
from bench.punctuality import clear, make_recorders, replicas

# The median of several windows counts: other load on the machine may double a single one.
WINDOW_SECONDS, WINDOWS = 36, 3
SETTLE_SECONDS = 30
# How the kernel numbers the processor-time clock of another process (see clock_getcpuclockid(3)).
PROCESS_CLOCK = 2

BOOKINGS = """
INSERT INTO scheduling_booking (recorder_id, title, starts_at, ends_at, opens_at, closes_at, state, state_since_at,
    requested_by, is_manual, attempts, errors, folder, file_name, outcome, parts, growing, gaps, frames, size_bytes,
    local_start, pad_before_seconds, pad_after_seconds, late_start, min_useful_seconds, skip_reason, epoch, preflight,
    is_edited)
SELECT (%(recorders)s::bigint[])[1 + n %% %(width)s], '', at, at + interval '1 minute', at, at + interval '1 minute',
    CASE WHEN at < now() THEN 'completed' ELSE 'planned' END, at, 'bench', false, 1, '[]', '', '', '', '[]', '[]', '[]',
    0, 0, '', 0, 0, 'start', 30, '', 0, '[]', false
FROM (SELECT n, now() + interval '1 day' - (n / %(width)s - %(ahead)s / %(width)s) * interval '2 minutes' AS at
      FROM generate_series(1, %(count)s) AS n) AS rows
WHERE at < now() - interval '1 hour' OR at > now() + interval '1 hour'
"""
SCHEDULES = """
INSERT INTO scheduling_schedule (name, recorder_id, kind, zone, first_on, start_time, length, weekdays, cron, ends,
    exceptions, late_start, min_useful_seconds, overlap, is_paused, created_by, plan_due_at, planned_until_at,
    plan_error)
SELECT 's' || n, (%(recorders)s::bigint[])[1 + n %% %(width)s], 'daily', 'Europe/Berlin', '2026-01-01', '20:00',
    '1 hour', '', '', 'wall', '[]', 'start', 30, 'skip', false, 'bench',
    now() + interval '2 hours' + n * interval '0.1 s', now() + interval '14 days', ''
FROM generate_series(1, %(count)s) AS n
"""


def fill(bookings: int, schedules: int) -> int:
    """Store bookings, most of them ended, a tenth in the future, none due within the hour; returns their number."""
    from django.db import connection

    from scheduling.models import Booking

    recorders = make_recorders(200)
    values: dict[str, Any] = {"recorders": recorders, "width": len(recorders), "ahead": bookings // 10}
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE scheduling_schedule CASCADE")
        cursor.execute(BOOKINGS, {**values, "count": bookings})
        cursor.execute(SCHEDULES, {**values, "count": schedules})
        # The whole database, the catalogue too: otherwise autovacuum runs during the measurement.
        cursor.execute("VACUUM (FREEZE, ANALYZE)")
        cursor.execute("CHECKPOINT")
    return Booking.objects.count()


def rest() -> None:
    """Pause the hourly jobs, too: without a job worker their runs would wait, and the sweep would check them."""
    from jobs.models import Job, Run

    Job.objects.update(is_paused=True)
    Run.objects.all().delete()
    time.sleep(SETTLE_SECONDS / 2)


def cpu_ms(pids: set[int]) -> float:
    """Processor time of these processes, ended threads included, from the kernel's clock of each process."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            total += time.clock_gettime_ns((~pid << 3) | PROCESS_CLOCK)
    return total / 1e6


def sessions_and_helpers() -> tuple[set[int], set[int]]:
    """Pids of the sessions of all other processes, and of the server with its helper processes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT pg_backend_pid(), pid FROM pg_stat_activity
               WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
        )
        rows = cursor.fetchall()
    server = int(Path(f"/proc/{rows[0][0]}/stat").read_text().rpartition(")")[2].split()[1])
    children = {int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()}
    sessions = {pid for _, pid in rows}
    return sessions, {server, *children} - sessions - {rows[0][0]}


def measure_at(bookings: int, schedules: int) -> tuple[float, str]:
    """Processor time (ms per second) of both schedulers and of their sessions in the server."""
    stored = fill(bookings, schedules)
    with replicas() as fleet:
        time.sleep(SETTLE_SECONDS)
        rest()
        processes = {process.pid for process in fleet.processes}
        sessions, own = sessions_and_helpers()
        parts = {"replicas": processes, "their sessions": sessions, "the server's own helpers, not counted,": own}
        windows = [_spent(parts) for _ in range(WINDOWS)]
    clear()
    windows.sort(key=lambda spent: spent["replicas"] + spent["their sessions"])
    middle = windows[WINDOWS // 2]
    words = ", ".join(f"{name} {value:.3f}" for name, value in middle.items())
    all_of_them = ", ".join(f"{spent['replicas'] + spent['their sessions']:.3f}" for spent in windows)
    detail = f"{stored} bookings, {schedules} schedules; {words}; all windows {all_of_them}"
    return middle["replicas"] + middle["their sessions"], detail


def _spent(parts: dict[str, set[int]]) -> dict[str, float]:
    before = {name: cpu_ms(pids) for name, pids in parts.items()}
    time.sleep(WINDOW_SECONDS)
    return {name: (cpu_ms(pids) - before[name]) / WINDOW_SECONDS for name, pids in parts.items()}


def measure_idle() -> list[Metric]:
    small, small_detail = measure_at(1000, 100)
    large, large_detail = measure_at(1_000_000, 100_000)
    method = f"processor time of two replicas with nothing due, median of {WINDOWS} windows: "
    return [
        Metric("idle_ms_per_s_1k", round(small, 3), "ms/s", "under 0.2", WINDOWS, method + small_detail),
        Metric("idle_ms_per_s_1m", round(large, 3), "ms/s", "under 0.2 and 1.5 x 1k", WINDOWS, method + large_detail),
    ]
