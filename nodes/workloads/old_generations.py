"""Ends media workers that were replaced while nothing could reach them (P-14).

When their machine is back, its engine may still be down. So their own ports are tried every second, and what accepts a
connection is told to stop. One thread tries all ports of all nodes at once; it needs no database until one answers.
"""

import contextlib
import logging
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import cast

from nodes.machines.call_pools import pools
from nodes.models import Node, Workload
from nodes.runtimes import simulated
from nodes.workloads.media_worker_client import WorkerRefused, WorkerSilent, tell
from station.leader_term import Term
from station.sealing import CannotOpen
from worker.wire.commands import Stop
from worker.wire.status import WorkerStatus

logger = logging.getLogger(__name__)

State = Workload.State
TRY_SECONDS = 1.0
ADDRESSES_KEPT_SECONDS = 60.0


@dataclass(frozen=True)
class OldPort:
    """The control port of a replaced media worker that may still run."""

    workload: int
    node_id: int
    host: str
    port: int


class LeftBehind:
    """The ports to try, and the thread that tries them."""

    def __init__(self) -> None:
        self.ports: list[OldPort] = []
        self.thread: threading.Thread | None = None


def is_left_behind(workload: Workload, node: Node) -> bool:
    """May it still run although it is not wanted? If its engine answers, the engine ends a stopping one."""
    if workload.is_wanted or workload.exit_code is not None:
        return False
    is_away = node.state != Node.State.UP
    return workload.state in {State.LOST, State.FAILED} or (workload.state == State.STOPPING and is_away)


def watch_ports(term: Term, nodes: dict[int, Node], found: list[Workload]) -> None:
    """Try the ports of these workloads from now on, and no others."""
    if simulated.current_world() is not None:
        return
    ports = [OldPort(each.pk, each.node_id, nodes[each.node_id].worker_host, each.control_port) for each in found]
    left_behind = term.memory(LeftBehind)
    left_behind.ports = ports
    if ports and (left_behind.thread is None or not left_behind.thread.is_alive()):
        left_behind.thread = threading.Thread(target=_try_ports, args=(term,), daemon=True, name="old-ports")
        left_behind.thread.start()


def _try_ports(term: Term) -> None:
    addresses: dict[str, tuple[int, str]] = {}
    looked_up = time.monotonic()
    while not term.is_over and (ports := term.memory(LeftBehind).ports):
        began = time.monotonic()
        if began - looked_up > ADDRESSES_KEPT_SECONDS:
            addresses, looked_up = {}, began
        for old in open_ports(ports, TRY_SECONDS, addresses):
            kind = f"old_generation:{old.workload}"
            pools.submit(old.node_id, kind, partial(end_by_own_port, old.workload))
        time.sleep(max(0.0, began + TRY_SECONDS - time.monotonic()))


def open_ports(ports: list[OldPort], seconds: float, addresses: dict[str, tuple[int, str]]) -> list[OldPort]:
    """The ports that accept a connection within `seconds`; all are tried at once. `addresses` remembers the hosts'."""
    waiting: dict[socket.socket, OldPort] = {}
    found: list[OldPort] = []
    with contextlib.ExitStack() as sockets:
        for old in ports:
            address = addresses.get(old.host) or _address_of(old.host)
            if address is None:
                continue
            addresses[old.host] = address
            line = sockets.enter_context(socket.socket(address[0], socket.SOCK_STREAM))
            line.setblocking(False)
            line.connect_ex((address[1], old.port))
            waiting[line] = old
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for line in waiting:
                selector.register(line, selectors.EVENT_WRITE)
            while waiting and (left := deadline - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    line = cast(socket.socket, key.fileobj)
                    selector.unregister(line)
                    old = waiting.pop(line)
                    if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        found.append(old)
    return found


def _address_of(host: str) -> tuple[int, str] | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError:
        return None  # it has no address, so nothing answers there
    return family, str(address[0])


def end_by_own_port(pk: int) -> bool:
    """Tell it to stop, unless it is wanted again. True if it answered. Its row follows when its engine answers."""
    workload = Workload.objects.select_related("node").filter(pk=pk, is_wanted=False, removed_at=None).first()
    if workload is None:
        return False
    try:
        tell(workload, Stop(), WorkerStatus)
    except (WorkerSilent, WorkerRefused, CannotOpen) as fault:
        logger.debug("A replaced media worker was not told to stop. workload=%s error=%s", workload.name, fault)
        return False
    logger.warning("Told a replaced media worker to stop. workload=%s node=%s", workload.name, workload.node.name)
    return True
