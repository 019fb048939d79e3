"""One device or listening port, one user: a recorder against a channel, both ways, now and ahead of time (R-14)."""

from datetime import timedelta
from typing import Any

import pytest

from nodes.models import Node, Reservation, Workload
from playout.channels.lifecycle import advance
from playout.models import Channel, ChannelOutput
from scheduling.bookings.changing import cancel
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from station.clock import database_now
from station.models import Alert

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Channel.State
HOUR = timedelta(hours=1)
# What only one may hold: (source of the recorder, output of the channel, the thing in words).
CARD = (("decklink", "0"), ("decklink", "0"), "DeckLink device 0 on n1")
LISTENER = (
    ("srt", "srt://0.0.0.0:9000?mode=listener"),
    ("srt", "srt://0.0.0.0:9000?mode=listener"),
    "UDP port 9000 on n1",
)


@pytest.fixture
def node() -> Node:
    return Node.objects.create(name="n1", address="unix:///n1", media_dir="/m", state="up")


@pytest.fixture(params=[CARD, LISTENER], ids=["card", "listener"])
def shared(request: pytest.FixtureRequest, node: Node, project: Any) -> tuple[Recorder, Channel, str]:
    """A recorder and a channel that need the same thing, and the thing in words."""
    (source_type, address), (output_type, output), words = request.param
    recorder = Recorder.objects.create(
        name="Studio", project=project, source_type=source_type, address=address, node=node
    )
    channel = Channel.objects.create(name="One", project=project, node=node, picture="640x360p25", is_wanted=True)
    ChannelOutput.objects.create(channel=channel, type=output_type, address=output)
    return recorder, channel, words


def look(channel: Channel, seconds: float = 0.0) -> Workload | None:
    """What the loop does with it at that moment; answers the worker it asked for."""
    channel.refresh_from_db()
    advance(channel, database_now() + timedelta(seconds=seconds))
    channel.refresh_from_db()
    return Workload.objects.filter(owner=channel.owner).first()


def holders() -> set[str]:
    return set(Reservation.objects.standing().values_list("owner", flat=True))


@pytest.mark.parametrize("hours_ahead", [0, 24 * 7])
def test_a_channel_does_not_take_what_a_recorder_has_booked(
    shared: tuple[Recorder, Channel, str], hours_ahead: int
) -> None:
    """R-14: it waits, says who has it, and gets it when the booking is gone. A channel has no end: so ahead, too."""
    recorder, channel, words = shared
    now = database_now()
    starts = now + hours_ahead * HOUR
    booking = book(recorder, starts, starts + HOUR, now=now, title="Match")

    assert look(channel) is None

    assert channel.state == State.STARTING
    assert f"{words} is held by" in channel.error
    assert f"booking {booking.pk}" in channel.error
    assert Alert.objects.filter(key=f"off_air:{channel.owner}", state="open").exists()
    assert holders() == {booking.owner}
    assert cancel(booking, now=now, by="anna")
    assert look(channel, 60) is not None, channel.error
    assert holders() == {channel.owner}


@pytest.mark.parametrize("hours_ahead", [0, 24 * 7])
def test_a_recorder_is_not_booked_on_what_a_channel_holds(
    shared: tuple[Recorder, Channel, str], hours_ahead: int
) -> None:
    """R-14: refused by name, without a trace; free again when the channel is off air."""
    recorder, channel, words = shared
    assert look(channel) is not None, channel.error
    now = database_now()
    starts = now + hours_ahead * HOUR

    with pytest.raises(BookingRefused, match=f"{words} is held by channel One"):
        book(recorder, starts, starts + HOUR, now=now)

    assert not Booking.objects.exists()
    assert holders() == {channel.owner}
    Channel.objects.update(is_wanted=False)
    look(channel)
    Workload.objects.update(state="exited", removed_at=now)
    look(channel)
    assert channel.state == State.OFF_AIR
    booking = book(recorder, starts, starts + HOUR, now=now)
    assert holders() == {booking.owner}


def test_the_same_number_on_another_node_is_another_thing(shared: tuple[Recorder, Channel, str], node: Node) -> None:
    """R-14: device 0 of n2 is not device 0 of n1."""
    recorder, channel, _ = shared
    other = Node.objects.create(name="n2", address="unix:///n2", media_dir="/m", state="up")
    Channel.objects.update(node=other)
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now)
    assert look(channel) is not None, channel.error
    assert holders() == {booking.owner, channel.owner}
