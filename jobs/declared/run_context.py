"""What a handler is given: which run it is, whether it is to stop, and a way to say how far it has come."""

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
    """What the database can hold: no NUL, no halves of characters."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


class RunStopped(Exception):
    """Raised in a handler that asks (`check`) after it was told to stop. Let it pass, after tidying up."""


class Hopeless(Exception):
    """Raised by a handler that knows: trying again would not help. The run fails at once, with this text."""


@dataclass
class RunContext:
    """One attempt, as its handler sees it."""

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
        """It crosses to the process of the attempt, which begins with an event of its own."""
        given = (self.id, self.job, self.scope, self.attempt, self.trigger, self.planned_at, self.token)
        return RunContext, given

    @property
    def is_stopped(self) -> bool:
        """Time is up, somebody cancelled it, or the lease is lost: whatever is done from now on is for nothing."""
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def check(self) -> None:
        """Call this now and then; a handler that never does can only be ended in a process of its own."""
        if self._stop.is_set():
            raise RunStopped

    def sleep(self, seconds: float) -> None:
        """Wait, but wake up when it is to stop."""
        self._stop.wait(seconds)
        self.check()

    def report(self, percent: float | None = None, text: str = "") -> None:
        """How far it has come, shown live: 0 to 100 and a sentence. Cheap to call often; checks too."""
        self.check()
        is_last = percent is not None and percent >= 100
        if time.monotonic() - self._reported_at < REPORT_SECONDS and not is_last:
            return
        if connection.in_atomic_block:
            return  # nobody would see it before the commit, and the row would stay locked until then
        self._reported_at = time.monotonic()
        whole = None if percent is None else max(0, min(100, int(percent)))
        mine = Run.objects.filter(pk=self.id, token=self.token, state=Run.State.RUNNING)
        try:
            mine.update(progress_percent=whole, progress_text=plain(text)[:200])
        except (OperationalError, InterfaceError):
            # The work is worth more than the word about it: the next report finds the database again.
            logger.warning("Progress could not be stored. run=%s", self.id)
            connection.close_if_unusable_or_obsolete()
