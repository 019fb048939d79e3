"""Runtimes that run media workers behind one interface: `docker`, `process`, and `simulated` for rehearsals."""

import socket
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from nodes.models import Node
from nodes.runtimes import simulated
from nodes.runtimes.base import Runtime
from nodes.runtimes.docker import DockerRuntime
from nodes.runtimes.process import ProcessRuntime
from station.models import Installation


def installation() -> str:
    """The id that labels every container we create; constant for one database."""
    return Installation.current().identity.hex


@lru_cache
def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()


def here() -> str:
    """This machine and this data folder, as stored in a process node."""
    return f"{_machine()}:{settings.DATA_DIR / 'run'}"[:300]


def runtime_for(node: Node) -> Runtime:
    """The runtime for this node. Cheap: connections are kept per thread."""
    world = simulated.current_world()
    if world is not None:
        return simulated.SimulatedRuntime(world, node.name)
    if node.parsed_address.is_process:
        return ProcessRuntime(
            installation,
            settings.DATA_DIR / "run",
            media_dir=node.media_dir,
            is_here=not node.is_elsewhere(here()),
        )
    return DockerRuntime(
        installation,
        address=node.address,
        media_dir=node.media_dir,
        network=node.network,
        keys_dir=settings.NODE_KEYS_DIR / node.name,
    )
