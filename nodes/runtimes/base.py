"""The interface of every runtime, with the values and exceptions that cross it."""

import contextlib
import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar


class RuntimeFault(Exception):
    """A call about a node or a container failed; the text is shown to people."""


class Unreachable(RuntimeFault):
    """The node does not answer: nothing was done."""


class MayNotAct(Unreachable):
    """This machine is not admitted to its installation (station.admission): nothing was done."""


class OutcomeUnknown(RuntimeFault):
    """The call timed out after it was sent: it may have been, or may still be, carried out. Inspect the name again."""


class NameTaken(RuntimeFault):
    """A container that Airlock did not start has this name. Never touch it."""


class Refused(RuntimeFault):
    """The node answered and refused the call."""


class ImageMissing(Refused):
    """The media worker image is not on that node."""


class Status(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Identity:
    """The labels of a container, by which we recognise our own."""

    installation: str
    owner: str
    generation: int
    epoch: int = 0


@dataclass(frozen=True)
class Launch:
    """Everything a runtime needs to start a media worker. `config` is secret: pass it through standard input only."""

    name: str
    identity: Identity
    program: str
    config: str = field(repr=False)
    devices: tuple[str, ...] = ()
    control_port: int | None = None
    memory_mb: int = 0  # 0: the default of WORKER_MEMORY_MB


@dataclass(frozen=True)
class Observed:
    """The current status of one container or process."""

    name: str
    identity: Identity | None
    status: Status
    exit_code: int | None = None
    is_out_of_memory: bool = False
    error: str = ""


@dataclass(frozen=True)
class Disk:
    free_bytes: int
    total_bytes: int
    node_at: datetime | None = None  # what the node's clock showed during the call


@dataclass(frozen=True)
class NodeAnswer:
    """What a check of a node shows."""

    version: str
    containers: list[Observed]


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class PendingCheck(HasFileno, Protocol):
    """A check whose answer has not been read. It must be read or dropped."""

    def read(self, seconds: float) -> NodeAnswer: ...

    def drop(self) -> None: ...


H = TypeVar("H", bound=HasFileno)


def readable(lines: Collection[H], seconds: float) -> list[H]:
    """Those with something to read, at the latest after `seconds`. Not `select`, which fails after 1,024 open files."""
    poll, by_number = select.poll(), {line.fileno(): line for line in lines}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(seconds * 1000)]


class Runtime(ABC):
    """Every call has a time limit, can be repeated, and touches only containers with our installation's label."""

    def __init__(self, installation: Callable[[], str]) -> None:
        self._read_installation = installation
        self._installation = ""

    @property
    def installation(self) -> str:
        """Our label. Read on first use, because most checks call only the media worker.

        Not a `cached_property`: in Python 3.11 all objects share its lock, and a thread that waits for a database
        session would make all others wait that hold one.
        """
        if not self._installation:
            self._installation = self._read_installation()
        return self._installation

    @abstractmethod
    def ping(self) -> str:
        """The engine's version; raises Unreachable."""

    def check(self, label: str | None) -> NodeAnswer:
        """Does the node answer, and which containers have this label? None: this machine has no label."""
        return NodeAnswer(self.ping(), self.list_ours() if label is not None else [])

    def begin_check(self, label: str | None) -> PendingCheck | None:
        """The same without waiting for the answer. None if it may have to wait."""
        return None

    @abstractmethod
    def free_disk(self) -> Disk:
        """The free disk space of the node's media folder."""

    @abstractmethod
    def list_ours(self) -> list[Observed]:
        """All containers with our label, running or not."""

    @abstractmethod
    def inspect(self, name: str) -> Observed | None:
        """The container with this name, ours or not; None if there is none."""

    @abstractmethod
    def start(self, launch: Launch) -> Observed:
        """Create and start, or adopt the container of an earlier call. Raises NameTaken if it is not ours."""

    @abstractmethod
    def stop(self, name: str, *, force: bool = False) -> None:
        """Send SIGTERM, or SIGKILL with `force`. Returns at once; inspect again to see whether it has ended."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove an ended container of ours. Does nothing if there is none with that name."""

    @abstractmethod
    def logs(self, name: str, lines: int = 100) -> str:
        """The last lines of its output."""

    @abstractmethod
    def check_ready(self) -> None:
        """Check that a media worker could be started here now; raises the reason if not, e.g. ImageMissing."""

    def follow_ends(self) -> Iterator[str]:
        """The owners of media workers that end, as the engine reports it. Some runtimes report nothing."""
        return iter(())

    def run_briefly(self, launch: Launch, seconds: float) -> str:
        """Start a media worker that ends by itself, wait for its end, remove it, and return its output."""
        deadline = time.monotonic() + seconds
        try:
            self.start(launch)
            while (seen := self.inspect(launch.name)) is not None and seen.status is not Status.EXITED:
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(f"The media worker did not finish within {seconds:.0f} s.")
                time.sleep(0.1)
            return self.logs(launch.name)
        finally:
            with contextlib.suppress(RuntimeFault):  # a container that stays is swept as an orphan
                self.stop(launch.name, force=True)
                while (seen := self.inspect(launch.name)) is not None and seen.status is Status.RUNNING:
                    if time.monotonic() > deadline + 5:
                        break
                    time.sleep(0.05)
                self.remove(launch.name)

    def is_ours(self, observed: Observed) -> bool:
        return observed.identity is not None and observed.identity.installation == self.installation

    def check_ours(self, observed: Observed, launch: Launch | None = None) -> None:
        """Raise NameTaken unless this is ours and, if a launch is given, the container of that launch."""
        found = observed.identity
        if not self.is_ours(observed) or found is None:
            raise NameTaken(f"The name {observed.name} is used by a container that Airlock did not start.")
        if launch and (found.owner, found.generation) != (launch.identity.owner, launch.identity.generation):
            raise NameTaken(f"The name {observed.name} is used by {found.owner}, generation {found.generation}.")
