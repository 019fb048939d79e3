"""Runtimes that run media workers behind one interface: `docker`, `process`, and `simulated` for rehearsals."""

from django.conf import settings

from nodes.models import Node
from nodes.runtimes import simulated
from nodes.runtimes.base import MayNotAct, Runtime
from nodes.runtimes.process import ProcessRuntime
from nodes.runtimes.process_home import here, run_dir
from station import admission

__all__ = ["here", "installation", "runtime_for", "simulated"]


def installation() -> str:
    """The id that labels every container we create. Raises MayNotAct: who has no label can change nothing on a node."""
    try:
        return admission.label()
    except admission.NotAdmitted as refusal:
        raise MayNotAct(str(refusal)) from refusal


def runtime_for(node: Node) -> Runtime:
    """The runtime for this node. Cheap: free connections are kept and shared."""
    world = simulated.current_world()
    if world is not None:
        return simulated.SimulatedRuntime(world, node.name)
    if node.parsed_address.is_process:
        return ProcessRuntime(
            installation,
            run_dir(),
            media_dir=node.media_dir,
            is_here=not node.is_elsewhere(here()),
        )
    from nodes.runtimes.docker import DockerRuntime  # here: it needs 8 MB, and job workers call no engine

    return DockerRuntime(
        installation,
        address=node.address,
        media_dir=node.media_dir,
        network=node.network,
        keys_dir=settings.NODE_KEYS_DIR / node.name,
    )
