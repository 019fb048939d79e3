"""Measures how long a channel is off air at the receiver: after a killed container, and after a lost node."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.metric import Metric, bench_project, prepared_folder
from testing.engines import IMAGE, ROOT, Engine, start_engine, why_unavailable
from testing.media import free_port
from testing.processes import start_manage
from testing.waiting import wait_until

RUNS = 3
# Shorter pauses between datagrams do not count as a break.
BREAK_SECONDS = 0.3
PORTS_FROM = 28_000


class Receiver:
    """Receives the channel's datagrams and records every break: (when it began, how long it was)."""

    def __init__(self) -> None:
        self.port = free_port(socket.SOCK_DGRAM)
        self.breaks: list[tuple[float, float]] = []
        self.heard_at = 0.0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", self.port))
        self._socket.settimeout(0.5)
        self._ends = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while not self._ends:
            with contextlib.suppress(TimeoutError):
                self._socket.recv(65536)
                now = time.monotonic()
                if self.heard_at and now - self.heard_at > BREAK_SECONDS:
                    self.breaks.append((self.heard_at, now - self.heard_at))
                self.heard_at = now

    def break_after(self, moment: float) -> float | None:
        """The length of the break that began then; None until the output has been stable for two seconds."""
        found = [length for began, length in self.breaks if began > moment - 1.0]
        is_back = time.monotonic() - self.heard_at < BREAK_SECONDS
        return sum(found) if found and is_back and time.monotonic() > self.breaks[-1][0] + sum(found) + 2 else None

    def close(self) -> None:
        self._ends = True
        self._thread.join(2)
        self._socket.close()


def measure_failover() -> list[Metric]:
    if os.geteuid() == 0 and shutil.which("dockerd") and shutil.which("debootstrap"):
        # A fresh clone has no image yet. If there is one of this tree, this returns at once.
        subprocess.run([str(ROOT / ".ci" / "image")], check=True, timeout=1200)
    reason = why_unavailable()
    if reason:
        print(f"Failover was not measured: {reason}.", flush=True)
        return []
    receiver = Receiver()
    with _engines("a", "b") as engines, _house(engines, receiver) as house:
        kill = [_seconds_off(receiver, house.kill_container) for _ in range(RUNS)]
        lost = []
        for _ in range(RUNS):
            engine = house.here
            lost.append(_seconds_off(receiver, engine.kill_with_containers))
            engine.revive()
            house.wait_for_nodes()
    receiver.close()
    method = "640x360p25 by UDP; from the last datagram before to the first after, at the receiver; worst of all runs; "
    return [
        Metric("failover_container_s", max(kill), "s", "under 3", RUNS, f"{method}docker kill: {kill}"),
        Metric("failover_node_s", max(lost), "s", "under 10", RUNS, f"{method}engine and containers killed: {lost}"),
    ]


def _seconds_off(receiver: Receiver, act: Callable[[], object]) -> float:
    time.sleep(5)  # let it settle: as-run entries are read, polls are regular
    began = time.monotonic()
    act()
    return round(float(wait_until(lambda: receiver.break_after(began), 60, "the channel is on air again")), 2)


@contextlib.contextmanager
def _engines(*names: str) -> Iterator[dict[str, Engine]]:
    started: dict[str, Engine] = {}
    try:
        for name in names:
            started[name] = start_engine(name)
        yield started
    finally:
        for engine in started.values():
            engine.stop()


class House:
    """Two nodes, a channel on air, a scheduler."""

    def __init__(self, engines: dict[str, Engine], channel: Any) -> None:
        self.engines, self.channel = engines, channel

    @property
    def here(self) -> Engine:
        """The engine that the channel runs on."""
        return self.engines[self._workload().node.name]

    def kill_container(self) -> None:
        self.here.docker("kill", self._workload().name)

    def _workload(self) -> Any:
        from nodes import workloads

        found = workloads.latest(self.channel.owner)
        assert found is not None
        return found

    def wait_for_nodes(self) -> None:
        from nodes.models import Node

        wait_until(lambda: not Node.objects.exclude(state="up").exists(), 60, "all nodes are up")


@contextlib.contextmanager
def _house(engines: dict[str, Engine], receiver: Receiver) -> Iterator[House]:
    from django.conf import settings

    from nodes.machines import health
    from nodes.models import Node
    from playout.models import Channel
    from station.database.notify import wake_scheduler
    from testing.channels import make_channel

    media = prepared_folder() / "shared"
    (media / "playout").mkdir(parents=True)
    for folder in (media, media / "playout"):
        folder.chmod(0o777)
    settings.WORKER_IMAGE = IMAGE
    for number, (name, engine) in enumerate(engines.items()):
        node = Node.objects.create(
            name=name,
            address=engine.address,
            media_dir=str(media),
            control_port_from=PORTS_FROM + 100 * number,
            control_port_count=100,
        )
        health.check(node)
    address = f"udp://127.0.0.1:{receiver.port}"
    channel = make_channel(bench_project(), media, clips=3, seconds=40.0, outputs=[("udp", address)])
    settled = {"WORKER_IMAGE": IMAGE, "WORKER_PREVIEW": "false", "MAX_RECOVERIES": "100"}
    given = {**settled, "RECORDINGS_DIR": str(media), "DATA_DIR": str(prepared_folder())}
    log = prepared_folder() / "scheduler.log"
    scheduler = start_manage("runscheduler", log=log, **given)
    try:
        Channel.objects.update(is_wanted=True)
        wake_scheduler()
        wait_until(lambda: receiver.heard_at, 60, "the channel is on air")
        yield House(engines, channel)
    finally:
        scheduler.terminate()
        scheduler.wait(30)
