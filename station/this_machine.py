"""What tells this machine, and this container on it, from others."""

import socket
from functools import lru_cache
from pathlib import Path

# The kernel gives the first PID namespace of a machine this number; containers have others (PROC_PID_INIT_INO).
FIRST_PID_NAMESPACE = "pid:[4026531836]"


@lru_cache
def machine_id() -> str:
    """The id that the system was installed with. Empty where there is none, as in most containers."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


@lru_cache
def machine_name() -> str:
    return machine_id() or socket.gethostname()


@lru_cache
def pid_namespace() -> str:
    """The namespace of this process's pids. Empty outside of containers, and where there is no /proc."""
    try:
        name = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
    return "" if name == FIRST_PID_NAMESPACE else name
