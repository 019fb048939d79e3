"""The loop: runs every step, sleeps until the earliest of what they ask for, and never ends because of one of them."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from types import FrameType

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.utils.module_loading import import_string

from station.clock import database_now

logger = logging.getLogger(__name__)

Step = Callable[[datetime], datetime | None]
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0)


class Loop:
    """Composed in settings like MIDDLEWARE: SCHEDULER_STEPS names functions `step(now) -> datetime | None`."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Step]] = [(path, import_string(path)) for path in settings.SCHEDULER_STEPS]
        self._stop = threading.Event()

    def ask_to_stop(self, signum: int | None = None, frame: FrameType | None = None) -> None:
        self._stop.set()

    def run(self) -> None:
        """Turn after turn until asked to stop. Recordings are not touched by that."""
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        signal.signal(signal.SIGINT, self.ask_to_stop)
        failures = 0
        while not self._stop.is_set():
            try:
                seconds = self.run_once()
                failures = 0
            except (OperationalError, InterfaceError) as error:
                seconds = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)]
                failures += 1
                logger.error("The database does not answer; trying again. error=%s", str(error).strip())
                connection.close()
            self._stop.wait(seconds)
        logger.info("The loop ends; recordings and channels run on.")

    def run_once(self) -> float:
        """One turn; answers how many seconds to sleep. A failing step never stops the others."""
        close_old_connections()
        now = database_now()
        began = time.monotonic()
        wakes = [now + timedelta(seconds=settings.SCHEDULER_TICK_SECONDS)]
        for path, step in self.steps:
            try:
                wake = step(now)
            except (OperationalError, InterfaceError):
                raise  # the database is away: no step can do anything
            except Exception:  # a bug in one step must not stop the others
                logger.exception("A step failed. step=%s", path)
                continue
            if wake is not None:
                wakes.append(wake)
        return max(0.05, (min(wakes) - now).total_seconds() - (time.monotonic() - began))
