"""`make chaos`: two schedulers run short recordings while faults are injected; none may be lost, doubled or stuck.

The faults: schedulers are killed or frozen, database sessions are terminated, PostgreSQL is restarted or killed.
All choices and the times of the bookings come from one seed, which is printed first: the same seed repeats the run.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.metric import prepare
from testing.chaos_verdict import judge

ROOT = Path(__file__).resolve().parent.parent
LENGTH = timedelta(seconds=20)
# Settings for as little extra load as possible, and for a quick change of leader.
QUICK = {
    "WORKER_PREVIEW": "false",
    "LEADER_HEARTBEAT_SECONDS": "1",
    "LEADER_SILENCE_SECONDS": "3",
    "LAUNCH_AHEAD_SECONDS": "3",
    "LOG_LEVEL": "INFO",
}


class ChaosRun:
    """The schedulers, the faults, and the observation of what really runs."""

    def __init__(self, seed: int, seconds: float, bookings: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.seconds, self.count, self.folder = seconds, bookings, folder
        self.schedulers: list[subprocess.Popen[bytes]] = []
        self.doubled: set[str] = set()
        self.faults: Counter[str] = Counter()
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    # --- schedulers and bookings ---

    def start_scheduler(self) -> None:
        from django.conf import settings

        with (self.folder / f"scheduler-{len(list(self.folder.glob('scheduler-*')))}.log").open("wb") as log:
            environment = {**os.environ, **QUICK, "DATABASE_URL": settings_url(settings)}
            command = [sys.executable, str(ROOT / "manage.py"), "runscheduler"]
            self.schedulers.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))

    def book_all(self) -> None:
        """Make bookings at random times over the whole run, each on its own recorder.

        A start that leaves two seconds of the window still counts.
        """
        from django.conf import settings

        from nodes.machines import health
        from nodes.models import Node
        from scheduling.bookings.making import book
        from scheduling.models import Booking, Recorder
        from station.clock import database_now
        from station.models import Project

        project = Project.objects.create(name="Chaos", slug="chaos")
        settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
        node = Node.objects.create(
            name="here",
            address="process",
            media_dir=str(settings.RECORDINGS_DIR),
            max_workloads=200,
            control_port_from=26000,
        )
        health.check(node)
        now = database_now()
        for number in range(self.count):
            recorder = Recorder.objects.create(
                name=f"Cam {number}", project=project, source_type="test", picture_size="160x90", video_bitrate="64k"
            )
            start = now + timedelta(seconds=8 + self.random.uniform(0, max(1.0, self.seconds - 30)))
            book(recorder, start, start + LENGTH, now=now, title=f"show {number}")
        Booking.objects.update(min_useful_seconds=2)

    # --- faults ---

    def kill(self) -> None:
        victim = self.random.choice(self.schedulers)
        victim.kill()
        victim.wait()
        self.schedulers.remove(victim)
        self.pause(self.random.uniform(0.0, 2.0))
        self.start_scheduler()

    def freeze(self) -> None:
        victim = self.random.choice(self.schedulers)
        victim.send_signal(signal.SIGSTOP)
        self.pause(self.random.uniform(0.5, 6.0))
        victim.send_signal(signal.SIGCONT)

    def terminate_backends(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(
                """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()"""
            )

    def restart_database(self) -> None:
        self.server().stop()
        self.pause(self.random.uniform(0.0, 1.0))
        self.server().start()

    def crash_database(self) -> None:
        pid = int((self.server().pgdata / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        self.pause(self.random.uniform(0.5, 1.0))
        deadline = time.monotonic() + 30
        while True:
            try:
                self.server().start()
                return
            except Exception as error:  # its child processes may still be ending
                if time.monotonic() > deadline:
                    raise
                self.say(f"the database does not start yet: {error}")
                time.sleep(0.5)

    def server(self) -> Any:
        from config.embedded_postgres import EmbeddedServer

        return EmbeddedServer(self.folder / "postgres")

    def inject_faults(self) -> None:
        faults: list[Callable[[], None]] = [self.kill, self.kill, self.freeze, self.terminate_backends]
        faults += [self.restart_database, self.crash_database]
        while time.monotonic() - self.began < self.seconds:
            self.pause(self.random.uniform(1.0, 6.0))
            fault = self.random.choice(faults)
            self.say(fault.__name__.replace("_", " "))
            self.faults[fault.__name__] += 1
            reconnect()
            with contextlib.suppress(*database_faults()):
                fault()
            reconnect()

    def pause(self, seconds: float) -> None:
        """Wait, and check all the time that no booking has two media workers at once."""
        until = time.monotonic() + seconds
        while True:
            self.observe()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(0.3, left))

    def observe(self) -> None:
        """Check on the machine, not in the database, which media workers are running."""
        owners = Counter(owner for owner, _ in running_workers(self.folder / "run"))
        for owner, count in owners.items():
            if count > 1:
                self.doubled.add(owner)
                self.say(f"DOUBLED {owner}")

    # --- the end ---

    def settle(self) -> None:
        from scheduling.models import Booking

        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            self.pause(1.0)
            reconnect()
            with contextlib.suppress(*database_faults()):
                if all(booking.is_over for booking in Booking.objects.only("state")) and not self.leftovers():
                    return

    def leftovers(self) -> list[str]:
        return [name for _, name in running_workers(self.folder / "run")]

    def close(self) -> None:
        for process in self.schedulers:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.schedulers:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def running_workers(folder: Path) -> list[tuple[str, str]]:
    """(owner, name) of every running media worker, from the folders of the process runtime."""
    from nodes.runtimes import installation
    from nodes.runtimes.base import Status
    from nodes.runtimes.process import ProcessRuntime

    runtime = ProcessRuntime(lambda: known_installation or installation(), folder, media_dir=str(folder))
    return [
        (seen.identity.owner, seen.name)
        for seen in runtime.list_ours()
        if seen.status is Status.RUNNING and seen.identity
    ]


known_installation = ""


def settings_url(settings: Any) -> str:
    database = settings.DATABASES["default"]
    return f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"


def reconnect() -> None:
    from django.db import connection

    connection.close()


def database_faults() -> tuple[type[Exception], ...]:
    import psycopg
    from django.db import InterfaceError, OperationalError

    return OperationalError, InterfaceError, psycopg.OperationalError


def main() -> int:
    global known_installation
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--bookings", type=int, default=100)
    options = parser.parse_args()
    print(f"seed {options.seed}: make chaos SEED={options.seed} repeats this run", flush=True)
    folder = prepare()
    from nodes.runtimes import installation

    known_installation = installation()
    chaos = ChaosRun(options.seed, options.seconds, options.bookings, folder)
    chaos.book_all()
    for _ in range(2):
        chaos.start_scheduler()
    try:
        chaos.inject_faults()
        chaos.say("no more faults")
        chaos.settle()
        chaos.say(f"faults: {dict(chaos.faults)}")
        wrong = judge(chaos.doubled, chaos.leftovers(), chaos.say)
    finally:
        chaos.close()
    for kind, stories in wrong.items():
        print(f"{len(stories)} {kind}")
        for story in stories:
            print(f"  {story}")
    if any(wrong.values()):
        for log in sorted(folder.glob("scheduler-*.log")):
            print(f"--- {log.name}\n{log.read_text()[-3000:]}")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
