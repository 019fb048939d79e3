"""The leader's memory for one term: created when it becomes leader, discarded when it stops being leader.

The loop creates one Term and passes it to every step. A step that must remember something between two turns declares a
class for it and asks the term for its object of that class. So no module keeps state, and a new term starts empty. A
web process that acts for a user has no term: it uses a new `Term()` with epoch 0.
"""

import threading
from typing import Any, TypeVar

Memory = TypeVar("Memory")


class Term:
    """One leader's epoch and the memory of its steps. Safe to use from several threads."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self._memories: dict[type, Any] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def memory(self, kind: type[Memory]) -> Memory:
        """This term's object of that class, created without arguments on first use."""
        with self._lock:
            if kind not in self._memories:
                self._memories[kind] = kind()
            found: Memory = self._memories[kind]
            return found

    def keep(self, thing: object) -> None:
        """Store an object that was created elsewhere; `kept` finds it by its class."""
        with self._lock:
            self._memories[type(thing)] = thing

    def kept(self, kind: type[Memory]) -> Memory | None:
        with self._lock:
            found: Memory | None = self._memories.get(kind)
            return found

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    def end(self) -> None:
        """Mark the term as over. Threads that still act for it stop at their next check."""
        self._ended.set()
