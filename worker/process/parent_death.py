"""Children that do not outlive their parent: the kernel is asked to end them with the thread that started them."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)  # loaded before any fork


def die_with(parent: int, number: int = signal.SIGTERM) -> None:
    """Call in the child, between fork and exec, with the parent's pid."""
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
