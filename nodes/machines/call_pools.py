"""Two thread pools per node: a node that hangs delays only itself, and starts do not queue behind checks."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from django.db import close_old_connections, connections

logger = logging.getLogger(__name__)

THREADS_PER_NODE = 4
# A check may hang until its time limit; on a node that is gone, all of them hang at once (P-03).
LOOKS_PER_NODE = 16


class NodePools:
    """Runs at most one task of a kind per node; a second one of that kind is dropped, not queued."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, bool], ThreadPoolExecutor] = {}
        self._busy: dict[tuple[int, str], Future[None]] = {}
        self._lock = threading.Lock()

    def submit(
        self, node_id: int, kind: str, task: Callable[[], object], *, is_urgent: bool = False
    ) -> Future[None] | None:
        """Run `task` on the node's pool unless an earlier task of the same kind is still running.

        Starts and stops are urgent and have their own threads: dozens of checks of healthy workloads, each slow on a
        busy machine, must not delay them.
        """
        with self._lock:
            running = self._busy.get((node_id, kind))
            if running is not None and not running.done():
                return None
            if (node_id, is_urgent) not in self._pools:
                name = f"node-{node_id}{'-urgent' if is_urgent else ''}"
                count = THREADS_PER_NODE if is_urgent else LOOKS_PER_NODE
                self._pools[node_id, is_urgent] = ThreadPoolExecutor(count, name)
            future = self._pools[node_id, is_urgent].submit(_guarded, kind, task)
            self._busy[(node_id, kind)] = future
            if len(self._busy) > 1000:
                self._busy = {key: each for key, each in self._busy.items() if not each.done()}
            return future

    def wait_idle(self, seconds: float) -> bool:
        """Wait up to `seconds` for running tasks; True if all have ended. For a single turn; the loop never waits."""
        with self._lock:
            futures = list(self._busy.values())
        return not wait(futures, timeout=seconds).not_done

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.shutdown(wait=False, cancel_futures=True)
            self._pools.clear()


def _guarded(kind: str, task: Callable[[], object]) -> None:
    close_old_connections()
    try:
        task()
    except Exception:  # one failing task must not end the thread for the others
        logger.exception("A node task failed. kind=%s", kind)
    finally:
        connections.close_all()


pools = NodePools()
