"""Reads the configuration of a media worker from standard input and keeps its paths inside the media folder."""

import os
import select
import sys
from pathlib import Path
from typing import TypeVar

from worker.process.station_clock import clock
from worker.wire.codec import WireError
from worker.wire.configuration import Handover, read_handover

WAIT_SECONDS = 15.0
C = TypeVar("C")


class ConfigError(Exception):
    """The configuration is wrong. The text contains field names, but no values."""


def read_line(wait_seconds: float = WAIT_SECONDS) -> str | None:
    """The line, or None if none arrives in time: the process that started this one is gone."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_seconds)
    if not ready:
        return None
    line = sys.stdin.readline()
    return line if line.endswith("\n") else None


def parse_line(kind: type[C], line: str) -> Handover[C]:
    """The configuration; sets the station's clock by it. Raises ConfigError."""
    try:
        handover = read_handover(kind, line)
    except WireError as error:
        raise ConfigError(str(error)) from None
    clock.begin(handover.clock)
    return handover


def media_folder() -> Path:
    return Path(os.environ.get("AIRLOCK_MEDIA", "/media"))


def inside(root: Path, relative: str) -> Path:
    """A path below `root`. Raises ConfigError for a path that leaves it (S-04)."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ConfigError("a path in the config leaves the media folder")
    return path
