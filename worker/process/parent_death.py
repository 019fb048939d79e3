"""Makes the kernel end a child process when the thread that started it ends."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)  # loaded before any fork


def die_with(parent: int, number: int = signal.SIGTERM) -> None:
    """Call in the child, between fork and exec, with the parent's pid."""
    _libc.prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent died before the call
        os._exit(1)
