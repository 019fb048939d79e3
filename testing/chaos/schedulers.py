"""The schedulers of a chaos run, as real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from testing.processes import ROOT

# Settings for as little extra load as possible, and for a quick change of leader.
QUICK = {
    "WORKER_PREVIEW": "false",
    "LEADER_HEARTBEAT_SECONDS": "1",
    "LEADER_SILENCE_SECONDS": "3",
    "LAUNCH_AHEAD_SECONDS": "3",
    "LOG_LEVEL": "INFO",
}
STOP_SECONDS = 20.0
# Python and Django take some seconds to load on a busy machine.
READY_SECONDS = 8.0

Process = subprocess.Popen[bytes]


class Schedulers:
    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = environment
        self.processes: list[Process] = []
        self._started = 0
        self._started_at: dict[int, float] = {}
        self._frozen: set[int] = set()

    @property
    def logs(self) -> list[Path]:
        return [self.folder / f"scheduler-{number}.log" for number in range(self._started)]

    def start(self) -> None:
        with (self.folder / f"scheduler-{self._started}.log").open("wb") as log:
            environment = {**os.environ, **QUICK, **self.environment}
            command = [sys.executable, str(ROOT / "manage.py"), "runscheduler"]
            self.processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
        self._started += 1
        self._started_at[self.processes[-1].pid] = time.monotonic()

    def kill(self, victim: Process) -> None:
        victim.kill()
        victim.wait()
        self.processes.remove(victim)

    def freeze(self, victim: Process) -> None:
        self._frozen.add(victim.pid)
        victim.send_signal(signal.SIGSTOP)

    def thaw(self, victim: Process) -> None:
        self._frozen.discard(victim.pid)
        victim.send_signal(signal.SIGCONT)

    def has_standby(self, beside: Process) -> bool:
        """Is there another scheduler that can lead at once?"""
        others = [each.pid for each in self.processes if each is not beside and each.pid not in self._frozen]
        return any(time.monotonic() - self._started_at[pid] > READY_SECONDS for pid in others)

    def close(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
