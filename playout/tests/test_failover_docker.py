"""Failover with real engines and a real scheduler: seconds off air, and the position after the failover."""

import json
import os
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from nodes import workloads
from nodes.models import Node, Workload
from nodes.workloads.media_worker_client import fetch
from playout.models import AsRunEntry, Channel, Recovery
from station.clock import database_now
from station.database.notify import wake_scheduler
from station.models import Alert
from testing.channels import make_channel
from testing.waiting import wait_until
from worker.wire.status import PlayoutStatus

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.crash, pytest.mark.alone]

State = Channel.State
# How long the scheduler is stopped; AIRLOCK_AWAY_SECONDS=300 makes it five minutes.
AWAY_SECONDS = float(os.environ.get("AIRLOCK_AWAY_SECONDS", "8"))


@pytest.fixture
def house(make_docker_node: Any, project: Any, settings: Any, tmp_path: Path, scheduler: Any) -> Any:
    """A factory: engines that share one media folder, a channel on air, and a scheduler."""

    def start_scheduler() -> None:
        make.scheduler = scheduler(  # type: ignore[attr-defined]
            WORKER_PREVIEW="false", RECORDINGS_DIR=str(tmp_path / "shared"), NODE_KEYS_DIR=str(settings.NODE_KEYS_DIR)
        )

    def make(*names: str, addresses: dict[str, str] | None = None, on: str = "") -> tuple[list[Any], Any]:
        """`addresses` replaces the sockets of nodes; `on` is the node that the channel starts on."""
        media = tmp_path / "shared"
        media.mkdir()
        media.chmod(0o777)
        settings.RECORDINGS_DIR = media
        nodes = [make_docker_node(name) for name in names]
        Node.objects.update(media_dir=str(media))
        for name, address in (addresses or {}).items():
            Node.objects.filter(name=name).update(address=address)
        Node.objects.filter(name=on).update(labels="first")
        channel = make_channel(project, media, clips=3, seconds=40.0, node_labels="first" if on else "")
        (media / "playout").mkdir()
        (media / "playout").chmod(0o777)
        start_scheduler()
        Channel.objects.update(is_wanted=True)
        wake_scheduler()
        on_air(channel)
        wait_until(lambda: position(channel) > 1, 20, "it plays")
        return nodes, channel

    make.start_scheduler = start_scheduler  # type: ignore[attr-defined]
    return make


def on_air(channel: Any, seconds: float = 40) -> None:
    wait_until(lambda: state_of(channel) == State.ON_AIR, seconds, "the channel is on air")


def state_of(channel: Any) -> str:
    channel.refresh_from_db()
    return str(channel.state)


def worker(channel: Any) -> Workload:
    found = workloads.latest(channel.owner)
    assert found is not None
    return found


def position(channel: Any) -> float:
    return float((worker(channel).progress.get("item") or {}).get("offset_seconds") or 0.0)


def place_error(channel: Any, began_at: Any) -> float:
    """The difference, in seconds, between the channel's position and that of an undisturbed channel."""
    workload = worker(channel)
    place = workload.progress["place"]
    titles = [item.shown_title for item in channel.playlist.items.order_by("position")]
    index = titles.index(workload.progress["item"]["title"])
    at = datetime.fromisoformat(place["at"])
    return abs(index * 40.0 + place["offset_seconds"] - (at - began_at).total_seconds())


def began(channel: Any) -> Any:
    return AsRunEntry.objects.filter(channel=channel, title__startswith="clip0").earliest("started_at").started_at


def test_a_killed_container_is_replaced_within_3_seconds_on_its_node(house: Any) -> None:
    """P-04, P-08: the engine reports the end, so that it is detected early."""
    [node], channel = house("a")
    first = worker(channel)
    wait_until(lambda: AsRunEntry.objects.filter(title__startswith="clip0").exists(), 10, "as-run is read")
    node.engine.docker("kill", first.name)
    wait_until(lambda: Recovery.objects.filter(back_at__isnull=False).exists(), 30, "it is back")
    [recovery] = Recovery.objects.all()
    print(f"container killed: {recovery.off_air_seconds:.2f} s off air")
    assert recovery.off_air_seconds is not None
    assert recovery.off_air_seconds < 3.0
    assert recovery.to_node == recovery.from_node == Node.objects.get()
    wait_until(lambda: worker(channel).progress.get("item"), 10, "it plays")
    assert place_error(channel, began(channel)) < 1.0


def test_a_lost_machine_is_replaced_within_10_seconds_at_the_right_position(house: Any) -> None:
    """P-05, P-07: engine and containers are killed; the channel is on air from another node."""
    nodes, channel = house("a", "b")
    first = worker(channel)
    wait_until(lambda: AsRunEntry.objects.filter(title__startswith="clip0").exists(), 10, "as-run is read")
    gone = next(node for node in nodes if node.pk == first.node_id)
    gone.engine.kill_with_containers()
    wait_until(lambda: Recovery.objects.filter(back_at__isnull=False).exists(), 40, "it is back")
    [recovery] = Recovery.objects.all()
    print(f"machine lost: {recovery.off_air_seconds:.2f} s off air")
    assert recovery.kind == Recovery.Kind.MOVE
    assert recovery.off_air_seconds is not None
    assert recovery.off_air_seconds < 10.0
    assert worker(channel).node_id != first.node_id
    wait_until(lambda: worker(channel).progress.get("item"), 10, "it plays")
    assert place_error(channel, began(channel)) < 1.0


def test_if_the_scheduler_reaches_no_machine_nothing_is_moved(house: Any) -> None:
    """P-05: the channel keeps playing and is adopted again."""
    nodes, channel = house("a", "b", "c")
    first = worker(channel)
    for node in nodes:
        node.engine.freeze()
    # The scheduler cannot reach the media worker's own port either: freeze its process for a while.
    pid = container_pid()
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: Alert.objects.filter(key="nodes_vanished").exists(), 60, "an alert is raised")
    os.kill(pid, signal.SIGCONT)
    for node in nodes:
        node.engine.thaw()
    wait_until(lambda: worker(channel).missed_looks == 0, 40, "the media worker answers again")
    assert not Recovery.objects.exists()
    assert worker(channel).pk == first.pk
    assert state_of(channel) == State.ON_AIR


def container_pid() -> int:
    """The pid of the media worker's process on this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "worker playout" in command:
            return int(path.parent.name)
    raise AssertionError("no media worker is running")


def test_a_channel_plays_on_without_a_scheduler(house: Any) -> None:
    """DESIGN 6: the media worker does not need the control plane to keep playing."""
    _, channel = house("a")
    first = worker(channel)
    running = house.scheduler
    running.terminate()
    assert running.wait(30) == 0
    before = fetch(worker(channel), "/status", PlayoutStatus)
    began_at = time.monotonic()
    wait_until(lambda: time.monotonic() - began_at > AWAY_SECONDS, AWAY_SECONDS + 5, "some seconds without a scheduler")
    after = fetch(worker(channel), "/status", PlayoutStatus)
    seconds = time.monotonic() - began_at
    assert (after.ticks - before.ticks) / 25 == pytest.approx(seconds, abs=0.5)
    assert after.dropped == before.dropped
    assert after.encoder_restarts == 0
    house.start_scheduler()
    wait_until(
        lambda: worker(channel).heartbeat_at > database_now() - timedelta(seconds=3),
        30,
        "the new scheduler polls the media worker",
    )
    assert worker(channel).pk == first.pk
    assert not Recovery.objects.exists()


def test_a_drill_moves_the_channel_and_back_and_prints_the_seconds_off_air(
    house: Any, capsys: Any, settings: Any
) -> None:
    """P-11: failover_drill, drain_node, undrain_node on real engines."""
    settings.MANUAL_WAIT_SECONDS = 30
    _, channel = house("a", "b")
    first = worker(channel).node
    call_command("failover_drill", channel.name, "--back", "--json")
    drills = json.loads(capsys.readouterr().out.splitlines()[-1])["drills"]
    assert [row["to"] for row in drills][-1] == first.name
    assert len(drills) == 2
    assert all(0 < row["off_air_seconds"] < 15 for row in drills), drills
    print(f"drill: {[row['off_air_seconds'] for row in drills]} s off air")
    on_air(channel)
    call_command("drain_node", first.name)
    assert "is on air from" in capsys.readouterr().out
    assert worker(channel).node_id != first.pk
    call_command("undrain_node", first.name)
    assert "is open for work" in capsys.readouterr().out
    assert not Node.objects.filter(is_draining=True).exists()
