"""The records of job workers: registering, signing off, and proving that a process is dead."""

import os
import socket
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from jobs.models import JobWorker


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


def register(*, heavy: int, light: int, only: list[str], now: datetime) -> JobWorker:
    pid = os.getpid()
    return JobWorker.objects.create(
        name=f"{socket.gethostname()} pid {pid}",
        place=here(),
        pid=pid,
        pid_started=started(pid),
        heavy_slots=heavy,
        light_slots=light,
        only_jobs=only,
        started_at=now,
        heartbeat_at=now,
    )


def sign_off(worker: JobWorker, done: int, now: datetime) -> None:
    JobWorker.objects.filter(pk=worker.pk).update(
        ended_at=now, heartbeat_at=now, ending=JobWorker.Ending.CLEAN, runs_done=done
    )


def is_dead_here(worker: JobWorker) -> bool:
    """True only if it ran on this machine and its process is certainly gone."""
    return worker.place == here() and "?" not in worker.place and started(worker.pid) != worker.pid_started
