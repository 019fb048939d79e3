"""Recorders with a small test picture, on the one node that records in a chaos run."""

import os

from django.conf import settings

from nodes.machines import health
from nodes.models import Node
from scheduling.models import Recorder
from station.models import Project

LABEL = "studio"
# Below the ports that the kernel gives away by itself. Two runs at the same time use different ones.
FIRST_PORT, PORTS = 14000, 200


def make_studio_node() -> Node:
    """This machine. Recorders ask for its label, so that nothing is placed on the machines that only pretend."""
    settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
    node = Node.objects.create(
        name="here",
        address="process",
        labels=LABEL,
        media_dir=str(settings.RECORDINGS_DIR),
        max_workloads=200,
        control_port_from=FIRST_PORT + PORTS * (os.getpid() % 80),
        control_port_count=PORTS,
    )
    health.check(node)
    return node


def make_recorder(name: str, project: Project) -> Recorder:
    return Recorder.objects.create(
        name=name,
        project=project,
        source_type="test",
        picture_size="160x90",
        video_bitrate="64k",
        node_labels=LABEL,
    )
