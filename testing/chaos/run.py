"""The course of a chaos run: stage, inject faults, wait until everything is over, collect the facts."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from nodes.runtimes import installation
from scheduling.models import Booking
from testing.chaos import facts, staging
from testing.chaos.database_pair import DatabasePair
from testing.chaos.faults import Fault, Faults
from testing.chaos.receiver import Receiver
from testing.chaos.recorders import make_studio_node
from testing.chaos.schedulers import Schedulers
from testing.chaos.silent_machines import SilentMachines
from testing.chaos.verdict import Facts
from testing.chaos.watcher import Watcher, wait_for_leader

SETTLE_SECONDS = 90.0
LEAD_SECONDS = 60.0
# After the last fault a recording on a silent machine can still be moved, in this time.
MOVE_SECONDS = 25.0
CLOCK_FILE = "AIRLOCK_CLOCK_OFFSET_FILE"
DATABASE_FAULTS = (OperationalError, InterfaceError, psycopg.OperationalError)


class ChaosRun:
    """Everything that runs, until `close`."""

    def __init__(self, seed: int, seconds: float, bookings: int, folder: Path, database: DatabasePair) -> None:
        self.choice = random.Random(seed)
        self.seconds, self.count = seconds, bookings
        self.faults_by_kind: Counter[str] = Counter()
        self.began = time.monotonic()
        self._open = ExitStack()
        self.receiver = Receiver()
        self._open.callback(self.receiver.stop)
        self.machines = SilentMachines(folder)
        self._open.callback(self.machines.close)
        self.watcher = Watcher(database.url, settings.DATA_DIR / "run", settings.RECORDINGS_DIR, installation())
        self._open.callback(self.watcher.end_workers)
        clock_file = folder / "clock-offset"
        clock_file.write_text("0")
        self.schedulers = Schedulers(folder, **{CLOCK_FILE: str(clock_file)})
        self._open.callback(self.schedulers.close)
        self.faults = Faults(self.choice, database, self.schedulers, self.machines, self.watcher, clock_file)

    def close(self) -> None:
        self._open.close()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def stage(self) -> None:
        """The silent machines come last: their rows say that they answered a moment ago."""
        self.project = staging.make_project("Chaos")
        make_studio_node()
        self.backlog = staging.Backlog()
        self.channel = staging.stage_channel(self.project, self.receiver.port)
        self.faults.channel_owner = self.channel.owner
        for _ in range(2):
            self.schedulers.start()
        self.watcher.start()
        wait_for_leader(self.watcher, LEAD_SECONDS)
        staging.book_all(self.project, self.count, self.seconds, self.choice)
        self.moved = set(self.machines.stage(self.project, self.seconds + MOVE_SECONDS))
        self.began = time.monotonic()

    def inject_faults(self) -> None:
        once = [
            (self.choice.uniform(0.25, 0.65) * self.seconds, self.faults.promote_standby),
            (self.choice.uniform(0.2, 0.6) * self.seconds, self.stage_backlog),
        ]
        while (elapsed := time.monotonic() - self.began) < self.seconds:
            for entry in [entry for entry in once if entry[0] <= elapsed]:
                once.remove(entry)
                self._inject(entry[1])
            self.pause(self.choice.uniform(0.5, 4.0))
            self._inject(self.faults.draw())
        with reconnected():
            self.faults.undo_all()

    def stage_backlog(self) -> None:
        self.backlog.stage()

    def _inject(self, fault: Fault) -> None:
        name = fault.__name__.replace("_", " ")
        self.say(name)
        self.faults_by_kind[name] += 1
        with reconnected(), contextlib.suppress(*DATABASE_FAULTS):
            fault()

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(*DATABASE_FAULTS):
                self.faults.undo_what_is_due()
            time.sleep(max(0.0, min(0.2, left)))

    def settle(self) -> None:
        """Wait until every booking is over, their media workers have ended and the channel is on air, or too long."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(1.0)
            with reconnected(), contextlib.suppress(*DATABASE_FAULTS):
                if not Booking.objects.live().exists() and not self.leftovers() and self.receiver.is_receiving:
                    return

    def leftovers(self) -> list[str]:
        return [name for owner, name in self.watcher.running_workers() if owner != self.channel.owner]

    def collect(self) -> Facts:
        channel = facts.channel_facts(self.channel, self.receiver)
        leftovers = self.leftovers()
        self.watcher.stop()
        return Facts(
            facts.booking_facts(self.project, self.moved, self.watcher.writing),
            channel,
            facts.backlog_facts(self.backlog.project),
            self.faults.disturbances,
            self.watcher.leaderless,
            self.watcher.doubled,
            leftovers,
        )


@contextlib.contextmanager
def reconnected() -> Iterator[None]:
    """A fault may have ended our own connection."""
    connection.close()
    try:
        yield
    finally:
        connection.close()
