"""Fixtures of the playout tests."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from testing.channels import make_channel


@pytest.fixture
def channel(process_node: Any, project: Any, settings: Any) -> Any:
    settings.WORKER_PREVIEW = False
    settings.MANUAL_WAIT_SECONDS = 40
    return make_channel(project, settings.RECORDINGS_DIR)


@pytest.fixture
def now(db: Any) -> datetime:
    from station.clock import database_now

    return database_now()


@pytest.fixture
def tomorrow(now: datetime) -> datetime:
    """The beginning of the next broadcast day."""
    from playout.lists.broadcast_days import begin_of, day_of

    return begin_of(day_of(now) + timedelta(days=1))


@pytest.fixture
def deck(project: Any) -> Any:
    """A recorder on DeckLink device 0 of n1; its source is shown live."""
    from nodes.models import Node
    from scheduling.models import Recorder

    node = Node.objects.create(name="n1", address="unix:///n1", media_dir="/m", state="up")
    return Recorder.objects.create(name="Deck", project=project, source_type="decklink", address="0", node=node)


@pytest.fixture
def deck_channel(deck: Any) -> Any:
    """Bound to n1, off air."""
    from playout.models import Channel, ChannelOutput

    channel = Channel.objects.create(name="One", project=deck.project, node=deck.node, picture="640x360p25")
    ChannelOutput.objects.create(channel=channel, type="hls", address="web")
    return channel
