"""How much room a disk has."""

import contextlib
import os
from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """What we may still write there; None if it does not say."""
    with contextlib.suppress(OSError):
        room = os.statvfs(folder)
        return room.f_bavail * room.f_frsize
    return None
