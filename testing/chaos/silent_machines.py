"""Machines that do not answer: their channels and recordings need attention, and must not delay others.

Some accept connections and never answer (nobody reads from their sockets). Others answer, until they are frozen.
"""

import json
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from nodes import workloads
from nodes.models import Node, Workload
from nodes.runtimes import installation
from nodes.runtimes.container_config import LABEL_GENERATION, LABEL_INSTALLATION, LABEL_OWNER
from playout.channels.workload_spec import supervision
from playout.models import Channel, ChannelOutput
from scheduling.bookings.making import book
from scheduling.models import Booking
from station.clock import database_now
from station.models import Project
from testing.chaos.recorders import make_recorder
from testing.chaos.stand_in import Machine
from testing.media import free_port
from testing.processes import ROOT

SILENT_CHANNELS = 8
ANSWERING_CHANNELS = 4
RECORDINGS = 3
QUEUE = 1024


class SilentMachines:
    """The sockets of the silent ones, and the process of those that answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listening: list[socket.socket] = []
        self._stand_in: subprocess.Popen[bytes] | None = None

    def stage(self, project: Project, recordings_end_in: float) -> list[str]:
        """Nodes with a channel on air or a recording each. Returns the owners of the recordings."""
        for number in range(SILENT_CHANNELS):
            stage_channel(self._silent_node(f"silent-{number}"), project)
        owners = [
            stage_recording(self._silent_node(f"far-{number}"), project, recordings_end_in)
            for number in range(RECORDINGS)
        ]
        answering = [self._answering_machine(f"answering-{number}", project) for number in range(ANSWERING_CHANNELS)]
        command = [sys.executable, "-m", "testing.chaos.stand_in"]
        with (self.folder / "stand-in.log").open("wb") as log:  # callers that gave up while it was frozen
            self._stand_in = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self._stand_in.stdin is not None
        assert self._stand_in.stdout is not None
        self._stand_in.stdin.write(json.dumps([asdict(machine) for machine in answering]).encode())
        self._stand_in.stdin.close()
        assert self._stand_in.stdout.readline() == b"ready\n"
        return owners

    def fall_silent(self) -> None:
        assert self._stand_in is not None
        self._stand_in.send_signal(signal.SIGSTOP)

    def come_back(self) -> None:
        assert self._stand_in is not None
        self._stand_in.send_signal(signal.SIGCONT)

    def close(self) -> None:
        for each in self._listening:
            each.close()
        if self._stand_in is not None:
            self._stand_in.kill()
            self._stand_in.wait()

    def _silent_node(self, name: str) -> Node:
        """The kernel accepts the connections; nobody reads from them."""
        path = str(self.folder / f"{name}.sock")
        engine = socket.socket(socket.AF_UNIX)
        engine.bind(path)
        control = socket.socket()
        control.bind(("127.0.0.1", 0))
        for listener in (engine, control):
            listener.listen(QUEUE)
            self._listening.append(listener)
        return make_node(name, path, control.getsockname()[1])

    def _answering_machine(self, name: str, project: Project) -> Machine:
        path, port = str(self.folder / f"{name}.sock"), free_port()
        channel = stage_channel(make_node(name, path, port), project)
        labels = {LABEL_INSTALLATION: installation(), LABEL_OWNER: channel.owner, LABEL_GENERATION: "1"}
        return Machine(path, port, channel.owner, labels)


def make_node(name: str, path: str, port: int) -> Node:
    """A node that answered a moment ago. Its disk is not measured."""
    now = database_now()
    node = Node.objects.create(
        name=name,
        address=f"unix://{path}",
        media_dir="/nowhere",
        control_port_from=port,
        control_port_count=1,
        last_seen_at=now,
        disk_checked_at=now + timedelta(days=1),
    )
    node.move(Node.State.UP, now=now)
    return node


def stage_channel(node: Node, project: Project) -> Channel:
    """A channel that is on air from this node and may not be moved to another."""
    now = database_now()
    channel = Channel.objects.create(name=f"On {node.name}", project=project, node=node, is_wanted=True)
    ChannelOutput.objects.create(channel=channel, type="udp", address="udp://127.0.0.1:9")
    channel.move(Channel.State.STARTING, now=now)
    channel.move(Channel.State.ON_AIR, now=now)
    run_workload(channel.owner, node, project, "playout", supervision())
    return channel


def stage_recording(node: Node, project: Project, seconds: float) -> str:
    """A booking that is recorded on this node, and goes on on the node of the others when this one is given up."""
    now = database_now()
    recorder = make_recorder(f"Cam {node.name}", project)
    book(recorder, now, now + timedelta(seconds=seconds), now=now, title=f"show on {node.name}")
    booking = Booking.objects.get(recorder=recorder)
    for state in (Booking.State.ARMED, Booking.State.STARTING, Booking.State.RECORDING):
        booking.move(state, now=now, attempts=1, dispatched_at=now, late_by_seconds=0.0)
    run_workload(booking.owner, node, project, "capture", None)
    return booking.owner


def run_workload(owner: str, node: Node, project: Project, program: str, policy: workloads.Supervision | None) -> None:
    """A workload that runs since a moment. It has reported frames, as-run entries and an old list."""
    now = database_now()
    progress = {"owner": owner, "generation": 1, "frames": 100, "rundown": "an older list", "asrun_revision": 5}
    row = workloads.want(
        owner, node=node, program=program, spec={}, secret={}, now=now, project=project, supervision=policy
    )
    row.move(Workload.State.STARTING, now=now, called_at=now)
    row.move(Workload.State.RUNNING, now=now, started_at=now, heartbeat_at=now, progress=progress)
