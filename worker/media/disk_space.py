"""The free space of a disk."""

import contextlib
import os
from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """The bytes that can still be written there; None if the disk does not answer."""
    with contextlib.suppress(OSError):
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize
    return None
