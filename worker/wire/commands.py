"""The commands to a running media worker: one dataclass for each POST, with its path."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from worker.wire.configuration import Source
from worker.wire.rundown import Rundown


@dataclass(frozen=True)
class Command:
    path: ClassVar[str] = ""


@dataclass(frozen=True)
class Stop(Command):
    path: ClassVar[str] = "/stop"


@dataclass(frozen=True)
class SetClock(Command):
    """The station's time was `station_at` when the machine was up for `boot_seconds`. It can be sent twice."""

    path: ClassVar[str] = "/clock"
    boot_seconds: float
    station_at: datetime


@dataclass(frozen=True)
class End(Command):
    """Change the end of a recording."""

    path: ClassVar[str] = "/end"
    ends_at: datetime


@dataclass(frozen=True)
class Load(Command):
    """Play another list. The item on air stays on air."""

    path: ClassVar[str] = "/load"
    rundown: Rundown
    sources: dict[str, Source] = field(default_factory=dict, repr=False)
    redact: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Play(Command):
    path: ClassVar[str] = "/play"


@dataclass(frozen=True)
class Pause(Command):
    path: ClassVar[str] = "/pause"


@dataclass(frozen=True)
class Skip(Command):
    path: ClassVar[str] = "/skip"


@dataclass(frozen=True)
class Cue(Command):
    """Play this item next, or with `take` now."""

    path: ClassVar[str] = "/cue"
    key: str
    take: bool = False
