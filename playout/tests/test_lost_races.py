"""Of two who start or stop a channel in the same moment, only one is on record as having done it."""

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


def test_a_start_that_somebody_else_made_first_is_not_claimed(channel: Channel) -> None:
    other = Channel.objects.get(pk=channel.pk)
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True)
    assert other.move(State.STARTING, now=database_now(), by="bert")

    outcome = controls.start(channel, by="anna")

    assert outcome.result == "nothing"
    assert [(entry.what, entry.result) for entry in AuditEntry.objects.all()] == [("start", "nothing")]


def test_a_stop_of_what_went_off_air_in_that_moment_is_not_claimed(channel: Channel) -> None:
    Channel.objects.filter(pk=channel.pk).update(is_wanted=True, state=State.ON_AIR)
    channel.refresh_from_db()
    Channel.objects.filter(pk=channel.pk).update(is_wanted=False, state=State.OFF_AIR, state_since_at=database_now())

    outcome = controls.stop(channel, by="anna")

    assert (outcome.result, outcome.text) == ("nothing", "One is off air.")
    assert [(entry.what, entry.result) for entry in AuditEntry.objects.all()] == [("stop", "nothing")]


def test_a_start_of_our_own_is_on_record_as_done_even_if_there_is_no_place_yet(channel: Channel) -> None:
    outcome = controls.start(channel, by="anna")

    assert (outcome.is_done, outcome.is_good) == (True, False)
    assert AuditEntry.objects.get().result == "done"
