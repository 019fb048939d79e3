"""The monitored output of a channel: its address, its alerts, and what the page shows."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from playout.channels.on_air_watch import watch_on_air
from playout.channels.workload_spec import config_of
from playout.lists.rundown import rundown_of
from playout.models import Channel, ChannelOutput
from station.clock import database_now
from station.models import Alert
from worker.wire.status import PlayoutStatus, ReturnStatus

pytestmark = pytest.mark.django_db


@pytest.fixture
def channel(project: Any) -> Channel:
    return Channel.objects.create(name="One", project=project)


def status(state: str = "playing", **seconds: float) -> PlayoutStatus:
    return PlayoutStatus(owner="channel:1", generation=1, state=state, returned=ReturnStatus(**seconds))


def open_kinds() -> set[str]:
    return {alert.key.partition(":")[0] for alert in Alert.objects.exclude(state=Alert.State.RESOLVED)}


@pytest.mark.parametrize(
    ("kind", "name", "least"),
    [("return_lost", "lost", 5.0), ("black", "black", 5.0), ("freeze", "frozen", 15.0), ("silence", "silent", 15.0)],
)
def test_each_trouble_is_one_alert_that_resolves_when_it_is_over(
    channel: Channel, kind: str, name: str, least: float
) -> None:
    """P-09."""
    now = database_now()
    watch_on_air(channel, status(**{f"{name}_seconds": least - 1}), now)
    assert open_kinds() == set()
    for seconds in (least, least + 20):
        watch_on_air(channel, status(**{f"{name}_seconds": seconds}), now)
        assert open_kinds() == {kind}
    watch_on_air(channel, status(), now)
    assert open_kinds() == set()
    assert Alert.objects.count() == 1


def test_a_pause_and_the_slate_may_stand_still_and_black_is_not_called_frozen_too(channel: Channel) -> None:
    """P-09: one fault, one alert."""
    now = database_now()
    for state in ("paused", "slate"):
        watch_on_air(channel, status(state, frozen_seconds=60, silent_seconds=60), now)
    assert open_kinds() == set()
    watch_on_air(channel, status(black_seconds=60, frozen_seconds=60), now)
    assert open_kinds() == {"black"}


@pytest.mark.parametrize(("heard", "word"), [(-10.0, "loud"), (-35.0, "quiet"), (-20.0, ""), (None, "")])
def test_loudness_far_from_the_target_is_a_warning(channel: Channel, heard: float | None, word: str) -> None:
    """P-09: half a minute counts; silence has an alert of its own."""
    now = database_now()
    watch_on_air(
        channel, PlayoutStatus(owner="channel:1", generation=1, returned=ReturnStatus(loudness_lufs=heard)), now
    )
    assert [alert.title for alert in Alert.objects.all()] == ([f"One: the output is too {word}"] if word else [])
    channel.loudness_lufs = None
    watch_on_air(
        channel, PlayoutStatus(owner="channel:1", generation=1, returned=ReturnStatus(loudness_lufs=heard)), now
    )
    assert open_kinds() == set(), "without a target every loudness is right"


def test_the_secret_of_a_monitored_address_is_sealed_kept_and_dropped_with_its_address(channel: Channel) -> None:
    """S-05: what is stored shows no key; another address gets no key of the old one."""
    output = ChannelOutput(channel=channel, type="rtmp", address="rtmp://server.example/live/PUBLISHKEY")
    output.monitored_at = "rtmp://server.example/live/PLAYKEY-4711"
    output.full_clean()
    output.save()
    assert "4711" not in output.monitored_at + output.monitored_secrets_sealed
    output = ChannelOutput.objects.get()
    output.save()
    config = config_of(channel, [output], rundown_of(channel, database_now()))
    assert config.monitored is not None
    assert config.monitored.url == "rtmp://server.example/live/PLAYKEY-4711"
    assert "PLAYKEY-4711" in config.secrets

    output.monitored_at = "rtmp://elsewhere.example/live"
    output.save()
    assert ChannelOutput.objects.get().monitored_secrets == {}


@pytest.mark.parametrize(
    "text", ["file:///etc/passwd", "239.1.1.1:5000", "srt://0.0.0.0:9000?mode=listener", "udp://x"]
)
def test_an_address_that_cannot_be_received_is_refused_beside_the_field(channel: Channel, text: str) -> None:
    """S-03, S-07."""
    output = ChannelOutput(channel=channel, type="udp", address="udp://239.1.1.1:5000", monitored_at=text)
    with pytest.raises(ValidationError) as refused:
        output.full_clean()
    assert set(refused.value.message_dict) == {"monitored_at"}


def test_the_form_takes_one_monitored_output(channel: Channel, admin_user: Any) -> None:
    """S-07."""
    client = Client()
    client.force_login(admin_user)
    data = {"name": "One", "project": channel.project_id, "picture": channel.picture, "video_bitrate": "4M"}
    data |= {"slate": "bars", "pause": "hold", "outputs-TOTAL_FORMS": "2", "outputs-INITIAL_FORMS": "0"}
    data |= {"recoveries-TOTAL_FORMS": "0", "recoveries-INITIAL_FORMS": "0"}
    data |= {"events-TOTAL_FORMS": "0", "events-INITIAL_FORMS": "0"}
    for number in range(2):
        address = f"udp://239.1.1.1:500{number}"
        data |= {f"outputs-{number}-type": "udp", f"outputs-{number}-address": address}
        data |= {f"outputs-{number}-monitored_at": address, f"outputs-{number}-is_active": "on"}
    page = client.post(reverse("admin:playout_channel_change", args=[channel.pk]), data)
    assert "Another output of this channel is monitored already." in page.content.decode()
    assert not ChannelOutput.objects.exists()
