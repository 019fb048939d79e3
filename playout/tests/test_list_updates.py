"""The list of a channel on air: the alert about a refused list ends when the media worker has the current one."""

from datetime import timedelta
from typing import Any

import pytest

from nodes.models import Node, Workload
from playout.channels.channel_alerts import alert
from playout.channels.list_updates import pass_on_list
from playout.lists.rundown import rundown_of
from playout.models import Channel, Playlist
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def channel(project: Any) -> Channel:
    playlist = Playlist.objects.create(name="Loop", project=project)
    return Channel.objects.create(name="One", project=project, playlist=playlist, state=Channel.State.ON_AIR)


def test_an_alert_about_a_refused_list_ends_when_the_list_is_changed_back(channel: Channel) -> None:
    """P-09: nobody sends a list that the media worker already has, so no command reports that all is well."""
    now = database_now()
    node = Node.objects.create(name="n", address="process", media_dir="/srv/media")
    workload = Workload.objects.create(
        owner=channel.owner,
        generation=1,
        node=node,
        name="one-g1",
        program="playout",
        control_port=9600,
        state=Workload.State.RUNNING,
        created_at=now,
        progress={"rundown": rundown_of(channel, now).version},
    )
    alert(channel, "list_refused", f"{channel} plays an old list", "too long", now - timedelta(minutes=1))

    pass_on_list(Term(), channel, workload, now)

    assert Alert.objects.get().state == Alert.State.RESOLVED
