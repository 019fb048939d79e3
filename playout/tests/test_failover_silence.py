"""A machine that drops all packets: nothing is refused, nothing answers. All time-outs together must be short."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.models import Workload
from playout.models import Channel, Recovery
from playout.tests.test_failover_docker import began as began_at
from playout.tests.test_failover_docker import house, on_air, place_error, worker
from station.models import Alert
from testing.certificates import Authority
from testing.network import FarMachine, far_machine
from testing.processes import is_alive
from testing.waiting import wait_until

__all__ = ["house"]  # a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.crash, pytest.mark.alone]

PORT = 2376


@pytest.fixture
def cable(get_engine: Any, tmp_path: Path, settings: Any) -> Iterator[tuple[FarMachine, str]]:
    """Engine b in a network of its own, reached over mutual TLS."""
    settings.NODE_KEYS_DIR = tmp_path / "keys"
    engine = get_engine("b")
    with far_machine() as machine:
        authority = Authority(tmp_path / "ca", machine.there)
        authority.give_keys(settings.NODE_KEYS_DIR / "engine-b")
        _restart(engine, machine.inside, *authority.serve(f"tcp://{machine.there}:{PORT}"))
        try:
            yield machine, f"tcp://{machine.there}:{PORT}"
        finally:
            engine.revive()
            engine.remove_all()
            _restart(engine, [])


def _restart(engine: Any, inside: list[str], *extra: str) -> None:
    engine.process.terminate()
    engine.process.wait(30)
    engine.inside = inside
    engine.start(*extra)


def test_a_machine_that_drops_all_packets_is_replaced_within_10_seconds(
    cable: tuple[FarMachine, str], house: Any
) -> None:
    """P-04, P-05: although each call runs into its time-out. The old media worker is ended when the machine is back."""
    machine, address = cable
    _, channel = house("a", "b", addresses={"engine-b": address}, on="engine-b")
    first = worker(channel)
    assert first.node.name == "engine-b"
    Channel.objects.update(node_labels="")

    machine.fall_silent()
    wait_until(lambda: Recovery.objects.filter(back_at__isnull=False).exists(), 60, "it is back")

    [recovery] = Recovery.objects.all()
    print(f"machine silent: {recovery.off_air_seconds:.2f} s off air")
    assert recovery.kind == Recovery.Kind.MOVE
    assert recovery.off_air_seconds is not None
    assert recovery.off_air_seconds < 10.0
    assert worker(channel).node.name == "engine-a"
    wait_until(lambda: worker(channel).progress.get("item"), 10, "it plays")
    assert place_error(channel, began_at(channel)) < 1.0
    assert not Alert.objects.filter(key="nodes_vanished").exists()

    machine.come_back()
    wait_until(lambda: Workload.objects.get(pk=first.pk).is_over, 60, "the end of the first workload is known")
    wait_until(
        lambda: not Workload.objects.get(pk=first.pk).node.workloads.live().exists(),
        60,
        "no workload runs on the first node",
    )
    on_air(channel)


def test_the_old_sender_ends_within_2_seconds_of_its_return_although_its_engine_is_down(
    cable: tuple[FarMachine, str], house: Any
) -> None:
    """P-14: two senders on one output for 2 s at most. The engine died while the machine was away (live-restore)."""
    machine, address = cable
    [_, far], channel = house("a", "b", addresses={"engine-b": address}, on="engine-b")
    first = worker(channel)
    pid = int(far.engine.docker("inspect", "--format", "{{.State.Pid}}", first.name).stdout)
    Channel.objects.update(node_labels="")

    machine.fall_silent()
    wait_until(lambda: Recovery.objects.filter(back_at__isnull=False).exists(), 60, "it is back")
    far.engine.kill()
    assert is_alive(pid)
    assert not Workload.objects.get(pk=first.pk).is_wanted
    machine.come_back()
    began = time.monotonic()
    wait_until(lambda: not is_alive(pid), 60, "the old sender ends")
    seconds = time.monotonic() - began
    print(f"the old sender ended {seconds:.2f} s after its machine's return")
    assert seconds < 2.0
    assert worker(channel).node.name == "engine-a"
    on_air(channel)
