"""What differs between versions of ffmpeg."""

import contextlib
import re
import subprocess
from functools import lru_cache

from worker.media.ffmpeg import Binary

# From this version on, progress is that of the track that is behind all others.
PROGRESS_OF_LAST_TRACK = 6


def keeps_sparse_tracks(binary: Binary) -> bool:
    """Whether subtitles and data can be recorded: in a new ffmpeg, silent ones look like a stalled recording."""
    return _major_version(binary.path) < PROGRESS_OF_LAST_TRACK


@lru_cache(maxsize=8)
def _major_version(path: str) -> int:
    """A version that cannot be read counts as new."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=15, check=False)
        if found := re.match(r"ffmpeg version n?(\d+)\.", done.stdout):
            return int(found[1])
    return PROGRESS_OF_LAST_TRACK
