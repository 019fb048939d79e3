"""What the launcher of the process runtime writes beside a media worker: which processes they are, and how it ended."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessId:
    """`started` (clock ticks since boot) tells it from a later process with the same number."""

    pid: int
    started: str


@dataclass(frozen=True)
class ProcessIds:
    """`boot` is the id of the boot in which these processes run."""

    boot: str
    worker: ProcessId
    launcher: ProcessId


@dataclass(frozen=True)
class ExitNote:
    code: int
