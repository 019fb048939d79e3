"""A thing that is kept going by a thread of its own: whatever it waits for, nobody else waits with it."""

import contextlib
import threading
import time
from abc import ABC, abstractmethod

from worker.wire.status import OutputStatus

LOOK_SECONDS = 0.05
AFTER_TROUBLE_SECONDS = 1.0


class Tended(ABC):
    """The thread also starts its processes: the kernel ends them with it (see `die_with`)."""

    def __init__(self, key: str, kind: str) -> None:
        self.key, self.kind = key, kind
        self.restarts = 0
        self.error = ""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"{kind} {key}")

    @abstractmethod
    def tend(self) -> None:
        """One look: start it, or start it again."""

    @abstractmethod
    def finish(self) -> None:
        """Let it go, at the end of the channel."""

    @property
    @abstractmethod
    def state(self) -> str:
        """starting, sending or waiting."""

    def status(self) -> OutputStatus:
        return OutputStatus(key=self.key, type=self.kind, state=self.state, restarts=self.restarts, error=self.error)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Only asks; `join` waits. So all of them end at the same time."""
        self._ends.set()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ends.wait(LOOK_SECONDS):
            try:
                self.tend()
            except Exception as error:  # noqa: BLE001  no processes, no memory: tried again, the channel goes on
                self.error = f"{type(error).__name__}: {error}"
                print(f"{self.kind} {self.key}: {self.error}", flush=True)
                time.sleep(AFTER_TROUBLE_SECONDS)
        with contextlib.suppress(OSError):
            self.finish()
