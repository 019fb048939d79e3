"""The files that the launcher of the process runtime writes: the process ids and the exit code of a media worker."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessId:
    """`started` (clock ticks since boot) distinguishes it from a later process with the same pid."""

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
