"""What a leader remembers during its term: made when it takes the lead, thrown away when it loses it.

The loop makes one Term and passes it to every step. A step that has to remember something between two turns declares a
class for it and asks the term for its one object of that class, so no module keeps state of its own and a new term
starts with nothing. A web process that acts by hand has no term of office: it uses a fresh `Term()` with epoch 0.
"""

import threading
from typing import Any, TypeVar

Memory = TypeVar("Memory")


class Term:
    """The epoch of one leader, and what its steps remember. Safe to use from the threads that act for it."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self._memories: dict[type, Any] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def memory(self, kind: type[Memory]) -> Memory:
        """This term's one object of that class, made without arguments when it is first asked for."""
        with self._lock:
            if kind not in self._memories:
                self._memories[kind] = kind()
            found: Memory = self._memories[kind]
            return found

    def keep(self, thing: object) -> None:
        """Remember an object that somebody else made; `kept` finds it by its class."""
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
        """The lead is lost or given back. Threads that still act for this term stop at their next check."""
        self._ended.set()
