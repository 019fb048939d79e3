"""The wall clock of the machine of a media worker. It may be wrong, so only the clock checks use it (R-23)."""

import os
import time
from pathlib import Path

# For tests: a file with the seconds that this machine's clock is ahead. It may change at any time.
OFFSET_FILE = "AIRLOCK_CLOCK_OFFSET_FILE"


def node_time() -> float:
    """Seconds since 1970 by this machine's clock."""
    path = os.environ.get(OFFSET_FILE)
    return time.time() + (_read_offset(Path(path)) if path else 0.0)


def _read_offset(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # not written yet, or only half
        return 0.0
