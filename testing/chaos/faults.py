"""The faults of a chaos run. Each method is one kind; those that last are undone later, while others happen."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from django.db import connection

from testing.chaos.database_pair import DatabasePair
from testing.chaos.row_locks import Stranger, lock_rows
from testing.chaos.schedulers import READY_SECONDS, Process, Schedulers
from testing.chaos.silent_machines import SilentMachines
from testing.chaos.verdict import Disturbance
from testing.chaos.watcher import Watcher, now

Fault = Callable[[], None]
RESTART_SECONDS = 2.0
# LEADER_SILENCE_SECONDS and a heartbeat (see QUICK in `schedulers`).
SILENT_LEADER = timedelta(seconds=4)
# A locked booking still has most of its window when its row is free again.
LOCK_SECONDS = (1.0, 6.0)
SILENCE_SECONDS = (3.0, 12.0)
CLOCK_JUMP_SECONDS = 20.0
CLOCK_SECONDS = (2.0, 10.0)
# A channel that is rescued more often than this within ten minutes waits for a person.
CHANNEL_KILLS = 2


class Faults:
    """Holds what the faults act on, and what is still to be undone."""

    def __init__(
        self,
        choice: random.Random,
        database: DatabasePair,
        schedulers: Schedulers,
        machines: SilentMachines,
        watcher: Watcher,
        clock_file: Path,
    ) -> None:
        self.choice, self.database, self.schedulers = choice, database, schedulers
        self.machines, self.watcher, self.clock_file = machines, watcher, clock_file
        self.channel_owner = ""
        self.disturbances: list[Disturbance] = []
        self._undo: list[tuple[float, Fault]] = []
        self._channel_kills = 0
        self._deck: list[Fault] = []

    def draw(self) -> Fault:
        """The next fault. Every kind comes before one comes again; some come twice or three times."""
        if not self._deck:
            self._deck = [
                self.kill_scheduler,
                self.kill_scheduler,
                self.freeze_scheduler,
                self.terminate_sessions,
                self.restart_database,
                self.crash_database,
                self.lock_rows,
                self.lock_rows,
                self.lock_rows,
                self.silence_machines,
                self.jump_clock,
            ]
            self._deck += [self.kill_channel] if self._channel_kills < CHANNEL_KILLS else []
            self.choice.shuffle(self._deck)
        return self._deck.pop()

    def undo_what_is_due(self) -> None:
        moment = time.monotonic()
        due = [undo for at, undo in self._undo if at <= moment]
        self._undo = [(at, undo) for at, undo in self._undo if at > moment]
        for undo in due:
            undo()

    def undo_all(self) -> None:
        self._undo = [(0.0, undo) for _, undo in self._undo]
        self.undo_what_is_due()

    def _later(self, seconds: tuple[float, float], undo: Fault) -> None:
        self._undo.append((time.monotonic() + self.choice.uniform(*seconds), undo))

    @contextlib.contextmanager
    def _disturbing(self, what: str) -> Iterator[None]:
        began = now()
        try:
            yield
        finally:
            self.disturbances.append(Disturbance(began, now(), what))

    # --- schedulers ---

    def kill_scheduler(self) -> None:
        """A standby leads at once. Without one, the next leader has to start first."""
        if not self.schedulers.processes:
            return
        victim = self.choice.choice(self.schedulers.processes)
        seconds = 0.0 if self.schedulers.has_standby(victim) else RESTART_SECONDS + READY_SECONDS
        if self._leads(victim) or seconds:
            self.disturbances.append(Disturbance(now(), now() + timedelta(seconds=seconds), "a scheduler was killed"))
        self.schedulers.kill(victim)
        self._later((0.0, RESTART_SECONDS), self.schedulers.start)

    def freeze_scheduler(self) -> None:
        """PostgreSQL ends the session of a silent leader, and a standby leads."""
        if not self.schedulers.processes:
            return
        victim = self.choice.choice(self.schedulers.processes)
        began, leads, has_standby = now(), self._leads(victim), self.schedulers.has_standby(victim)
        self.schedulers.freeze(victim)

        def thaw() -> None:
            self.schedulers.thaw(victim)
            end = min(now(), began + SILENT_LEADER) if has_standby else now()
            if leads:
                self.disturbances.append(Disturbance(began, end, "the leader was frozen"))

        self._later((0.5, 6.0), thaw)

    def _leads(self, process: Process) -> bool:
        return self.watcher.lead.holder.endswith(f" pid {process.pid}")

    # --- the database ---

    def terminate_sessions(self) -> None:
        with self._disturbing("sessions were terminated"), connection.cursor() as cursor:
            cursor.execute(
                """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND pid <> pg_backend_pid()"""
            )

    def restart_database(self) -> None:
        with self._disturbing("the database was restarted"):
            self.database.restart(self.choice.uniform(0.0, 1.0))

    def crash_database(self) -> None:
        with self._disturbing("the database was killed"):
            self.database.crash(self.choice.uniform(0.5, 1.0))

    def promote_standby(self) -> None:
        with self._disturbing("the standby was promoted"):
            self.database.fail_over(self.choice.uniform(0.5, 3.0))

    # --- rows, machines, clock, channel ---

    def lock_rows(self) -> None:
        stranger: Stranger = lock_rows(self.database.url, self.choice)
        self._later(LOCK_SECONDS, lambda: self.disturbances.extend(stranger.leave()))

    def silence_machines(self) -> None:
        self.machines.fall_silent()
        self._later(SILENCE_SECONDS, self.machines.come_back)

    def jump_clock(self) -> None:
        """The clock of the media workers of this machine."""
        self._set_clock(self.choice.uniform(-CLOCK_JUMP_SECONDS, CLOCK_JUMP_SECONDS))
        self._later(CLOCK_SECONDS, lambda: self._set_clock(0.0))

    def kill_channel(self) -> None:
        self._channel_kills += 1
        for pid in self.watcher.pids_of(self.channel_owner):
            os.kill(pid, signal.SIGKILL)

    def _set_clock(self, seconds: float) -> None:
        draft = self.clock_file.with_suffix(".new")
        draft.write_text(f"{seconds:.3f}")
        draft.rename(self.clock_file)
