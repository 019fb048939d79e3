"""Starts the processes of `manage.py up`, keeps them running, and ends them together."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from worker.process.parent_death import die_with

logger = logging.getLogger(__name__)

GRACE_SECONDS = 15.0
RESTART_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 30.0
LOOK_AFTER_SECONDS = 3.0


@dataclass
class Child:
    """One supervised program; restarted with growing pauses while it keeps failing."""

    name: str
    command: list[str]
    environment: dict[str, str]
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    falls: int = 0
    restart_at: float = field(default=0.0)

    def start(self) -> None:
        self.started_at = time.monotonic()
        # A session of its own: Ctrl-C reaches only this process, which then ends the children.
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
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
    def __init__(self, children: list[Child], look_after: Callable[[], None] = lambda: None) -> None:
        """`look_after` is called every few seconds, to keep running what is not a child process (the database)."""
        self.children = children
        self.look_after = look_after
        self._stop = threading.Event()

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C. Call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        for child in self.children:
            child.start()
        looked_at = time.monotonic()
        while not self._stop.wait(0.3):
            for child in self.children:
                child.look()
            if time.monotonic() - looked_at > LOOK_AFTER_SECONDS:
                self.look_after()
                looked_at = time.monotonic()

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
