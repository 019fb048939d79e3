"""The records of schedulers and job workers: registering, signing off, and proving that a process is dead.

Each record says which jobs the process declares (J-27), so that no leader retires what another process still runs.
"""

import os
import socket
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.db import transaction

from jobs.definitions.job_decorator import registry
from jobs.definitions.payloads import reader
from jobs.models import JobWorker, Process, Scheduler
from station.version import VERSION

# An idle job worker sends a heartbeat every 30 s.
WORKER_SILENCE = timedelta(seconds=90)


@lru_cache
def here() -> str:
    """Identifies this machine, its boot and its process namespace (containers have their own process numbers)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        numbers = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  (not a path of files)
    except OSError:
        return f"{socket.gethostname()} ?"
    return f"{socket.gethostname()} {boot} {numbers}"


def started(pid: int) -> str:
    """Start time of a process in kernel ticks, or "" if there is none. Needed because process numbers are reused."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat[stat.rindex(")") + 2 :].split()
    return "" if fields[0] in "ZX" else fields[19]


def declared_here() -> dict[str, str]:
    """The jobs in this process's code, with how it reads their payloads."""
    return {name: reader(spec.payload) for name, spec in list(registry.jobs.items())}


def _identity(now: datetime) -> dict[str, Any]:
    pid = os.getpid()
    return {
        "name": f"{socket.gethostname()} pid {pid}",
        "place": here(),
        "pid": pid,
        "pid_started": started(pid),
        "version": VERSION,
        "declares": declared_here(),
        "started_at": now,
        "heartbeat_at": now,
    }


def register(*, heavy: int, light: int, only: list[str], now: datetime) -> JobWorker:
    return JobWorker.objects.create(heavy_slots=heavy, light_slots=light, only_jobs=only, **_identity(now))


def tell_scheduler(now: datetime) -> None:
    """Write this scheduler's record, or its heartbeat. A locked row is left alone until the next heartbeat."""
    mine = _identity(now)
    key = {name: mine.pop(name) for name in ("place", "pid", "pid_started")}
    with transaction.atomic():
        row = Scheduler.objects.filter(**key).first()
        if row is None:
            Scheduler.objects.bulk_create([Scheduler(**key, **mine)], ignore_conflicts=True)
            return
        changes = {"heartbeat_at": now, "ended_at": None}
        if row.declares != mine["declares"]:
            changes["declares"] = mine["declares"]
        free = Scheduler.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=row.pk)
        Scheduler.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(**changes)


def sign_off_scheduler(now: datetime) -> None:
    pid = os.getpid()
    Scheduler.objects.filter(place=here(), pid=pid, pid_started=started(pid)).update(heartbeat_at=now, ended_at=now)


def sign_off(worker: JobWorker, done: int, now: datetime) -> None:
    JobWorker.objects.filter(pk=worker.pk).update(
        ended_at=now, heartbeat_at=now, ending=JobWorker.Ending.CLEAN, runs_done=done
    )


def is_here(process: Process) -> bool:
    """It runs, or ran, on this machine, where its process can be checked."""
    return process.place == here() and "?" not in process.place


def is_dead_here(process: Process) -> bool:
    """True only if it ran on this machine and its process is certainly gone."""
    return is_here(process) and started(process.pid) != process.pid_started


def live_workers(now: datetime) -> list[JobWorker]:
    """Job workers with a recent heartbeat whose process is not known to be dead."""
    rows = JobWorker.objects.filter(ended_at=None, heartbeat_at__gt=now - WORKER_SILENCE)
    return [row for row in rows if not is_dead_here(row)]


def declarers(since: datetime) -> dict[str, list[Process]]:
    """For each job, the processes that declare it and gave a sign of life after `since`, running or ended."""
    found: dict[str, list[Process]] = {}
    for kind in (Scheduler, JobWorker):
        rows: list[Process] = list(kind.objects.filter(heartbeat_at__gt=since))
        for row in rows:
            for name in row.declares:
                found.setdefault(name, []).append(row)
    return found
