"""Reservations of live items follow the channel: its start, move and stop, and times that shift on air (P-15)."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from nodes.models import Node, Reservation, Workload
from playout.channels import port_watch
from playout.channels.port_watch import review, review_due, step
from playout.lists.broadcast_days import begin_of, day_of
from playout.models import Channel, Playlist
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Booking, Recorder
from scheduling.recording.workload_spec import ask_for_worker
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from testing.live_items import at, live, make_list, put_on_air, reserved, slate, take_off_air

pytestmark = [pytest.mark.django_db, pytest.mark.database]

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def channel(deck_channel: Channel) -> Channel:
    return deck_channel


def test_a_channel_that_may_run_anywhere_reserves_where_it_is_placed(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15: at its start, for tomorrow and later days; a move takes the reservations along, a stop releases them."""
    Channel.objects.update(node=None)
    channel.refresh_from_db()
    make_list(channel, tomorrow, now, live(deck, 600))
    later = begin_of(day_of(now) + 5 * DAY)
    make_list(channel, later, now, live(deck, 600))
    assert reserved(channel) == []
    term = Term()

    workload = put_on_air(channel)
    review_due(term, database_now())

    windows = [(tomorrow, tomorrow + 10 * MINUTE), (later, later + 10 * MINUTE)]
    assert reserved(channel) == [("DeckLink device 0 on n1", *window) for window in windows]
    other = Node.objects.create(name="n2", address="unix:///n2", media_dir="/m", state="up")
    Workload.objects.filter(pk=workload.pk).update(node=other)
    Channel.objects.update(ports_due_at=now)
    review_due(term, database_now())
    assert reserved(channel) == [("DeckLink device 0 on n2", *window) for window in windows]
    take_off_air(channel)
    assert reserved(channel) == []


def test_a_stop_releases_what_has_begun_and_keeps_what_is_planned(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15: nothing plays it any more, so the device is free; tomorrow's list still stands."""
    make_list(channel, now, now, live(deck, None))
    make_list(channel, tomorrow, now, live(deck, 600, title="Morning"))
    put_on_air(channel)
    review_due(Term(), database_now())
    assert len(reserved(channel)) == 2

    take_off_air(channel)

    assert reserved(channel) == [("DeckLink device 0 on n1", tomorrow, tomorrow + 10 * MINUTE)]
    book(deck, database_now(), tomorrow, now=now)


def test_planned_times_that_shift_move_the_reservation(channel: Channel, deck: Recorder, now: datetime) -> None:
    """P-15: a pause or a late item shifts what follows; the reservation follows at the next review."""
    today = begin_of(day_of(now))
    now = today + 6 * HOUR  # far from the end of the broadcast day, whenever this runs
    elapsed = (now - today).total_seconds()
    playlist = make_list(channel, now, now, slate(elapsed + 600), live(deck, 600))
    put_on_air(channel)
    on_air = playlist.items.order_by("position")[0]
    planned = today + timedelta(seconds=elapsed + 600)
    late = timedelta(minutes=3)
    place = {"key": str(on_air.pk), "offset_seconds": elapsed - late.total_seconds(), "at": now.isoformat()}
    Channel.objects.update(place=place, ports_due_at=now)

    review_due(Term(), now)

    [(_, starts_at, ends_at)] = reserved(channel)
    assert ends_at is not None
    assert abs(starts_at - (planned + late)) < timedelta(seconds=1)
    assert abs(ends_at - (planned + late + 10 * MINUTE)) < timedelta(seconds=1)
    channel.refresh_from_db()
    assert channel.ports_due_at == now + port_watch.ON_AIR_EVERY


def test_a_live_item_that_shifts_into_a_booking_raises_an_alert(
    channel: Channel, deck: Recorder, now: datetime
) -> None:
    """P-15: the booking keeps its time, the item keeps what is free; the alert names both."""
    today = begin_of(day_of(now))
    now = today + 6 * HOUR  # far from the end of the broadcast day, whenever this runs
    elapsed = (now - today).total_seconds()
    playlist = make_list(channel, now, now, slate(elapsed + 600), live(deck, 600))
    put_on_air(channel)
    planned = today + timedelta(seconds=elapsed + 600)
    booking = book(deck, planned + 10 * MINUTE, planned + HOUR, now=now, title="Match")
    on_air = playlist.items.order_by("position")[0]
    place = {"key": str(on_air.pk), "offset_seconds": elapsed - 180, "at": now.isoformat()}
    Channel.objects.update(place=place, ports_due_at=now)
    term = Term()

    review_due(term, now)

    [(_, _, ends_at)] = reserved(channel)
    assert ends_at == booking.opens_at
    alert = Alert.objects.get(key=f"port_clash:{channel.owner}")
    assert "“Deck” (" in alert.text
    assert f"held by Deck (booking {booking.pk})" in alert.text
    count = Reservation.objects.count()
    Channel.objects.update(ports_due_at=now)
    review_due(term, now + MINUTE)
    assert Reservation.objects.count() == count, "nothing is written while nothing changes"
    booking.move(Booking.State.CANCELLED, now=now)
    Reservation.objects.filter(owner=booking.owner).update(released_at=now)
    Channel.objects.update(ports_due_at=now)
    review_due(term, now + MINUTE)
    alert.refresh_from_db()
    assert alert.state == "resolved"


def test_a_loop_reserves_for_a_day_ahead_while_it_is_on_air(channel: Channel, deck: Recorder, now: datetime) -> None:
    """P-15: its times are not known, so the device is reserved for the next 24 hours; not before, not after."""
    make_list(channel, None, now, slate(600), live(deck, 600))
    assert reserved(channel) == []
    put_on_air(channel)

    review_due(Term(), database_now())

    [(_, starts_at, ends_at)] = reserved(channel)
    assert ends_at is not None
    assert abs(starts_at - now) < MINUTE
    assert 23 * HOUR - MINUTE <= ends_at - now <= 24 * HOUR
    with pytest.raises(BookingRefused, match="live item “Deck”"):
        book(deck, now + 20 * HOUR, now + 21 * HOUR, now=now)
    book(deck, now + 30 * HOUR, now + 31 * HOUR, now=now)
    take_off_air(channel)
    assert reserved(channel) == []


def test_a_fixed_start_of_a_list_for_any_day_reserves_its_own_time_only(
    channel: Channel, deck: Recorder, now: datetime
) -> None:
    """P-15: every day at that time, today and tomorrow."""
    begins = (now + 2 * HOUR).replace(minute=0, second=0, microsecond=0)
    make_list(channel, None, now, slate(600), live(deck, 1800, **at(begins)))
    put_on_air(channel)
    review_due(Term(), database_now())

    assert ("DeckLink device 0 on n1", begins, begins + 30 * MINUTE) in reserved(channel)
    assert len(reserved(channel)) <= 2
    book(deck, begins - HOUR, begins, now=now)


def test_the_loop_starts_although_a_booking_comes_and_gives_way_to_it(
    channel: Channel, deck: Recorder, now: datetime
) -> None:
    """P-15: the booking keeps its time and starts; the loop's item may be dark then, and the alert says so."""
    booking = book(deck, now + 5 * HOUR, now + 6 * HOUR, now=now)
    make_list(channel, None, now, slate(600), live(deck, 600))
    put_on_air(channel)

    review_due(Term(), database_now())

    [(_, _, ends_at)] = reserved(channel)
    assert ends_at == booking.opens_at
    assert f"booking {booking.pk}" in Alert.objects.get(key=f"port_clash:{channel.owner}").text
    begun = booking.opens_at
    for state in (Booking.State.ARMED, Booking.State.STARTING):
        assert booking.move(state, now=begun)
    assert ask_for_worker(booking, begun) is not None


def test_a_review_reads_two_days_however_many_lists_there_are(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15: the work is proportional to what may have changed."""
    make_list(channel, tomorrow, now, live(deck, 600))
    channel.refresh_from_db()
    term = Term()
    review(term, channel, now)

    def queries() -> int:
        channel.refresh_from_db()
        with CaptureQueriesContext(connection) as asked:
            review(term, channel, now)
        return len(asked)

    few = queries()
    for number in range(2, 8):
        make_list(channel, begin_of(day_of(now) + number * DAY), now, live(deck, 600))
    assert queries() == few


def test_a_review_after_a_takeover_asks_as_much_for_a_hundred_live_items_as_for_ten(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15, R-11: a new leader reviews all channels, and must not ask for each of their items."""

    def queries(day: datetime, items: int) -> int:
        make_list(channel, day, now, *[each for _ in range(items) for each in (live(deck, 60), slate(60))])
        channel.refresh_from_db()
        assert len(reserved(channel)) == items
        with CaptureQueriesContext(connection) as asked:
            review(Term(), channel, now)
        assert len(reserved(channel)) == items
        Reservation.objects.all().delete()
        Playlist.objects.all().delete()
        return len(asked)

    for day in (tomorrow, begin_of(day_of(now) + 3 * DAY)):
        assert queries(day, 100) == queries(day, 10)


def test_a_channel_without_live_items_is_not_reviewed_again(channel: Channel, now: datetime) -> None:
    """P-15: nothing to do, nothing asked."""
    make_list(channel, None, now, slate(600))
    put_on_air(channel)
    review_due(Term(), database_now())
    assert step(Term(), database_now()) is None
