"""The simulated runtime for rehearsals: containers that start, record and end on a simulated clock."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodes.runtimes.base import Disk, Identity, Launch, Observed, Runtime, Status
from station.clock import database_now
from worker.wire.configuration import CaptureConfig, read_handover
from worker.wire.parts_and_gaps import Part
from worker.wire.status import CaptureStatus, final_line

# Measured with a real engine: the time of one start, and then until the first frame. A node starts one at a time.
START = timedelta(seconds=0.4)
FIRST_FRAME = timedelta(seconds=0.6)
BYTES_PER_SECOND = 500_000


@dataclass
class Container:
    identity: Identity
    node: str
    first_frame_at: datetime
    ends_at: datetime
    stopped_at: datetime | None = None

    def end(self) -> datetime:
        return min(self.ends_at, self.stopped_at or self.ends_at)


@dataclass
class World:
    """All simulated containers on all nodes."""

    containers: dict[str, Container] = field(default_factory=dict)
    busy_until: dict[str, datetime] = field(default_factory=dict)

    def start(self, node: str, launch: Launch) -> None:
        now = database_now()
        ready = max(now, self.busy_until.get(node, now)) + START
        self.busy_until[node] = ready
        config = read_handover(CaptureConfig, launch.config).config
        assert config.begins_at is not None
        assert config.ends_at is not None
        first_frame_at = max(ready + FIRST_FRAME, config.begins_at)
        self.containers.setdefault(launch.name, Container(launch.identity, node, first_frame_at, config.ends_at))

    def observed(self, name: str) -> Observed | None:
        container = self.containers.get(name)
        if container is None:
            return None
        is_over = database_now() >= container.end()
        status = Status.EXITED if is_over else Status.RUNNING
        return Observed(name, container.identity, status, exit_code=0 if is_over else None)

    def status(self, name: str) -> CaptureStatus:
        """The status that a media worker would report."""
        container = self.containers[name]
        until = min(database_now(), container.end())
        seconds = max(0.0, (until - container.first_frame_at).total_seconds())
        part = Part(
            number=1,
            file="rehearsal.ts",
            seconds=seconds,
            frames=int(seconds * 25),
            bytes=int(seconds * BYTES_PER_SECOND),
            first_frame_at=container.first_frame_at,
            last_frame_at=until,
            end_reason="ended" if until >= container.end() else "",
        )
        parts = (part,) if seconds else ()
        return CaptureStatus(
            owner=container.identity.owner,
            generation=container.identity.generation,
            state="recording" if seconds else "connecting",
            signal=bool(seconds),
            first_frame_at=container.first_frame_at if seconds else None,
            ends_at=container.ends_at,
            parts=parts,
            seconds=seconds,
            frames=sum(each.frames for each in parts),
            bytes=sum(each.bytes for each in parts),
        )


_world: ContextVar[World | None] = ContextVar("simulated_world", default=None)


def current_world() -> World | None:
    """The simulated world of the current rehearsal; None outside a rehearsal."""
    return _world.get()


@contextlib.contextmanager
def simulation() -> Iterator[World]:
    """Inside this block, in this thread, all nodes are simulated."""
    world = World()
    before = _world.set(world)
    try:
        yield world
    finally:
        _world.reset(before)


class SimulatedRuntime(Runtime):
    def __init__(self, inner: World, node: str) -> None:
        super().__init__(lambda: "")
        self.world, self.node = inner, node

    def ping(self) -> str:
        return "simulated"

    def free_disk(self) -> Disk:
        return Disk(10**13, 10**13)

    def check_ready(self) -> None:
        return

    def list_ours(self) -> list[Observed]:
        names = [name for name, each in self.world.containers.items() if each.node == self.node]
        return [seen for name in names if (seen := self.world.observed(name))]

    def inspect(self, name: str) -> Observed | None:
        return self.world.observed(name)

    def start(self, launch: Launch) -> Observed:
        self.world.start(self.node, launch)
        seen = self.world.observed(launch.name)
        assert seen is not None
        return seen

    def stop(self, name: str, *, force: bool = False) -> None:
        container = self.world.containers.get(name)
        if container is not None and container.stopped_at is None:
            container.stopped_at = database_now()

    def remove(self, name: str) -> None:
        self.world.containers.pop(name, None)

    def logs(self, name: str, lines: int = 100) -> str:
        return final_line(self.world.status(name)) if name in self.world.containers else ""

    def is_ours(self, observed: Observed) -> bool:
        return True
