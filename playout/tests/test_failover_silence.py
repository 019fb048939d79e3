"""A machine that falls silent: nothing is refused, nothing answers. The time-outs must add up to little enough."""

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
from testing.waiting import wait_until

__all__ = ["house"]  # a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.docker, pytest.mark.crash, pytest.mark.alone]

PORT = 2376


@pytest.fixture
def cable(get_engine: Any, tmp_path: Path, settings: Any) -> Iterator[tuple[FarMachine, str]]:
    """Engine b at the other end of a cable, reached over mutual TLS."""
    settings.NODE_KEYS_DIR = tmp_path / "keys"
    engine = get_engine("b")
    with far_machine() as machine:
        authority = Authority(tmp_path / "ca", machine.there)
        authority.give_keys(settings.NODE_KEYS_DIR / "engine-b")
        _restart(engine, machine.inside, *authority.serve(f"tcp://{machine.there}:{PORT}"))
        try:
            yield machine, f"tcp://{machine.there}:{PORT}"
        finally:
            engine.remove_all()
            _restart(engine, [])


def _restart(engine: Any, inside: list[str], *extra: str) -> None:
    engine.process.terminate()
    engine.process.wait(30)
    engine.inside = inside
    engine.start(*extra)


def test_a_machine_that_falls_silent_is_replaced_within_10_seconds(cable: tuple[FarMachine, str], house: Any) -> None:
    """P-04, P-05: no answer is slower than a refusal, and still on air again in time; the old worker is ended later."""
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
    wait_until(lambda: Workload.objects.get(pk=first.pk).is_over, 60, "the first one's end is known")
    wait_until(lambda: not Workload.objects.get(pk=first.pk).node.workloads.live().exists(), 60, "it is ended there")
    on_air(channel)
