"""Which threads of the scheduler go first: the leader's turn, then starts of recordings, then all other tasks (P-18).

Python runs one thread at a time. After each statement a thread waits until the others let it run again: with dozens of
busy threads 10 to 30 ms. A turn has dozens of statements, and so has a start. When a hundred channels move at once,
a start would take ten seconds. The tasks that serve nodes have time, so they are `ordinary`:

- They wait before a statement or a call while a turn takes longer than usual, or while a recording is being started.
  Outside transactions only: who goes first may need what they have locked.
- They use at most half of the sessions (`station.database.postgresql`), so the others always find one.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

# A turn that is shorter needs no help; one that is longer waits for something else, such as a lock.
HELPED_FROM_SECONDS, HELPED_UNTIL_SECONDS = 0.02, 0.5
# A start that takes longer waits for something else, such as its node.
START_HELPED_SECONDS = 1.0


class LeaderTurn:
    """The turn of this process's leader, if there is one at this moment."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._is_over.set()
        self._began = 0.0
        self._leader = 0

    def __enter__(self) -> None:
        self._began, self._leader = time.monotonic(), threading.get_ident()
        self._is_over.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()

    def give_way(self) -> None:
        """Wait until a turn that takes long is over."""
        if self._is_over.is_set() or self._leader == threading.get_ident():
            return
        lasts = time.monotonic() - self._began
        if HELPED_FROM_SECONDS < lasts < HELPED_UNTIL_SECONDS:
            self._is_over.wait(HELPED_UNTIL_SECONDS - lasts)


class Starts:
    """The starts of recordings that are under way in this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._began: dict[object, float] = {}

    @contextmanager
    def under_way(self) -> Iterator[None]:
        key = object()
        with self._changed:
            self._began[key] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._began[key]
                self._changed.notify_all()

    def give_way(self) -> None:
        """Wait until no start needs help. Who has waited then goes on for as long: starts delay the rest by half."""
        if not self._began or not _thread.is_ordinary:
            return
        began = time.monotonic()
        if began < _thread.goes_on_until:
            return
        with self._changed:
            while (left := self._help_until(began) - time.monotonic()) > 0:
                self._changed.wait(left)
        now = time.monotonic()
        _thread.goes_on_until = now + (now - began)

    def _help_until(self, waiting_since: float) -> float:
        newest = max(self._began.values(), default=-1e9)
        return min(newest, waiting_since) + START_HELPED_SECONDS


class _Thread(threading.local):
    is_ordinary = False
    goes_on_until = 0.0


_thread = _Thread()
turn = LeaderTurn()
starts = Starts()


def is_ordinary() -> bool:
    return _thread.is_ordinary


@contextmanager
def ordinary() -> Iterator[None]:
    """What this thread does in the block has time."""
    _thread.is_ordinary = True
    try:
        yield
    finally:
        _thread.is_ordinary = False


def give_way() -> None:
    """Before a call to a node or a statement."""
    turn.give_way()
    starts.give_way()


def after_the_others(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """For `connection.execute_wrapper`."""
    if not context["connection"].in_atomic_block:
        give_way()
    return execute(sql, params, many, context)
