"""If two users start or stop a channel at the same time, the audit log records only one of them as done."""

from typing import Any

import pytest

from playout.channels import controls
from playout.models import Channel, ChannelOutput, Playlist
from station.clock import database_now
from station.models import AuditEntry

pytestmark = [pytest.mark.django_db]

State = Channel.State


@pytest.fixture
def channel(project: Any, settings: Any) -> Channel:
    settings.MANUAL_WAIT_SECONDS = 0.0
    playlist = Playlist.objects.create(name="Loop", project=project)
    made = Channel.objects.create(name="One", project=project, playlist=playlist, state_since_at=database_now())
    ChannelOutput.objects.create(channel=made, type="udp", address="udp://127.0.0.1:5000")
    return made


def test_a_start_after_another_user_started_the_channel_is_recorded_as_nothing(channel: Channel) -> None:
    other = Channel.objects.get(pk=channel.pk)
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True)
    assert other.move(State.STARTING, now=database_now(), by="bert")

    outcome = controls.start(channel, by="anna")

    assert outcome.result == "nothing"
    assert [(entry.what, entry.result) for entry in AuditEntry.objects.all()] == [("start", "nothing")]


def test_a_stop_of_a_channel_that_just_went_off_air_is_recorded_as_nothing(channel: Channel) -> None:
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True, state=State.ON_AIR)
    channel.refresh_from_db()
    Channel.objects.filter(pk=channel.pk).update(is_wanted=False, state=State.OFF_AIR, state_since_at=database_now())

    outcome = controls.stop(channel, by="anna")

    assert (outcome.result, outcome.text) == ("nothing", "One is off air.")
    assert [(entry.what, entry.result) for entry in AuditEntry.objects.all()] == [("stop", "nothing")]


def test_a_start_is_recorded_as_done_although_no_node_is_available_yet(channel: Channel) -> None:
    outcome = controls.start(channel, by="anna")

    assert (outcome.is_done, outcome.is_good) == (True, False)
    assert AuditEntry.objects.get().result == "done"
