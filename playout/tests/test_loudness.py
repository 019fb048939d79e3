"""Clips are made equally loud by their measured loudness; the ceiling of the true peak holds."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from assets.models import Asset
from playout.channels.workload_spec import config_of
from playout.lists.loudness import gain_of
from playout.lists.rundown import filler_of, rundown_of
from playout.models import Channel, ChannelOutput
from station.clock import database_now
from station.models import ApiToken
from station.tokens import hash_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("lufs", "peak", "target", "gain"),
    [
        (-14.0, -0.5, -23.0, -9.0),
        (-30.0, -20.0, -23.0, 7.0),
        (-30.0, -4.0, -23.0, 3.0),  # the ceiling of -1 dBTP
        (-23.0, 0.5, -23.0, -1.5),
        (-30.0, None, -23.0, 0.0),  # not known how much it may be raised
        (-14.0, None, -23.0, -9.0),
        (None, None, -23.0, 0.0),
        (-14.0, -1.0, None, 0.0),
        (-69.0, -60.0, -23.0, 0.0),  # hardly any sound
    ],
)
def test_the_gain_of_a_clip(lufs: float | None, peak: float | None, target: float | None, gain: float) -> None:
    """P-09: target, ceiling, and what is left alone."""
    assert gain_of(Asset(loudness_lufs=lufs, true_peak_dbtp=peak), target) == gain


def test_the_rundown_carries_the_gain_of_clips_and_filler(channel: Channel) -> None:
    """P-09: the media worker is told, also by the version of the list."""
    asset = channel.playlist.items.order_by("position").first().asset  # type: ignore[union-attr]
    before = rundown_of(channel, database_now())
    assert before.rundown.items[0].gain_db == 0.0
    Asset.objects.filter(pk=asset.pk).update(loudness_lufs=-14.0, true_peak_dbtp=-1.0)
    channel.filler = Asset.objects.get(pk=asset.pk)
    prepared = rundown_of(channel, database_now())
    assert prepared.rundown.items[0].gain_db == -9.0
    assert prepared.version != before.version
    filler = filler_of(channel)
    assert filler is not None
    assert filler.gain_db == -9.0
    channel.loudness_lufs = None
    assert rundown_of(channel, database_now()).rundown.items[0].gain_db == 0.0


def test_a_constant_bitrate_has_room_for_the_picture_and_reaches_the_media_worker(channel: Any) -> None:
    """P-09: too little is refused in the form, with the least that is needed; the service is named."""
    output = ChannelOutput(channel=channel, type="udp", address="udp://239.1.1.1:5000", constant_bitrate="600k")
    with pytest.raises(ValidationError, match="at least"):
        output.full_clean()
    output.constant_bitrate = "2M"
    output.full_clean()
    output.save()
    with pytest.raises(ValidationError, match="Only SRT, UDP and RTP"):
        ChannelOutput(channel=channel, type="file", address="x", constant_bitrate="2M").full_clean()
    config = config_of(channel, [output], rundown_of(channel, database_now()))
    assert config.outputs[0].constant_bitrate == "2M"
    assert (config.service_name, config.service_provider) == (channel.name, channel.project.name)


def test_a_higher_picture_bitrate_needs_room_in_the_constant_bitrates_of_the_outputs(
    channel: Any, admin_user: Any, client: Client
) -> None:
    """P-09: over the API the channel and its outputs are changed apart; the refusal names the output."""
    ChannelOutput.objects.create(channel=channel, type="udp", address="udp://239.1.1.1:5000", constant_bitrate="2M")
    ApiToken.objects.create(name="t", user=admin_user, token_hash=hash_of("secret"), created_at=database_now())
    before = channel.video_bitrate
    for wanted, status in (("8M", 422), ("700k", 200)):
        answer = client.patch(
            f"/api/channels/{channel.pk}",
            {"video_bitrate": wanted},
            content_type="application/json",
            headers={"Authorization": "Bearer secret"},
        )
        assert answer.status_code == status, answer.content
        channel.refresh_from_db()
        assert channel.video_bitrate == (before if status == 422 else wanted)
        assert ("239.1.1.1" in answer.content.decode()) == (status == 422)
