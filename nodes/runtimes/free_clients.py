"""Clients of engines that nobody uses now. All threads share them: one for each thread and node would be thousands."""

import threading
from typing import Generic, Protocol, TypeVar

# Kept for the next calls to a node.
MOST_FREE = 4


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


class FreeClients(Generic[C]):
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._free: dict[str, list[tuple[str, C]]] = {}
        self._lock = threading.Lock()

    def take(self, address: str, url: str) -> C | None:
        """A free client with this URL. Those with another one belong to an ssh connection that was replaced."""
        with self._lock:
            free = self._free.pop(address, [])
            usable = [client for old, client in free if old == url]
            stale = [client for old, client in free if old != url]
            found = usable.pop() if usable else None
            self._free[address] = [(url, client) for client in usable]
        for client in stale:
            client.close()
        return found

    def give_back(self, address: str, url: str, client: C, *, is_usable: bool) -> None:
        with self._lock:
            free = self._free.setdefault(address, [])
            if is_usable and len(free) < MOST_FREE:
                free.append((url, client))
                return
        client.close()

    def close_all(self) -> None:
        with self._lock:
            free, self._free = self._free, {}
        for each in free.values():
            for _, client in each:
                client.close()
