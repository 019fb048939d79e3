"""Threads for calls to nodes, shared by all nodes: a node that hangs delays only itself.

There are four lanes, so that starts and stops do not queue behind checks, nor recordings behind channels. In each lane
a node has a few threads at most, and one that hangs fewer still. One thread it always has: the others find one although
many machines are silent (P-18).

The leader's thread only puts its tasks in a queue (`submit_soon`). Whenever it waits for a new thread, or for a lock
that busy threads use, it loses the interpreter; among dozens of busy threads it gets it back after some 10 ms.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from enum import Enum
from queue import SimpleQueue

from django.db import OperationalError, close_old_connections, connection, connections

from station import precedence
from station.database.locks import is_busy

logger = logging.getLogger(__name__)

# For tasks that belong to no node. Each kind has its own number, and so its own share of the threads. The last one must
# be the lowest: probes of a node's sources count down from it.
NO_NODE, BOOKINGS, NODE_GROUPS, PORT_REVIEWS, PROBES = 0, -1, -2, -3, -4
Task = Callable[[], object]
MOST_THREADS = 1000
# A node with a task that has been running for this long hangs. It gets no more threads than this.
HANGS_SECONDS, HANGING_PER_NODE = 3.0, 2


class Rank(Enum):
    """How soon a task must be done."""

    CHECK = "check"
    URGENT = "urgent"  # stops, and checks of what may be off air
    START = "start"  # of channels
    RECORDING = "recording"  # starts of recordings


# Threads in each lane, and for one node at most
LIMITS = {Rank.CHECK: (80, 6), Rank.URGENT: (40, 4), Rank.START: (24, 4), Rank.RECORDING: (16, 4)}


class Lane:
    """Threads that all nodes share, with a limit for each node. Tasks over the limit wait, in order."""

    def __init__(self, rank: Rank) -> None:
        self._threads, self._per_node = LIMITS[rank]
        self._executor = ThreadPoolExecutor(MOST_THREADS, rank.value)
        self._waiting: dict[int, deque[tuple[Future[None], Task]]] = {}
        self._began: dict[int, dict[Future[None], float]] = {}  # what is running, by node
        self._running = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def submit(self, node_id: int, task: Task) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            if self._is_closed:  # the process ends
                future.cancel()
                return future
            self._waiting.setdefault(node_id, deque()).append((future, task))
            self._start_waiting(node_id)
        return future

    def _start_waiting(self, node_id: int) -> None:
        queue, began = self._waiting[node_id], self._began.setdefault(node_id, {})
        while queue and self._may_begin(began):
            future, task = queue.popleft()
            began[future] = time.monotonic()
            self._running += 1
            self._executor.submit(self._run, node_id, future, task)
        if not queue:
            del self._waiting[node_id]

    def _may_begin(self, began: "dict[Future[None], float]") -> bool:
        """May a node with these running tasks have one more thread?"""
        if not began:
            return True
        hangs = time.monotonic() - min(began.values()) > HANGS_SECONDS
        return self._running < self._threads and len(began) < (HANGING_PER_NODE if hangs else self._per_node)

    def _run(self, node_id: int, future: Future[None], task: Task) -> None:
        try:
            task()
        finally:
            with self._lock:
                del self._began[node_id][future]
                self._running -= 1
                for waiting in [node_id, *self._waiting]:
                    if waiting in self._waiting:
                        self._start_waiting(waiting)
            future.set_result(None)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for queue in self._waiting.values():
                for future, _ in queue:
                    future.cancel()
            self._waiting.clear()
        self._executor.shutdown(wait=False)


class NodePools:
    """Runs at most one task of a kind per node; a second one of that kind is dropped, not queued."""

    def __init__(self) -> None:
        self._lanes: dict[Rank, Lane] = {}
        self._busy: dict[tuple[int, str], Future[None]] = {}
        self._lock = threading.Lock()
        self._submissions: SimpleQueue[Task] = SimpleQueue()
        self._submitter: threading.Thread | None = None

    def submit_soon(self, node_id: int, kind: str, task: Task, *, rank: Rank = Rank.CHECK) -> None:
        """`submit`, a moment later and on another thread; returns at once."""
        self._submissions.put(lambda: self.submit(node_id, kind, task, rank=rank))
        if self._submitter is None or not self._submitter.is_alive():
            submitter = threading.Thread(target=self._submit_all, daemon=True, name="pools")
            submitter.start()
            self._submitter = submitter

    def _submit_all(self) -> None:
        while True:
            step = self._submissions.get()
            try:
                step()
            except Exception:  # such as no memory for a thread; the leader submits every task again
                logger.exception("A node task could not be begun.")

    def submit(self, node_id: int, kind: str, task: Task, *, rank: Rank = Rank.CHECK) -> Future[None] | None:
        """Run `task` on a thread unless an earlier task of the same kind and node is still waiting or running.

        Starts and stops have their own threads: dozens of checks of healthy workloads, each slow on a busy machine,
        must not delay them. Nor must a hundred channels that move delay a recording.
        """
        with self._lock:
            running = self._busy.get((node_id, kind))
            if running is not None and not running.done():
                return None
            future = self._lane(rank).submit(node_id, lambda: _guarded(kind, rank, task))
            self._busy[(node_id, kind)] = future
            if len(self._busy) > 1000:
                self._busy = {key: each for key, each in self._busy.items() if not each.done()}
            return future

    def _lane(self, rank: Rank) -> Lane:
        """Made at first use: web processes and commands rarely need them."""
        if rank not in self._lanes:
            self._lanes[rank] = Lane(rank)
        return self._lanes[rank]

    def wait_idle(self, seconds: float) -> bool:
        """Wait up to `seconds` for what runs and what that begins; True if all has ended. The loop never waits."""
        deadline = time.monotonic() + seconds
        while True:
            if self._submitter is not None:
                is_empty = threading.Event()
                self._submissions.put(is_empty.set)
                if not is_empty.wait(max(0.0, deadline - time.monotonic())):
                    return False
            with self._lock:
                running = [each for each in self._busy.values() if not each.done()]
            if not running:
                return True
            if wait(running, timeout=max(0.0, deadline - time.monotonic())).not_done:
                return False

    def close(self) -> None:
        with self._lock:
            for lane in self._lanes.values():
                lane.close()
            self._lanes.clear()


def _guarded(kind: str, rank: Rank, task: Task) -> None:
    precedes = precedence.starts.under_way if rank is Rank.RECORDING else precedence.ordinary
    close_old_connections()
    try:
        with precedes(), connection.execute_wrapper(precedence.after_the_others):
            task()
    except OperationalError as error:
        if is_busy(error):
            logger.warning("A node task waits for a row that somebody else has locked. kind=%s", kind)
        else:
            logger.exception("A node task failed: the database. kind=%s", kind)
    except Exception:  # one failing task must not end the thread for the others
        logger.exception("A node task failed. kind=%s", kind)
    finally:
        connections.close_all()


pools = NodePools()
