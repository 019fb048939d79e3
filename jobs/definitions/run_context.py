"""What a handler is given: its run, the request to stop, and progress reports."""

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import InterfaceError, OperationalError, connection

from jobs.models import Run

logger = logging.getLogger(__name__)

REPORT_SECONDS = 0.5


def plain(text: str) -> str:
    """Text that the database can store: no NUL, no lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


class RunStopped(Exception):
    """Raised by `check` when the run must stop. A handler cleans up and lets it propagate."""


class Hopeless(Exception):
    """Raised by a handler when a retry cannot help. The run fails at once, with this text."""


@dataclass
class RunContext:
    """One attempt, as seen by its handler."""

    id: int
    job: str
    scope: str
    attempt: int
    trigger: str
    planned_at: datetime | None
    token: UUID
    _stop: threading.Event = field(default_factory=threading.Event)
    _reported_at: float = -1e9

    def __reduce__(self) -> tuple[type["RunContext"], tuple[object, ...]]:
        """Pickled for the child process, which gets its own stop event."""
        given = (self.id, self.job, self.scope, self.attempt, self.trigger, self.planned_at, self.token)
        return RunContext, given

    @property
    def is_stopped(self) -> bool:
        """The time limit has passed, the run was cancelled, or the lease is lost: further work is discarded."""
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> None:
        """Raise RunStopped if the run must stop. A thread handler that never calls this cannot be stopped."""
        if self._stop.is_set():
            raise RunStopped

    def sleep(self, seconds: float) -> None:
        """Wait, but stop waiting when the run must stop."""
        self._stop.wait(seconds)
        self.check()

    def report(self, percent: float | None = None, text: str = "") -> None:
        """Store progress for the run's page: 0 to 100 and a sentence. Cheap to call often. Also calls `check`."""
        self.check()
        is_last = percent is not None and percent >= 100
        if time.monotonic() - self._reported_at < REPORT_SECONDS and not is_last:
            return
        if connection.in_atomic_block:
            return  # it would be visible only after the commit, and the row would be locked until then
        self._reported_at = time.monotonic()
        whole = None if percent is None else max(0, min(100, int(percent)))
        mine = Run.objects.filter(pk=self.id, token=self.token, state=Run.State.RUNNING)
        try:
            mine.update(progress_percent=whole, progress_text=plain(text)[:200])
        except (OperationalError, InterfaceError):
            # A lost progress report must not fail the run; the next report tries again.
            logger.warning("Progress could not be stored. run=%s", self.id)
            connection.close_if_unusable_or_obsolete()
