"""What every runtime can do, the values that cross the boundary, and the one family of errors that does."""

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property


class RuntimeFault(Exception):
    """Something about a node or a container went wrong; the text is for a person."""


class Unreachable(RuntimeFault):
    """The node does not answer at all: nothing was done."""


class OutcomeUnknown(RuntimeFault):
    """The call ran out of time after it was sent: it may have been, or may yet be, carried out. Look again by name."""


class NameTaken(RuntimeFault):
    """Something that is not ours has this name. Never touch it."""


class Refused(RuntimeFault):
    """The node answered, and said no."""


class ImageMissing(Refused):
    """The worker image is not on that node."""


class Status(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Identity:
    """What a container says of itself: by this we know our own."""

    installation: str
    owner: str
    generation: int
    epoch: int = 0


@dataclass(frozen=True)
class Launch:
    """All a runtime needs to start a worker. `config` is secret: it goes in through standard input and nowhere else."""

    name: str
    identity: Identity
    program: str
    config: str = field(repr=False)
    devices: tuple[str, ...] = ()
    control_port: int | None = None
    memory_mb: int = 0  # 0: the default of WORKER_MEMORY_MB


@dataclass(frozen=True)
class Observed:
    """One container or process as it is now."""

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


class Runtime(ABC):
    """Every call is bounded in time, may be repeated, and touches only what carries our installation's label."""

    def __init__(self, installation: Callable[[], str]) -> None:
        self._read_installation = installation

    @cached_property
    def installation(self) -> str:
        """Our label. Read when it is needed: most checks speak with the media worker alone."""
        return self._read_installation()

    @abstractmethod
    def ping(self) -> str:
        """The engine's version; raises Unreachable."""

    @abstractmethod
    def free_disk(self) -> Disk:
        """Room in the media folder of the node."""

    @abstractmethod
    def list_ours(self) -> list[Observed]:
        """Everything that carries our label, running or not."""

    @abstractmethod
    def inspect(self, name: str) -> Observed | None:
        """What has this name, ours or not; None if nothing has."""

    @abstractmethod
    def start(self, launch: Launch) -> Observed:
        """Create and start, or adopt what an earlier call of the same name left. Raises NameTaken for a stranger's."""

    @abstractmethod
    def stop(self, name: str, *, force: bool = False) -> None:
        """Ask it to finish (SIGTERM), or end it (force). Returns at once; look again to see it gone."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Forget an ended one of ours. Nothing of that name: nothing to do."""

    @abstractmethod
    def logs(self, name: str, lines: int = 100) -> str:
        """The end of what it printed."""

    @abstractmethod
    def check_ready(self) -> None:
        """Could a worker be started here now? Raises what would stand in the way, e.g. ImageMissing."""

    def follow_ends(self) -> Iterator[str]:
        """Owners whose worker has ended, as the engine says so; ends when the engine does. Some say nothing."""
        return iter(())

    def run_briefly(self, launch: Launch, seconds: float) -> str:
        """Start a worker that ends by itself, wait for that, and answer what it printed. Nothing is left behind."""
        deadline = time.monotonic() + seconds
        try:
            self.start(launch)
            while (seen := self.inspect(launch.name)) is not None and seen.status is not Status.EXITED:
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(f"It was not done within {seconds:.0f} s.")
                time.sleep(0.1)
            return self.logs(launch.name)
        finally:
            with contextlib.suppress(RuntimeFault):  # what is left is swept as an orphan
                self.stop(launch.name, force=True)
                while (seen := self.inspect(launch.name)) is not None and seen.status is Status.RUNNING:
                    if time.monotonic() > deadline + 5:
                        break
                    time.sleep(0.05)
                self.remove(launch.name)

    def is_ours(self, observed: Observed) -> bool:
        return observed.identity is not None and observed.identity.installation == self.installation

    def check_ours(self, observed: Observed, launch: Launch | None = None) -> None:
        """Raise NameTaken unless this is ours (and the very one meant, if a launch is given)."""
        found = observed.identity
        if not self.is_ours(observed) or found is None:
            raise NameTaken(f"The name {observed.name} is taken by something that Airlock did not start.")
        if launch and (found.owner, found.generation) != (launch.identity.owner, launch.identity.generation):
            raise NameTaken(f"The name {observed.name} is taken by {found.owner}, generation {found.generation}.")
