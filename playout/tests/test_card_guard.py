"""A device or listening port has one user at a time: recorder or channel, now and in the future (R-14)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from nodes.models import Node, Reservation, Workload
from playout.channels import controls
from playout.channels.lifecycle import advance
from playout.channels.port_watch import review
from playout.models import Channel, ChannelOutput
from scheduling.bookings.changing import cancel
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.recording import preflight
from scheduling.recording.lifecycle import advance as start
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from station.models.alert import Severity

pytestmark = [pytest.mark.django_db, pytest.mark.database]

State = Channel.State
HOUR = timedelta(hours=1)
# Ports that only one may hold: (source of the recorder, output of the channel, name of the port).
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
    """A recorder and a channel that need the same port, and the name of the port."""
    (source_type, address), (output_type, output), words = request.param
    recorder = Recorder.objects.create(
        name="Studio", project=project, source_type=source_type, address=address, node=node
    )
    channel = Channel.objects.create(name="One", project=project, node=node, picture="640x360p25", is_wanted=True)
    ChannelOutput.objects.create(channel=channel, type=output_type, address=output)
    return recorder, channel, words


def look(channel: Channel, seconds: float = 0.0) -> Workload | None:
    """Advance the channel as the loop does; returns the workload it requested."""
    channel.refresh_from_db()
    advance(channel, database_now() + timedelta(seconds=seconds))
    channel.refresh_from_db()
    return Workload.objects.filter(owner=channel.owner).first()


def start_booking(booking: Booking, now: datetime) -> None:
    """Advance the booking as the loop does."""
    start(booking, now)
    booking.refresh_from_db()


def holders() -> set[str]:
    return set(Reservation.objects.standing().values_list("owner", flat=True))


@pytest.mark.parametrize("minutes_ahead", [0, 9])
def test_a_channel_does_not_take_a_port_that_a_recorder_needs_soon(
    shared: tuple[Recorder, Channel, str], minutes_ahead: int
) -> None:
    """R-14: within ten minutes it is not worth a start; it waits and names the holder."""
    recorder, channel, words = shared
    now = database_now()
    starts = now + timedelta(minutes=minutes_ahead)
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


@pytest.mark.parametrize("hours_ahead", [1, 24 * 7])
def test_a_booking_later_on_does_not_keep_a_channel_off_air(
    shared: tuple[Recorder, Channel, str], hours_ahead: int
) -> None:
    """R-14, P-15: the channel holds its port until the booking begins, and an alert says so ahead."""
    recorder, channel, words = shared
    now = database_now()
    starts = now + hours_ahead * HOUR
    booking = book(recorder, starts, starts + HOUR, now=now, title="Match")

    assert look(channel) is not None, channel.error

    held = Reservation.objects.standing().get(owner=channel.owner)
    assert (held.ends_at, held.is_cut_short) == (booking.opens_at, True)
    review(Term(), channel, now)
    alert = Alert.objects.get(key=f"port_clash:{channel.owner}")
    assert f"Channel One uses {words}; Studio (booking {booking.pk}) needs it at" in alert.text
    assert "Stop or move the channel by then, or that recording cannot start." in alert.text
    assert alert.severity == (Severity.CRITICAL if hours_ahead == 1 else Severity.WARNING)
    with pytest.raises(BookingRefused, match=f"{words} is held by channel One"):
        book(recorder, now + HOUR / 4, now + HOUR / 2, now=now)


def test_start_and_preflight_say_that_a_booking_needs_the_port_later(shared: tuple[Recorder, Channel, str]) -> None:
    """R-14, R-20: the person who starts the channel reads it, and Tonight shows that the booking would fail."""
    recorder, channel, words = shared
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now, title="Match")
    Booking.objects.update(next_preflight_at=None)
    assert look(channel) is not None, channel.error
    Workload.objects.update(state="running", progress={"frames": 9, "asrun_revision": 0}, heartbeat_at=now)
    assert look(channel) is not None
    assert channel.state == State.ON_AIR

    assert "needs it at" in controls._tell_start(channel).text
    booking.refresh_from_db()
    assert booking.next_preflight_at is not None, "it is checked again at once"
    [bad] = [finding for finding in preflight.check(booking, now) if not finding.is_good]
    assert f"{words} is in use by channel One, which must be stopped or moved by" in bad.text


def test_a_booking_does_not_take_the_port_from_a_channel_on_air_and_starts_when_it_is_free(
    shared: tuple[Recorder, Channel, str],
) -> None:
    """R-14, P-15: neither is cut off: the booking waits with an explanation until the channel is off air."""
    recorder, channel, words = shared
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now, title="Match")
    workload = look(channel)
    assert workload is not None, channel.error
    Workload.objects.update(state="running", progress={"frames": 9, "asrun_revision": 0}, heartbeat_at=now)
    look(channel)
    begun = now + HOUR + timedelta(seconds=1)

    booking.refresh_from_db()
    start_booking(booking, begun)

    assert booking.state == Booking.State.RETRY_WAIT
    assert f"{words} is in use by channel One" in booking.errors[-1]["error"]
    assert Alert.objects.filter(key=f"not_starting:{booking.owner}", severity=Severity.CRITICAL).exists()
    workload.refresh_from_db()
    assert workload.is_wanted
    Channel.objects.update(is_wanted=False)
    look(channel)
    Workload.objects.update(state="exited", removed_at=now)
    look(channel)
    assert holders() == {booking.owner}
    start_booking(booking, begun + timedelta(seconds=40))
    assert booking.state == Booking.State.STARTING
    assert Workload.objects.filter(owner=booking.owner).exists()


def test_the_channel_keeps_its_port_when_the_booking_is_cancelled(shared: tuple[Recorder, Channel, str]) -> None:
    """R-14, P-15: its hold has no end again, the alert is resolved, and no other booking gets in between."""
    recorder, channel, words = shared
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now)
    look(channel)
    term = Term()
    review(term, channel, now)
    assert cancel(booking, now=now, by="anna")

    review(term, channel, now + timedelta(minutes=1))

    held = Reservation.objects.standing().get()
    assert (held.owner, held.ends_at, held.is_cut_short) == (channel.owner, None, False)
    assert Alert.objects.get(key=f"port_clash:{channel.owner}").state == "resolved"
    with pytest.raises(BookingRefused, match=f"{words} is held by channel One"):
        book(recorder, now + HOUR, now + 2 * HOUR, now=now)


def test_a_channel_that_dies_just_before_a_booking_is_put_back_on_air_until_then(
    shared: tuple[Recorder, Channel, str],
) -> None:
    """R-14, P-05: it was on air, so the ten minutes do not count; once the booking has begun, they would be two."""
    recorder, channel, words = shared
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now)
    look(channel)
    Workload.objects.update(state="running", progress={"frames": 9, "asrun_revision": 0}, heartbeat_at=now)
    look(channel)

    def die() -> None:
        Workload.objects.update(state="failed", exit_reason="killed", exit_code=137, removed_at=now, is_wanted=False)

    die()
    for seconds in (3595, 3597, 3599):
        look(channel, seconds)
    assert Workload.objects.filter(owner=channel.owner).count() == 2, channel.error
    assert Reservation.objects.standing().get(owner=channel.owner).ends_at == booking.opens_at
    Workload.objects.filter(generation=2).update(state="running", progress={"frames": 9, "asrun_revision": 0})
    look(channel, 3599)
    assert channel.state == State.ON_AIR
    die()
    for seconds in (3610, 3620, 3640):
        look(channel, seconds)
    assert Workload.objects.filter(owner=channel.owner).count() == 2
    assert f"{words} is held by Studio (booking {booking.pk})" in channel.error


@pytest.mark.parametrize("hours_ahead", [0, 24 * 7])
def test_a_recorder_is_not_booked_on_a_port_that_a_channel_holds(
    shared: tuple[Recorder, Channel, str], hours_ahead: int
) -> None:
    """R-14: the refusal names the channel, and no booking is stored; the port is free when the channel is off air."""
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


def test_the_same_number_on_another_node_is_another_port(shared: tuple[Recorder, Channel, str], node: Node) -> None:
    """R-14: device 0 of n2 is not device 0 of n1."""
    recorder, channel, _ = shared
    other = Node.objects.create(name="n2", address="unix:///n2", media_dir="/m", state="up")
    Channel.objects.update(node=other)
    now = database_now()
    booking = book(recorder, now + HOUR, now + 2 * HOUR, now=now)
    assert look(channel) is not None, channel.error
    assert holders() == {booking.owner, channel.owner}
