"""The home of a process node: the machine, data folder and container that see its processes. Nobody else manages it.

A pid means nothing in another container, even with the same data folder. When a container ends, all its processes end,
and the next one has another PID namespace. So a node whose home was a container is taken over by the next process with
the same data folder, once nothing in that folder is running.
"""

import fcntl
import logging
from pathlib import Path

from django.conf import settings

from nodes.models import Node
from nodes.models.node import CONTAINER
from station.this_machine import machine_name, pid_namespace

logger = logging.getLogger(__name__)


def run_dir() -> Path:
    folder: Path = settings.DATA_DIR / "run"
    return folder


def here() -> str:
    """This machine, data folder and container, as stored in a process node."""
    place = f"{machine_name()}:{run_dir()}"[:240]
    return f"{place}{CONTAINER}{pid_namespace()}" if pid_namespace() else place


def take_home(node: Node) -> bool:
    """Become the home of this process node if it has none, or if its container has ended. True if it is ours."""
    if not node.parsed_address.is_process or node.process_home == here():
        return node.parsed_address.is_process
    if node.process_home and not _has_ended(node):
        return False
    if not Node.objects.filter(pk=node.pk, process_home=node.process_home).update(process_home=here()):
        return False
    node.process_home = here()
    run_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    _note().write_text(here())
    if pid_namespace():
        logger.warning("The media workers of this node end with this container. node=%s", node.name)
    return True


def _has_ended(node: Node) -> bool:
    """Did the container that was its home have this data folder, and does nothing in the folder run any more?"""
    try:
        is_same_folder = node.is_in_container and _note().read_text() == node.process_home
    except OSError:
        return False
    return is_same_folder and not any(_is_locked(path) for path in run_dir().glob("*/lock"))


def _note() -> Path:
    """Whose home this data folder was last."""
    return run_dir() / ".home"


def _is_locked(path: Path) -> bool:
    """Does a media worker, in any container of this machine, hold its lock?"""
    try:
        with path.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
