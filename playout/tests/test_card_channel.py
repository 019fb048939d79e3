"""A channel on a DeckLink card: a lost machine is an error for a person, never a move (P-06); Stop from any state."""

from datetime import timedelta
from typing import Any

import pytest

from nodes import workloads
from nodes.models import Node, Workload
from playout.channels import controls, failover
from playout.channels.lifecycle import advance
from playout.models import Channel, ChannelOutput, Recovery
from station.clock import database_now
from station.models import Alert
from station.models.alert import Severity

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Channel.State


@pytest.fixture
def channel(project: Any, settings: Any) -> Channel:
    """On air on n1 by its card; n2 has a card of that number, too, and all the room in the world."""
    settings.MANUAL_WAIT_SECONDS = 0.0
    nodes = [
        Node.objects.create(name=name, address=f"unix:///{name}", media_dir="/m", state="up") for name in ("n1", "n2")
    ]
    channel = Channel.objects.create(name="One", project=project, picture="640x360p25", is_wanted=True, node=nodes[0])
    ChannelOutput.objects.create(channel=channel, type="decklink", address="0")
    look(channel)
    see(channel, state="running", progress={"frames": 100, "asrun_revision": 0}, heartbeat_at=database_now())
    look(channel)
    assert channel.state == State.ON_AIR
    Channel.objects.update(node=None)  # nothing but the card holds it where it is
    channel.refresh_from_db()
    return channel


def look(channel: Channel, seconds: float = 0.0) -> None:
    advance(channel, database_now() + timedelta(seconds=seconds))
    channel.refresh_from_db()


def see(channel: Channel, **fields: Any) -> Workload:
    """What its worker was found to be."""
    worker = workloads.latest(channel.owner)
    assert worker is not None
    Workload.objects.filter(pk=worker.pk).update(**fields)
    worker.refresh_from_db()
    return worker


def lose_machine(channel: Channel) -> Workload:
    Node.objects.filter(name="n1").update(state="down")
    worker = see(
        channel, state="lost", exit_reason=failover.NODE_GONE, error="Neither the worker nor its node answers."
    )
    look(channel)
    return worker


def test_a_lost_machine_is_an_error_for_a_person_and_nothing_is_moved(channel: Channel) -> None:
    """P-06: critical, with the line of the runbook; however often the loop looks, no worker is made elsewhere."""
    worker = lose_machine(channel)

    for seconds in (0, 15, 600, 86400):
        look(channel, seconds)

    assert channel.state == State.ERROR
    assert not Recovery.objects.exists()
    assert Workload.objects.get() == worker
    assert worker.is_wanted, "it may well be on: nobody ends it"
    alert = Alert.objects.get(key=f"channel_error:{channel.owner}")
    assert (alert.severity, alert.state) == (Severity.CRITICAL, Alert.State.OPEN)
    assert failover.RUNBOOK in alert.text
    assert "Neither the worker nor its node answers" in alert.text


def test_the_line_of_the_runbook_leads_somewhere() -> None:
    """P-06: the alert names a heading of docs/operations.md, and that names what to do."""
    from django.conf import settings

    text = (settings.BASE_DIR / "docs" / "operations.md").read_text()
    sections = [each.partition("\n") for each in text.split("\n### ")[1:]]
    [advice] = [rest.split("\n## ")[0] for heading, _, rest in sections if heading in failover.RUNBOOK]
    assert "Start" in advice


def test_a_person_brings_it_back_on_the_machine_with_the_cable(channel: Channel) -> None:
    """P-06: by hand: bound to the machine that has the cable now, and Start."""
    lose_machine(channel)
    Channel.objects.update(node=Node.objects.get(name="n2"))
    channel.refresh_from_db()

    controls.start(channel, by="anna")

    channel.refresh_from_db()
    look(channel, 5)
    fresh = workloads.latest(channel.owner)
    assert fresh is not None
    assert (fresh.generation, fresh.node.name) == (2, "n2"), channel.error
    see(channel, state="running", progress={"frames": 1, "asrun_revision": 0}, heartbeat_at=database_now())
    look(channel, 5)
    assert channel.state == State.ON_AIR
    assert Alert.objects.get(key=f"channel_error:{channel.owner}").state == Alert.State.RESOLVED


def test_the_machine_is_back_and_it_never_stopped(channel: Channel) -> None:
    """P-06: then it is on air again by itself, with the worker it had."""
    worker = lose_machine(channel)
    see(channel, state="running", exit_reason="", error="", heartbeat_at=database_now())

    look(channel)

    assert channel.state == State.ON_AIR
    assert workloads.latest(channel.owner) == worker


def test_stop_works_in_error(channel: Channel) -> None:
    """P-01, P-06: nobody has to start a channel in order to stop it."""
    worker = lose_machine(channel)
    controls.stop(channel, by="anna")
    look(channel)
    assert channel.state == State.OFF_AIR
    worker.refresh_from_db()
    assert not worker.is_wanted
    assert [event.new for event in channel.events.order_by("at", "id")][-3:] == ["error", "stopping", "off_air"]
    assert not Alert.objects.exclude(state="resolved").filter(key__contains=channel.owner).exists()


def test_stop_works_in_the_middle_of_a_rescue(channel: Channel) -> None:
    """P-01, P-05: what is not wanted any more is not brought back."""
    see(channel, state="failed", exit_reason="killed", error="killed", exit_code=137, removed_at=database_now())
    Node.objects.update(is_draining=True)
    look(channel)
    assert channel.state == State.FAILING_OVER

    controls.stop(channel, by="anna")

    look(channel)
    assert channel.state == State.OFF_AIR
    assert Workload.objects.count() == 1
    assert Recovery.open_of(channel) is None
