"""Lets the leader finish its turn: while it takes long, other threads wait before their next statement or call (P-18).

Python runs one thread at a time. After each statement the leader's thread waits until the others let it run again: with
dozens of busy threads 10 to 30 ms, and a turn has dozens of statements. The threads that serve nodes have time. So they
give way once a turn takes longer than usual, outside transactions only, because the leader may need what they locked.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

# A turn that is shorter needs no help; one that is longer waits for something else, such as a lock.
HELPED_FROM_SECONDS, HELPED_UNTIL_SECONDS = 0.02, 0.5


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


turn = LeaderTurn()


def after_the_turn(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """For `connection.execute_wrapper` on the other threads."""
    if not context["connection"].in_atomic_block:
        turn.give_way()
    return execute(sql, params, many, context)
