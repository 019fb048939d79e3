"""Starts the processes of `manage.py up`, keeps them running, and ends them together."""

import ctypes
import logging
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 15.0
RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 30.0
_libc = ctypes.CDLL(None)


@dataclass
class Child:
    """One supervised program; restarted with a growing pause while it keeps falling over."""

    name: str
    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    falls: int = 0
    restart_at: float = field(default=0.0)

    def start(self) -> None:
        self.started_at = time.monotonic()
        # A session of its own: Ctrl-C reaches only us, and we end the children in order.
        self.process = subprocess.Popen(
            self.command, env=self.environment, start_new_session=True, preexec_fn=_die_with_parent
        )

    def look(self) -> None:
        if self.process is None:
            if time.monotonic() >= self.restart_at:
                self.start()
            return
        code = self.process.poll()
        if code is None:
            return
        self.falls = 0 if time.monotonic() - self.started_at > STEADY_SECONDS else self.falls + 1
        wait = RESTART_SECONDS[min(self.falls, len(RESTART_SECONDS) - 1)]
        logger.error("A process ended and is started again. name=%s code=%s wait=%ss", self.name, code, wait)
        self.process, self.restart_at = None, time.monotonic() + wait


class Supervisor:
    def __init__(self, children: list[Child]) -> None:
        self.children = children
        self._stop = threading.Event()

    def run(self) -> None:
        """Until SIGTERM or Ctrl-C. Call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        for child in self.children:
            child.start()
        while not self._stop.wait(0.3):
            for child in self.children:
                child.look()

    def ask_to_stop(self) -> None:
        self._stop.set()

    def end(self) -> None:
        running = [child.process for child in self.children if child.process and child.process.poll() is None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:  # the parent died before we asked
        os._exit(1)
