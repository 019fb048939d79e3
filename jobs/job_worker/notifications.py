"""What wakes a job worker's main thread: a NOTIFY on a session of its own, or another thread of the process."""

import contextlib
import os
import select
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from jobs.runs.queue import CANCEL
from station.database.notify import RUNS_CHANNEL
from station.database.roles import WORKERS
from station.database.sessions import connect, refuse_pooling

# Sent by a job worker that starts, so that the others on its machine watch it.
STARTED = "started"


@dataclass(frozen=True)
class Woken:
    """Why the wait ended: a run may have been cancelled, a job worker has started, or one on this machine has died."""

    is_cancel: bool = False
    has_started: bool = False
    has_died: bool = False


class Notifications:
    """The listening session, and a pipe for the other threads and for signal handlers."""

    def __init__(self) -> None:
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_w, False)
        os.set_blocking(self._wake_r, False)
        self._session: Any = None

    def open(self) -> None:
        """Listen, unless the session is open. Raises PoolingRefused."""
        if self._session is not None and not self._session.closed:
            return
        fresh = connect("airlock worker", WORKERS)
        try:
            refuse_pooling(fresh, WORKERS)
            fresh.execute(f"LISTEN {RUNS_CHANNEL}")
        except BaseException:  # leave no connection open, not even after Ctrl-C
            fresh.close()
            raise
        self._session = fresh

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # if the pipe is full, the main thread wakes anyway
            os.write(self._wake_w, b"!")

    def wait(self, seconds: float, processes: Collection[int] = ()) -> Woken:
        """Wait for the time, a NOTIFY, `wake`, or the end of one of these processes (pidfds)."""
        pgconn = self._session.pgconn
        readable, _, _ = select.select([pgconn.socket, self._wake_r, *processes], [], [], seconds)
        if self._wake_r in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_r, 4096)
        words = set()
        if pgconn.socket in readable:
            pgconn.consume_input()
            while (notice := pgconn.notifies()) is not None:
                words.add(notice.extra.decode())
        return Woken(CANCEL in words, STARTED in words, any(each in readable for each in processes))
