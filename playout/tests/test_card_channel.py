"""A channel on a DeckLink card: a lost machine raises an error and is never a move (P-06); Stop from any state."""

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
    """On air on n1 through its card; n2 has a card with the same number and enough free room."""
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
    Channel.objects.update(node=None)  # only the card binds it to its node
    channel.refresh_from_db()
    return channel


def look(channel: Channel, seconds: float = 0.0) -> None:
    advance(channel, database_now() + timedelta(seconds=seconds))
    channel.refresh_from_db()


def see(channel: Channel, **fields: Any) -> Workload:
    """Set the observed state of the channel's workload."""
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


def test_a_lost_machine_raises_a_critical_alert_and_nothing_is_moved(channel: Channel) -> None:
    """P-06: the alert names the runbook; no media worker is started elsewhere, even after a day."""
    worker = lose_machine(channel)

    for seconds in (0, 15, 600, 86400):
        look(channel, seconds)

    assert channel.state == State.ERROR
    assert not Recovery.objects.exists()
    assert Workload.objects.get() == worker
    assert worker.is_wanted, "it may still be on air, so it is not ended"
    alert = Alert.objects.get(key=f"channel_error:{channel.owner}")
    assert (alert.severity, alert.state) == (Severity.CRITICAL, Alert.State.OPEN)
    assert failover.RUNBOOK in alert.text
    assert "Neither the worker nor its node answers" in alert.text


def test_the_runbook_section_named_by_the_alert_exists() -> None:
    """P-06: the alert names a heading of docs/operations.md; that section says what to do."""
    from django.conf import settings

    text = (settings.BASE_DIR / "docs" / "operations.md").read_text()
    sections = [each.partition("\n") for each in text.split("\n### ")[1:]]
    [advice] = [rest.split("\n## ")[0] for heading, _, rest in sections if heading in failover.RUNBOOK]
    assert "Start" in advice


def test_a_user_binds_the_channel_to_another_machine_and_starts_it(channel: Channel) -> None:
    """P-06: after moving the cable to that machine."""
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


def test_a_channel_that_kept_running_is_on_air_again_when_its_machine_is_back(channel: Channel) -> None:
    """P-06: automatically, with the same media worker."""
    worker = lose_machine(channel)
    see(channel, state="running", exit_reason="", error="", heartbeat_at=database_now())

    look(channel)

    assert channel.state == State.ON_AIR
    assert workloads.latest(channel.owner) == worker


def test_a_channel_in_error_can_be_stopped(channel: Channel) -> None:
    """P-01, P-06: without starting it first."""
    worker = lose_machine(channel)
    controls.stop(channel, by="anna")
    look(channel)
    assert channel.state == State.OFF_AIR
    worker.refresh_from_db()
    assert not worker.is_wanted
    assert [event.new for event in channel.events.order_by("at", "id")][-3:] == ["error", "stopping", "off_air"]
    assert not Alert.objects.exclude(state="resolved").filter(key__contains=channel.owner).exists()


def test_a_channel_can_be_stopped_during_a_rescue(channel: Channel) -> None:
    """P-01, P-05: a channel that is no longer wanted is not restarted."""
    see(channel, state="failed", exit_reason="killed", error="killed", exit_code=137, removed_at=database_now())
    Node.objects.update(is_draining=True)
    look(channel)
    assert channel.state == State.FAILING_OVER

    controls.stop(channel, by="anna")

    look(channel)
    assert channel.state == State.OFF_AIR
    assert Workload.objects.count() == 1
    assert Recovery.open_of(channel) is None
