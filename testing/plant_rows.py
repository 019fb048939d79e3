"""Rows for the machines of `testing.plant`, and the process itself: nodes, and channels that are on air on them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from testing.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
FIRST_PORT, PORTS_PER_NODE = 10_000, 40


@contextmanager
def running_plant(folder: Path, project: Any, *, good: int, silent: int = 0, channels: int = 0) -> Iterator[list[Any]]:
    """Nodes that are up, the silent ones last, with channels on air spread over them."""
    folder.mkdir()
    nodes = _make_nodes(folder, good + silent)
    (folder / "workers.json").write_text(json.dumps(_put_on_air(project, nodes, channels)))
    command = [sys.executable, "-m", "testing.plant", str(folder), str(good), str(silent)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_until((folder / "ready").exists, 60, "the machines are there")
        yield nodes
    finally:
        process.kill()
        process.wait()


def _make_nodes(folder: Path, count: int) -> list[Any]:
    from nodes.models import Node
    from station.clock import database_now

    now = database_now()
    return [
        Node.objects.create(
            name=f"m{number}",
            address=f"unix://{folder}/{number}.sock",
            media_dir="/media",
            labels="plant",
            state="up",
            last_seen_at=now,
            disk_checked_at=now + timedelta(minutes=5),
            control_port_from=FIRST_PORT + PORTS_PER_NODE * number,
            control_port_count=PORTS_PER_NODE,
            max_workloads=PORTS_PER_NODE,
        )
        for number in range(count)
    ]


def _put_on_air(project: Any, nodes: list[Any], count: int) -> list[list[Any]]:
    """What the plant needs to know about the media workers of these channels."""
    from nodes import workloads
    from nodes.models import Workload
    from nodes.workloads import token_of
    from playout.models import Channel
    from station.clock import database_now
    from testing.workloads import like_a_channel

    now, known = database_now(), []
    for number in range(count):
        place = number % len(nodes)
        channel = Channel.objects.create(
            name=f"Channel {number}",
            project=project,
            picture="640x360p25",
            node_labels="plant",
            is_wanted=True,
            state="on_air",
        )
        made = workloads.want(
            channel.owner,
            node=nodes[place],
            program="playout",
            spec={},
            secret={},
            now=now,
            supervision=like_a_channel(),
        )
        Workload.objects.filter(pk=made.pk).update(state="running", heartbeat_at=now, started_at=now)
        known.append([made.owner, made.generation, token_of(made), made.control_port, made.name, place])
    return known
