"""An output that its own thread keeps running, so that a slow output delays no other."""

import contextlib
import threading
import time
from abc import ABC, abstractmethod

from worker.wire.status import OutputStatus

LOOK_SECONDS = 0.05
AFTER_TROUBLE_SECONDS = 1.0


class Tended(ABC):
    """The thread also starts the processes, and the kernel ends them when it ends (see `die_with`)."""

    def __init__(self, key: str, kind: str) -> None:
        self.key, self.kind = key, kind
        self.restarts = 0
        self.error = ""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"{kind} {key}")

    @abstractmethod
    def tend(self) -> None:
        """Check once: start or restart it if needed."""

    @abstractmethod
    def finish(self) -> None:
        """End it, because the channel ends."""

    @property
    @abstractmethod
    def state(self) -> str:
        """starting, sending or waiting."""

    def status(self) -> OutputStatus:
        return OutputStatus(key=self.key, type=self.kind, state=self.state, restarts=self.restarts, error=self.error)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Ask it to end; `join` waits. So all outputs end at the same time."""
        self._ends.set()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ends.wait(LOOK_SECONDS):
            try:
                self.tend()
            except Exception as error:  # noqa: BLE001  no processes, no memory: try again, the channel continues
                self.error = f"{type(error).__name__}: {error}"
                print(f"An output failed. type={self.kind} key={self.key} error={self.error}", flush=True)
                time.sleep(AFTER_TROUBLE_SECONDS)
        with contextlib.suppress(OSError):
            self.finish()
