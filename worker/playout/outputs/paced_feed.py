"""Sends the shaped stream at its pace: a thread that hands over each datagram when it is due."""

import threading
import time
from collections.abc import Callable

from worker.playout.outputs.fan_out import Fan
from worker.playout.outputs.shaping import Shaper

# The thread does not wake more often than this; what came due meanwhile goes out together.
LEAST_SECONDS = 0.001
LEAST_VARIABLE_SECONDS = 0.004


class PacedFeed:
    """`deliver` gets each datagram and its clock (see `Shaper.due`). An OSError from it ends the feed, see `error`."""

    def __init__(
        self, fan: Fan, shaper: Shaper, deliver: Callable[[bytes, int], object], *, has_recent: bool = False
    ) -> None:
        self.fan, self.shaper, self.deliver = fan, shaper, deliver
        self.error: OSError | None = None
        self.sent_at: float | None = None
        self._has_recent = has_recent
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="paced feed")

    def start(self) -> None:
        self.fan.join(self.shaper.put, has_recent=self._has_recent)
        self._thread.start()

    def end(self) -> None:
        self.fan.leave(self.shaper.put)
        self._ends.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2.0)

    def _run(self) -> None:
        least = LEAST_SECONDS if self.shaper.rate.is_constant else LEAST_VARIABLE_SECONDS
        while True:
            now = time.monotonic()
            if self._ends.wait(max(least, self.shaper.next_at(now) - now)):
                return
            try:
                for datagram, stamp in self.shaper.due(time.monotonic()):
                    self.deliver(datagram, stamp)
                    self.sent_at = time.monotonic()
            except OSError as error:
                self.error = error
                return
